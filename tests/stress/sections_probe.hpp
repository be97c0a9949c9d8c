#pragma once
/// Where interrupts fall: the trap entry's hook, wrapped at link time (--wrap=qm_rewind), counts them by instruction of
/// the restartable sections, and can leave the rewind out. With QM_FAST_PATH=masked there are no sections: each
/// interrupt counts.

#include <cstdint>

#include <qm/config.h>

namespace probe {

enum class Form : std::uint8_t { kOutOfLine, kInlined, kHeap };

/// Whether this build has sections.
#if defined(QM_FAST_PATH_SECTIONS)
inline constexpr bool kSections = true;
#else
inline constexpr bool kSections = false;
#endif

/// Whether interrupted sections start again, as they must.
extern bool rewinding;

void reset() noexcept;

/// Interrupts since reset() at an instruction of a section of @p form, from its first to its commit; all of them if
/// masked.
[[nodiscard]] std::uint32_t inside(Form form) noexcept;

/// Interrupts since reset() at the store of a count behind a commit.
[[nodiscard]] std::uint32_t at_count(Form form) noexcept;

/// @returns how many instructions of the sections, from the first to the commit, no interrupt has hit since reset(). Of
///          the inlined sections those of @p function are looked at: its first @p sections ones; otherwise it does not
///          matter.
[[nodiscard]] unsigned missed(Form form, void (*function)(unsigned), unsigned sections) noexcept;

}  // namespace probe
