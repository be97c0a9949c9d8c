#pragma once
/// The figures of one source, for reports.

#include "tracer.hpp"

namespace qm::trace {

/// Adds a source's counts since its last reset.
void add_figures(TracedSource& one, Figures& figures) noexcept;

/// Fills @p trace. @returns false if the source was destroyed, or never traced: a stream too gives a source its
/// TracedSource.
bool look_at(TracedSource& one, CacheTrace& trace) noexcept;

/// @returns the number of objects or segments of @p source in use without a record; exact if no hart allocates or
///          frees.
/// Context: the source must not be destroyed meanwhile.
[[nodiscard]] std::size_t unrecorded(Traceable& source) noexcept;

}  // namespace qm::trace
