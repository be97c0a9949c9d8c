/// The rest of what an application calls of the core: the malloc family, arenas, figures, reclaim.

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
  number = heap::misuses();
  const MemoryRange memory{number, number};
  number = static_cast<unsigned long>(add_memory(memory));

  Arena& arena = *some<Arena>();
  number = static_cast<unsigned long>(arena.initialize(*some<ArenaConfig>()));
  number = static_cast<unsigned long>(arena.add(number, number));
  number = arena.allocate(number);
  number = arena.allocate_aligned(number, number);
  number = static_cast<unsigned long>(arena.free(number, number));
  number = static_cast<unsigned long>(arena.resize_in_place(number, number, number));
  number = arena.size_of(number);
  number = arena.stats().free;
  number = static_cast<unsigned long>(arena.destroy());

  number = some<Cache>()->allocate_bulk(some<void*>(), number);
  some<Cache>()->free_bulk(some<void*>(), number);
  number = some<Cache>()->has_out(some<void>());
  number = some<Cache>()->stats().in_use;
  number = some<Cache>()->reap();
  number = reclaim();
}
