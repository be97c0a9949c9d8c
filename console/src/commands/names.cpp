#include <qm/console/names.hpp>

namespace qm::console {

void offer_caches(Completion& completion) noexcept {
  Matching<Cache> caches({});
  while (const Cache* cache = caches.next()) completion.offer(from_c(cache->name()));
}

void offer_traceable_caches(Completion& completion) noexcept {
  Matching<Cache> caches({});
  while (const Cache* cache = caches.next()) {
    if (cache->traceable()) completion.offer(from_c(cache->name()));
  }
}

void offer_traceable(Completion& completion) noexcept {
  Matching<Traceable> sources({});
  while (const Traceable* source = sources.next()) {
    if (source->traceable()) completion.offer(from_c(source->name()));
  }
}

void offer_arenas(Completion& completion) noexcept {
  Matching<Arena> arenas({});
  while (const Arena* arena = arenas.next()) completion.offer(from_c(arena->name()));
}

}  // namespace qm::console
