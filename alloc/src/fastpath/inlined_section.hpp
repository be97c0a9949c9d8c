#pragma once
/// An entry of the table of inlined sections, written by the callers' `asm goto` (inline_sections.hpp).

#include <cstdint>

namespace qm {

struct InlinedSection {
  std::int32_t start_distance;  ///< from this word
  std::uint16_t commit;         ///< bytes from the start
  std::uint16_t end;            ///< behind the last store: 4 after the commit, 8 where a count follows it

  [[nodiscard]] std::uintptr_t start() const noexcept {
    return reinterpret_cast<std::uintptr_t>(&start_distance) +
           static_cast<std::uintptr_t>(std::intptr_t{start_distance});
  }
};
static_assert(sizeof(InlinedSection) == 8);

}  // namespace qm
