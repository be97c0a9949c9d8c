#include <qm/rewind.hpp>

#include "fastpath/inlined_section.hpp"

extern "C" {
// Defined by the linker script, and not weak: without them no interrupt would rewind a section, and nothing would show
// it. An image that creates an inlined cache does not link until its script has
//   qm_sections : { __qm_sections_start = .; *(qm_sections) __qm_sections_end = .; }
extern const qm::InlinedSection __qm_sections_start[];
extern const qm::InlinedSection __qm_sections_end[];
}

bool qm::inlined_sections_in_order() noexcept {
  const InlinedSection* before = __qm_sections_start;
  if (before == __qm_sections_end) return true;
  for (const InlinedSection* section = before + 1; section != __qm_sections_end; before = section++) {
    if (section->start() < before->start() + before->end) return false;
  }
  return true;
}
