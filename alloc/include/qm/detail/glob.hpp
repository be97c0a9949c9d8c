#pragma once
/// Name patterns: `*` stands for any characters, `?` for one. Needs no C library, which an embedder may not have.

#include <cstddef>
#include <string_view>

namespace qm {

/// Whether @p pattern contains `*` or `?`.
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

/// A name for all sources of the heap: the caches `kmalloc_*` of its size classes, each of which is created after the
/// first requests of its size, and `kheap`, the arena of its blocks.
inline constexpr std::string_view kHeapSources = "kmalloc";

/// Whether @p pattern may name several sources, including sources that do not exist yet.
[[nodiscard]] constexpr bool names_many(std::string_view pattern) noexcept {
  return is_glob(pattern) || pattern == kHeapSources;
}

/// Whether @p pattern - a name, a glob or kHeapSources - names the source called @p name.
[[nodiscard]] constexpr bool names(std::string_view pattern, std::string_view name) noexcept {
  if (glob_matches(pattern, name)) return true;
  return pattern == kHeapSources && (name == "kheap" || glob_matches("kmalloc_*", name));
}

}  // namespace qm
