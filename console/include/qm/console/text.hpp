#pragma once
/// String operations for freestanding code. std::string_view::find() needs a libc (memchr), and substr() may throw.

#include <cstddef>
#include <string_view>

namespace qm::console {

inline constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);

/// @returns up to @p count characters of @p text from @p start on; empty past the end.
[[nodiscard]] constexpr std::string_view part(std::string_view text, std::size_t start,
                                              std::size_t count = kNowhere) noexcept {
  if (start >= text.size()) return {};
  const std::size_t rest = text.size() - start;
  return {text.data() + start, count < rest ? count : rest};
}

/// @returns the index of the first @p c at or after @p start; kNowhere if there is none.
[[nodiscard]] constexpr std::size_t find(std::string_view text, char c, std::size_t start = 0) noexcept {
  for (std::size_t at = start; at < text.size(); ++at) {
    if (text[at] == c) return at;
  }
  return kNowhere;
}

[[nodiscard]] constexpr bool starts_with(std::string_view text, std::string_view beginning) noexcept {
  return text.size() >= beginning.size() && part(text, 0, beginning.size()) == beginning;
}

[[nodiscard]] constexpr bool contains(std::string_view text, std::string_view what) noexcept {
  for (std::size_t at = 0; at + what.size() <= text.size(); ++at) {
    if (part(text, at, what.size()) == what) return true;
  }
  return false;
}

/// @returns the characters of @p text up to its terminating zero.
[[nodiscard]] constexpr std::string_view from_c(const char* text) noexcept {
  std::size_t length = 0;
  while (text[length] != '\0') ++length;
  return {text, length};
}

}  // namespace qm::console
