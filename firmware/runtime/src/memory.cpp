/// The four memory functions that the compiler may call, and the functions that string_view needs. If source and
/// destination have the same alignment, they copy words, in runs of eight words. This file is built without the
/// loop-to-call transformation, with which memset would call itself.

#include <cstddef>
#include <cstdint>

namespace {

using Word [[gnu::may_alias]] = std::uintptr_t;
constexpr std::size_t kWord = sizeof(Word);
constexpr std::size_t kRun = 8 * kWord;

bool same_alignment(const void* a, const void* b) noexcept {
  return ((reinterpret_cast<std::uintptr_t>(a) ^ reinterpret_cast<std::uintptr_t>(b)) % kWord) == 0;
}

bool aligned(const void* p) noexcept { return reinterpret_cast<std::uintptr_t>(p) % kWord == 0; }

Word* word_at(void* p) noexcept { return static_cast<Word*>(p); }
const Word* word_at(const void* p) noexcept { return static_cast<const Word*>(p); }

}  // namespace

extern "C" {

void* memcpy(void* __restrict to, const void* __restrict from, std::size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  const auto* in = static_cast<const unsigned char*>(from);
  if (same_alignment(out, in)) {
    for (; bytes != 0 && !aligned(out); --bytes) *out++ = *in++;
    for (; bytes >= kRun; bytes -= kRun, out += kRun, in += kRun) {
#pragma GCC unroll 8
      for (unsigned i = 0; i < 8; ++i) word_at(out)[i] = word_at(in)[i];
    }
    for (; bytes >= kWord; bytes -= kWord, out += kWord, in += kWord) {
      *word_at(out) = *word_at(in);
    }
  }
  for (; bytes != 0; --bytes) *out++ = *in++;
  return to;
}

void* memmove(void* to, const void* from, std::size_t bytes) noexcept {
  auto* const out = static_cast<unsigned char*>(to);
  const auto* const in = static_cast<const unsigned char*>(from);
  if (reinterpret_cast<std::uintptr_t>(out) - reinterpret_cast<std::uintptr_t>(in) >= bytes)
    return memcpy(to, from, bytes);
  while (bytes != 0) {
    --bytes;
    out[bytes] = in[bytes];
  }
  return to;
}

void* memset(void* to, int value, std::size_t bytes) noexcept {
  auto* out = static_cast<unsigned char*>(to);
  const auto byte = static_cast<unsigned char>(value);
  const Word word = ~Word{0} / 255 * byte;
  for (; bytes != 0 && !aligned(out); --bytes) *out++ = byte;
  for (; bytes >= kRun; bytes -= kRun, out += kRun) {
#pragma GCC unroll 8
    for (unsigned i = 0; i < 8; ++i) word_at(out)[i] = word;
  }
  for (; bytes >= kWord; bytes -= kWord, out += kWord) *word_at(out) = word;
  for (; bytes != 0; --bytes) *out++ = byte;
  return to;
}

int memcmp(const void* a, const void* b, std::size_t bytes) noexcept {
  const auto* left = static_cast<const unsigned char*>(a);
  const auto* right = static_cast<const unsigned char*>(b);
  for (; bytes != 0; --bytes, ++left, ++right) {
    if (*left != *right) return *left - *right;
  }
  return 0;
}

std::size_t strlen(const char* text) noexcept {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return length;
}

void* memchr(const void* from, int value, std::size_t bytes) noexcept {
  const auto* in = static_cast<const unsigned char*>(from);
  for (; bytes != 0; --bytes, ++in) {
    if (*in == static_cast<unsigned char>(value)) return const_cast<unsigned char*>(in);
  }
  return nullptr;
}

int strcmp(const char* a, const char* b) noexcept {
  while (*a != 0 && *a == *b) ++a, ++b;
  return static_cast<unsigned char>(*a) - static_cast<unsigned char>(*b);
}
}
