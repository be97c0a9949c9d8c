/// Other functions that an application calls: the malloc family, arenas with constraints and walks, statistics,
/// reclaim.

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/system.hpp>

#include "entry.hpp"

void qm::size::use_more() {
  anything = heap::allocate_zeroed(number, number);
  anything = heap::allocate_aligned(number, number);
  anything = heap::reallocate(some<void>(), number);
  heap::free_sized(some<void>(), number);
  number = heap::usable_size(some<void>());

  Arena& arena = *some<Arena>();
  number = static_cast<unsigned long>(arena.initialize(*some<ArenaConfig>()));
  number = static_cast<unsigned long>(arena.add(number, number));
  number = arena.allocate(number, Fit::kNext);
  number = static_cast<unsigned long>(arena.free(number, number));
  number = arena.allocate_constrained(number, *some<Constraint>());
  number = static_cast<unsigned long>(arena.free_constrained(number, number));
  number = static_cast<unsigned long>(arena.resize_in_place(number, number, number));
  number = static_cast<unsigned long>(arena.locate(number, *some<Segment>()));
  number = arena.stats().free;
  number = static_cast<unsigned long>(arena.destroy());
  ArenaWalk walk(arena);
  number = walk.next(*some<Segment>());

  number = some<Cache>()->stats().in_use;
  number = some<Cache>()->reap();
  number = reclaim();
  detach_hart(1);
}
