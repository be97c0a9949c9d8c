#pragma once
/// The hook of the restartable sections in the trap entry.
///
/// The fast path pops and pushes without masking interrupts: each section ends in one committing store, and whoever
/// interrupts a section before that store makes it start again. A port's trap entry calls qm_rewind() once for every
/// interrupt, before its handler may allocate, enable interrupts or switch context, and resumes at what it returns.
/// Exceptions are not rewound: inside a section they are bugs, and a rewind would hide where. Reports keep the pc that
/// the trap found.
///
/// A program that has sections and no such call does not link: `undefined reference to qm_rewind_is_called`. The call
/// below defines that symbol where it is compiled. A trap entry in another language calls the C function `qm_rewind` and
/// defines it itself, and so does a program that takes no interrupts at all: `-Wl,--defsym=qm_rewind_is_called=0`.

#include <cstdint>

#include <qm/config.h>

/// What qm_rewind() calls; its own name, for the linker and for who calls it from another language, is qm_rewind too.
extern "C" std::uintptr_t qm_rewind_from(std::uintptr_t pc, const std::uintptr_t* registers) noexcept asm("qm_rewind");

/// @param[in] pc        where the interrupt was taken.
/// @param[in] registers x0 to x31 as the interrupt found them, x0 unused; not changed.
/// @returns the pc at which to resume: the section's start, if @p pc is in a section at or before its commit; behind
///          the counter's store, done here, if it is at that store (QM_COUNT); @p pc elsewhere.
/// Complexity: when outside, a range check; in images that inline sections (inline_sections.hpp) also a binary search
///             in their table.
/// Context:    the trap entry, interrupts masked.
[[gnu::always_inline]] inline std::uintptr_t qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
#if defined(QM_TARGET)
  asm volatile(".weak qm_rewind_is_called\n.set qm_rewind_is_called, 0");
#endif
  return qm_rewind_from(pc, registers);
}

namespace qm {
/// Whether the linker has sorted the table of inlined sections as the text, which qm_rewind() relies on; true if there
/// is none. Asked when an inlined cache is created. Complexity: O(sections).
[[nodiscard]] bool inlined_sections_in_order() noexcept;
}  // namespace qm
