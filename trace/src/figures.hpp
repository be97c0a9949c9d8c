#pragma once
/// Figures of one cache's books, for reports.

#include "books.hpp"

namespace qm::trace {

/// Adds what was counted of a cache since its last reset.
void add_figures(CacheBooks& one, Figures& figures) noexcept;

/// Fills @p trace. @returns false if the cache was destroyed.
bool look_at(CacheBooks& one, CacheTrace& trace) noexcept;

}  // namespace qm::trace
