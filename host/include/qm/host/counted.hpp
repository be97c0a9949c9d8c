#pragma once
/// Numbers with nouns, in words.

#include <cstdint>
#include <string>
#include <string_view>

namespace qm::host {

/// @returns `1 cache`, `2 caches`: @p count and the noun @p one, singular or plural.
/// @param[in] many the plural, if it is not @p one and an s.
[[nodiscard]] inline std::string counted(std::uint64_t count, std::string_view one, std::string_view many = {}) {
  std::string text = std::to_string(count) + " ";
  if (count == 1) return text.append(one);
  return many.empty() ? text.append(one).append("s") : text.append(many);
}

}  // namespace qm::host
