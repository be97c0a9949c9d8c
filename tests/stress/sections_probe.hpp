#pragma once
/// Positions of interrupts: the trap entry's hook, wrapped at link time (--wrap=qm_rewind), counts them for each
/// instruction of the restartable sections, and can leave out the rewind. With QM_FAST_PATH=masked there are no
/// sections: each interrupt counts.

#include <cstdint>

#include <qm/config.h>

namespace probe {

enum class Form : std::uint8_t { kOutOfLine, kInlined, kHeap };

/// Whether this build has restartable sections.
#if defined(QM_FAST_PATH_SECTIONS)
inline constexpr bool kSections = true;
#else
inline constexpr bool kSections = false;
#endif

/// Whether interrupted sections start again, as they should.
extern bool rewinding;

void reset() noexcept;

/// @returns the number of interrupts since reset() at an instruction of a section of @p form, from its first to its
///          commit; for the masked form, all interrupts.
[[nodiscard]] std::uint32_t inside(Form form) noexcept;

/// @returns the number of interrupts since reset() at the store of a count behind a commit.
[[nodiscard]] std::uint32_t at_count(Form form) noexcept;

/// @returns the number of instructions of the sections, from the first to the commit, that no interrupt has hit since
///          reset(). Of the inlined sections, the first @p sections ones of @p function count; for the other forms @p
///          function is ignored.
[[nodiscard]] unsigned missed(Form form, void (*function)(unsigned), unsigned sections) noexcept;

}  // namespace probe
