#pragma once
/// Conversions between characters and string_view without a C library, which an embedder may not have.

#include <cstddef>
#include <string_view>

namespace qm::trace {

/// The characters of @p text before its final zero.
[[nodiscard]] constexpr std::string_view characters(const char* text) noexcept {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return {text, length};
}

/// Copies at most @p room characters of @p text to @p to. @returns the number copied. Not std::string_view::copy():
/// where its check is not inlined, it calls libstdc++.
constexpr std::size_t copy_characters(std::string_view text, char* to, std::size_t room) noexcept {
  const std::size_t count = text.size() < room ? text.size() : room;
  for (std::size_t i = 0; i < count; ++i) to[i] = text[i];
  return count;
}

}  // namespace qm::trace
