#pragma once
/// Deliberate defects in the search for constrained places, which the sweep over all requests must detect. Only that
/// test compiles another value than kNone, and only arena_constrained.cpp reads it.

namespace qm {

enum class ArenaDefect : unsigned {
  kNone,
  kNocrossTooStrict,  ///< a segment that ends exactly at a boundary is taken to cross it
  kNocrossTooLax,     ///< a segment may reach one value beyond a boundary
  kNocrossAtStart,    ///< a segment that begins exactly on a boundary is taken to cross it
  kMaxIsInclusive,    ///< a segment may end one value above the bound
};

#if defined(QM_ARENA_DEFECT)
inline constexpr ArenaDefect kArenaDefect{QM_ARENA_DEFECT};
#else
inline constexpr ArenaDefect kArenaDefect = ArenaDefect::kNone;
#endif

}  // namespace qm
