#pragma once
/// Name patterns: `*` stands for any characters, `?` for one. Nothing here needs a C library, which an embedder may not
/// have.

#include <string_view>

namespace qm::trace {

/// The characters of @p text up to its final zero.
[[nodiscard]] constexpr std::string_view characters(const char* text) noexcept {
  std::size_t length = 0;
  while (text[length] != 0) ++length;
  return {text, length};
}

/// Whether @p pattern is more than a plain name.
[[nodiscard]] constexpr bool is_glob(std::string_view pattern) noexcept {
  for (const char c : pattern) {
    if (c == '*' || c == '?') return true;
  }
  return false;
}

/// Whether @p name matches all of @p pattern. Complexity: O(pattern * name).
[[nodiscard]] constexpr bool glob_matches(std::string_view pattern, std::string_view name) noexcept {
  std::size_t at = 0;
  std::size_t in = 0;
  std::size_t star = std::string_view::npos;  // the last `*`, and where its match may end
  std::size_t retry = 0;
  while (in < name.size()) {
    if (at < pattern.size() && pattern[at] == '*') {
      star = at++;
      retry = in;
    } else if (at < pattern.size() && (pattern[at] == '?' || pattern[at] == name[in])) {
      ++at;
      ++in;
    } else if (star != std::string_view::npos) {
      at = star + 1;
      in = ++retry;
    } else {
      return false;
    }
  }
  while (at < pattern.size() && pattern[at] == '*') ++at;
  return at == pattern.size();
}

}  // namespace qm::trace
