#pragma once
/// Bit scans and rounding without libgcc, and relaxed stores. rv64gc has no bit-scan instruction, and libgcc's
/// substitute is a call and a loop.

#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <qm/config.h>

namespace qm {

/// A machine word as an integer: counters without an 8-byte atomic on RV32.
using Word = unsigned long;

/// Bits in a machine word; sizes and addresses have this width.
inline constexpr unsigned kWordBits = std::numeric_limits<std::size_t>::digits;

#if defined(__riscv) && !defined(__riscv_zbb)
inline constexpr bool kHasBitScan = false;
#else
inline constexpr bool kHasBitScan = true;
#endif

namespace detail {
/// A de Bruijn sequence of the word: its bits differ in each position of a window, so multiplying it by a power of two
/// leaves a code of the exponent in the upper bits.
inline constexpr std::size_t kDeBruijn =
    static_cast<std::size_t>(kWordBits == 64 ? 0x03f79d71b4cb0a89ULL : 0x077cb531ULL);
inline constexpr unsigned kDeBruijnShift = kWordBits == 64 ? 58 : 27;

struct DeBruijnTable {
  std::uint8_t index[kWordBits] = {};
  constexpr DeBruijnTable() noexcept {
    for (unsigned bit = 0; bit < kWordBits; ++bit) {
      index[(kDeBruijn << bit) >> kDeBruijnShift] = static_cast<std::uint8_t>(bit);
    }
  }
};
inline constexpr DeBruijnTable kDeBruijnTable;
}  // namespace detail

/// @returns the number of the only set bit of @p word.
/// Complexity: 4 instructions where there is no bit-scan instruction.
[[nodiscard]] constexpr unsigned only_bit(std::size_t word) noexcept {
  if constexpr (kHasBitScan) {
    return static_cast<unsigned>(std::countr_zero(word));
  } else {
    return detail::kDeBruijnTable.index[(word * detail::kDeBruijn) >> detail::kDeBruijnShift];
  }
}

/// @returns the number of the lowest set bit of @p word, which is not 0.
/// Complexity: 6 instructions where there is no bit-scan instruction.
[[nodiscard]] constexpr unsigned lowest_bit(std::size_t word) noexcept {
  return only_bit(kHasBitScan ? word : word & (~word + 1));
}

/// @returns the number of the highest set bit of @p word, which is not 0.
/// Complexity: about 18 instructions where there is no bit-scan instruction.
[[nodiscard]] constexpr unsigned floor_log2(std::size_t word) noexcept {
  if constexpr (kHasBitScan) {
    return kWordBits - 1 - static_cast<unsigned>(std::countl_zero(word));
  } else {
    // Halving, since sizes are mostly small: a branch that is not taken costs two instructions.
    unsigned log2 = 0;
    if constexpr (kWordBits == 64) {
      if (word >> (kWordBits / 2) != 0) word >>= kWordBits / 2, log2 += kWordBits / 2;
    }
    if (word >> 16 != 0) word >>= 16, log2 += 16;
    if (word >> 8 != 0) word >>= 8, log2 += 8;
    if (word >> 4 != 0) word >>= 4, log2 += 4;
    return log2 + (0xffffaa50U >> (2 * word) & 3);  // two bits for each number from 0 to 15
  }
}

[[nodiscard]] constexpr bool is_power_of_two(std::size_t word) noexcept {
  return word != 0 && (word & (word - 1)) == 0;
}

/// @returns @p value rounded up to a multiple of @p unit (any integer above 0); 0 for 0 and if the result does not fit
///          a word.
[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t unit) noexcept {
  const std::size_t rest = value % unit;
  if (rest == 0) return value;
  const std::size_t rounded = value + (unit - rest);
  return rounded < value ? 0 : rounded;
}

[[nodiscard]] constexpr std::size_t round_down(std::size_t value, std::size_t unit) noexcept {
  return value - value % unit;
}

/// The next of a sequence of pseudo-random numbers (xorshift). @param[in,out] state never 0.
inline std::uint32_t next_random(std::uint32_t& state) noexcept {
  state ^= state << 13;
  state ^= state >> 17;
  state ^= state << 5;
  return state;
}

/// A relaxed store of at most a word in one instruction: GCC 12 compiles atomic::store() to an AMO for RISC-V.
template <class T>
[[gnu::always_inline]] inline void store_relaxed(T& to, std::type_identity_t<T> value) noexcept {
  static_assert(sizeof(T) <= sizeof(void*));
#if defined(__riscv)
  *const_cast<T volatile*>(&to) = value;  // aligned, so atomic; volatile, so that it stays one store
#else
  std::atomic_ref<T>(to).store(value, std::memory_order_relaxed);
#endif
}
template <class T>
[[gnu::always_inline]] inline void store_relaxed(std::atomic<T>& to, std::type_identity_t<T> value) noexcept {
  static_assert(sizeof(to) == sizeof(T));
#if defined(__riscv)
  // GCC compiles atomic stores below 32 bits to one instruction, but truncates the value first for a volatile store.
  if constexpr (sizeof(T) >= sizeof(std::uint32_t)) return store_relaxed(reinterpret_cast<T&>(to), value);
#endif
  to.store(value, std::memory_order_relaxed);
}

/// A relaxed load of 32 bits, sign-extended: after an atomic load GCC 12 extends the value a second time.
[[nodiscard, gnu::always_inline]] inline std::intptr_t load_relaxed(const std::atomic<std::uint32_t>& from) noexcept {
#if defined(__riscv)
  std::intptr_t value = 0;
  asm volatile("lw %0, %1" : "=r"(value) : "m"(from));
  return value;
#else
  return static_cast<std::int32_t>(from.load(std::memory_order_relaxed));
#endif
}

/// A relaxed load and a relaxed store of 32 bits, without the second extension.
[[gnu::always_inline]] inline void copy_relaxed(std::uint32_t& to, const std::atomic<std::uint32_t>& from) noexcept {
#if defined(__riscv)
  std::intptr_t value = 0;
  asm volatile("lw %0, %2\n\tsw %0, %1" : "=&r"(value), "=m"(to) : "m"(from));
#else
  std::atomic_ref(to).store(from.load(std::memory_order_relaxed), std::memory_order_relaxed);
#endif
}

/// A relaxed store of the lower 32 bits of @p value, which GCC 12 would extend before the store.
[[gnu::always_inline]] inline void store_lower_relaxed(std::atomic<std::uint32_t>& to, std::uintptr_t value) noexcept {
#if defined(__riscv)
  asm volatile("sw %1, %0" : "=m"(to) : "r"(value));
#else
  to.store(static_cast<std::uint32_t>(value), std::memory_order_relaxed);
#endif
}

/// Copies words of any type with relaxed stores. No other hart writes them.
[[gnu::always_inline]] inline void copy_relaxed(void* to, const void* from, std::size_t words) noexcept {
  using Any [[gnu::may_alias]] = Word;
  Any* const target = static_cast<Any*>(to);  // auto would drop the attribute
  const Any* const source = static_cast<const Any*>(from);
  for (std::size_t i = 0; i != words; ++i) {
#if defined(__riscv)
    *const_cast<volatile Any*>(target + i) = source[i];  // as store_relaxed()
#else
    __atomic_store_n(target + i, source[i], __ATOMIC_RELAXED);
#endif
  }
}

/// The memory order of a load whose value is only dereferenced, as a pointer or as an index: the hart then sees what
/// the publisher wrote before it published the value. RISC-V orders a load after the load that its address depends on
/// (RVWMO, rule 9), without a fence.
#if defined(__riscv)
inline constexpr std::memory_order kFollowed = std::memory_order_relaxed;
#else
inline constexpr std::memory_order kFollowed = std::memory_order_acquire;
#endif

/// As load_relaxed(), with the order kFollowed.
[[nodiscard, gnu::always_inline]] inline std::intptr_t load_followed(const std::atomic<std::uint32_t>& from) noexcept {
#if defined(__riscv)
  return load_relaxed(from);
#else
  return static_cast<std::int32_t>(from.load(kFollowed));
#endif
}

/// Whether this build counts every allocation.
#if defined(QM_COUNT)
inline constexpr bool kCounted = true;
#else
inline constexpr bool kCounted = false;
#endif

/// Replaces a count in a build that does not count.
struct NoCount {
  [[nodiscard]] Word load(std::memory_order) const noexcept { return 0; }
  [[nodiscard]] operator Word() const noexcept { return 0; }
};
inline void store_relaxed(NoCount&, Word) noexcept {}
inline NoCount& operator+=(NoCount& count, Word) noexcept { return count; }

}  // namespace qm
