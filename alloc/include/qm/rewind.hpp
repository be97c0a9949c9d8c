#pragma once
/// The hook that a port's trap entry calls to rewind restartable sections.
///
/// The fast path pops and pushes without masking interrupts: each section ends in one committing store, and an
/// interrupt before that store makes the section start again. A port's trap entry calls qm_rewind() once for every
/// interrupt, before its handler may allocate, enable interrupts or switch context, and later resumes at the returned
/// address. Exceptions are not rewound: inside a section they are bugs, and a rewind would hide the place. Reports keep
/// the pc that the trap found.
///
/// A program that has sections but does not call qm_rewind() does not link: `undefined reference to
/// qm_rewind_is_called`. The call below defines that symbol where it is compiled. A trap entry in another language
/// calls the C function `qm_rewind` and must define the symbol itself. So must a program that takes no interrupts at
/// all: `-Wl,--defsym=qm_rewind_is_called=0`.

#include <cstdint>

#include <qm/config.h>

/// The function behind qm_rewind(); its linker name, for trap entries in other languages, is qm_rewind too.
extern "C" std::uintptr_t qm_rewind_from(std::uintptr_t pc, const std::uintptr_t* registers) noexcept asm("qm_rewind");

/// @param[in] pc        the interrupted address.
/// @param[in] registers x0 to x31 at the interrupt, x0 unused; not changed.
/// @returns the pc at which to resume: the section's start, if @p pc is in a section at or before its commit; the
///          address behind the counter's store, if @p pc is at that store, which is then done here (QM_COUNT); @p pc
///          elsewhere.
/// Complexity: outside sections a range check; in images that inline sections (inline_sections.hpp) also a binary
///             search in their table.
/// Context:    the trap entry, interrupts masked.
[[gnu::always_inline]] inline std::uintptr_t qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
#if defined(QM_TARGET)
  asm volatile(".weak qm_rewind_is_called\n.set qm_rewind_is_called, 0");
#endif
  return qm_rewind_from(pc, registers);
}

namespace qm {
/// Whether the linker has sorted the table of inlined sections in the order of the text, as qm_rewind() requires; true
/// if there is no table. Checked when an inline cache is created. Complexity: O(sections).
[[nodiscard]] bool inlined_sections_in_order() noexcept;
}  // namespace qm
