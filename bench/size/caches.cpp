/// Set-up, and caches: create, allocate, free, destroy; memory in harts' magazines is reclaimed when it is needed.

#include <qm/cache.hpp>
#include <qm/system.hpp>

#include "entry.hpp"

void qm::size::use_caches() {
  const MemoryRange memory{number, number};
  number = static_cast<unsigned long>(initialize({&memory, 1}, static_cast<unsigned>(number)));
  attach_hart(0);
  CacheConfig config = *some<CacheConfig>();
  config.flags = 0;
  Cache* cache = Cache::create(config);
  anything = cache->allocate();
  cache->free(some<void>());
  number = static_cast<unsigned long>(Cache::destroy(cache));
}
