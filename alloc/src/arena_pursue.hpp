#pragma once
/// An arena's allocation that has found nothing: what its effort allows.

#include <qm/arena.hpp>
#include <qm/exhaustion.hpp>

namespace qm {

/// Counts the failure unless an attempt gets something.
template <class Callable>
std::uintptr_t Arena::pursue(std::size_t size, Effort effort, Callable attempt) noexcept {
  std::uintptr_t start = 0;
  if (kind_of(effort) != Effort::kQuiet && may_ever_have(size)) {
    // Idle memory lies in what draws from this arena, in its quantum caches, and in what else draws from its source.
    const bool drains = source_ != nullptr || quantum_cache_max_ != 0 || has_importers();
    start = exhaustion::pursue({*this, *this, true, false, drains, size, effort}, attempt);
  }
  if (start == 0) count_failure();
  return start;
}

}  // namespace qm
