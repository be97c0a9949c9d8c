#pragma once
/// Figures of one source's books, for reports.

#include "books.hpp"

namespace qm::trace {

/// Adds what was counted of a source since its last reset.
void add_figures(SourceBooks& one, Figures& figures) noexcept;

/// Fills @p trace. @returns false if the source was destroyed, or never traced: a stream makes books as well.
bool look_at(SourceBooks& one, CacheTrace& trace) noexcept;

/// @returns how many objects or segments of @p source users hold that have no record; exact if nobody allocates or
///          frees. Context: the source stays meanwhile.
[[nodiscard]] std::size_t unrecorded(Traceable& source) noexcept;

}  // namespace qm::trace
