#pragma once
/// What a checking build and a quarantine do to free objects: a pattern, and a checksum that shows a later write. A
/// checking build of the host also hides them from AddressSanitizer and valgrind.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include <qm/config.h>

/// For functions that read other code's memory: stacks, objects with redzones between them, words that change.
#if defined(__clang__) || !defined(__GNUC__)
#define QM_UNSANITIZED [[gnu::noinline]] __attribute__((no_sanitize("address", "thread")))
#else
#define QM_UNSANITIZED [[gnu::noinline, gnu::no_sanitize_address, gnu::no_sanitize_thread]]
#endif

namespace qm::poison {

/// Reads a word that is hidden, or that another hart may change at this moment.
template <class T>
QM_UNSANITIZED T glance(const T& at) noexcept {
  return at;
}

inline constexpr unsigned char kFree = 0xa5;
inline constexpr unsigned char kRedzone = 0x5c;
inline constexpr std::size_t kNone = ~std::size_t{0};

/// Multiplication by an odd number is one to one, so a single changed word always changes the sum. Complexity: O(size).
[[nodiscard]] inline std::uint32_t sum_of(const void* object, std::size_t size) noexcept {
  const auto* at = static_cast<const unsigned char*>(object);
  std::uint32_t sum = static_cast<std::uint32_t>(size);
  for (; size >= sizeof sum; size -= sizeof sum, at += sizeof sum) {
    std::uint32_t word = 0;
    std::memcpy(&word, at, sizeof word);
    sum = (sum ^ word) * 0x9e3779b1U;
    sum ^= sum >> 15;
  }
  for (; size != 0; --size) sum = (sum ^ *at++) * 0x9e3779b1U;
  return sum;
}

/// Offset of the first byte in [from, to) that is not @p pattern, kNone if all are.
[[nodiscard]] inline std::size_t first_other(const void* object, std::size_t from, std::size_t to,
                                             unsigned char pattern) noexcept {
  const auto* at = static_cast<const unsigned char*>(object);
  const std::size_t words = pattern * (~std::size_t{0} / 0xff);
  const auto is_aligned = [&] { return reinterpret_cast<std::uintptr_t>(at + from) % sizeof words == 0; };
  while (from < to && !is_aligned() && at[from] == pattern) ++from;
  const std::size_t end = is_aligned() ? to : 0;
  for (std::size_t word = 0; from + sizeof word <= end; from += sizeof word) {
    __builtin_memcpy(&word, __builtin_assume_aligned(at + from, sizeof word), sizeof word);
    if (word != words) break;
  }
  while (from < to && at[from] == pattern) ++from;
  return from < to ? from : kNone;
}

/// The offset at which a free object of @p size bytes, whose sum was @p sum, has changed; 0 if it is not known, because
/// the object was not filled with the pattern; kNone if it has not changed.
[[nodiscard]] inline std::size_t damage_of(const void* object, std::size_t size, std::uint32_t sum,
                                           bool is_filled) noexcept {
  if (sum_of(object, size) == sum) return kNone;
  const std::size_t first = is_filled ? first_other(object, 0, size, kFree) : kNone;
  return first != kNone ? first : 0;
}

/// Whether this build hides free memory from programs that run under AddressSanitizer or valgrind.
#if defined(QM_CHECKED) && !defined(__riscv)
inline constexpr bool kHides = true;
#else
inline constexpr bool kHides = false;
#endif

/// Tells AddressSanitizer and valgrind that each access to the memory is a misuse, until show(). Without effect in a
/// program that runs under neither. Precondition: kHides. Complexity: O(size), an eighth of the cost of writing it.
void hide(void* start, std::size_t size) noexcept;

/// Tells both that accesses are allowed, and valgrind that the memory is initialized.
void show(void* start, std::size_t size) noexcept;

}  // namespace qm::poison
