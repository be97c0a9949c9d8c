#include <qm/bench/subjects.hpp>

#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>

namespace qm::bench {

QM_DEFINE_INLINE_CACHE(Inlined);

CacheSubject::CacheSubject(std::size_t size) noexcept {
  CacheConfig config;
  config.name = "bench";
  config.object_size = size;
  cache = Cache::create(config);
  if (cache == nullptr) firmware::panic("bench: no cache");
}

CacheSubject::~CacheSubject() {
  if (Cache::destroy(cache) != Status::kOk) firmware::panic("bench: the cache is in use");
  reclaim();
}

InlinedSubject::InlinedSubject(std::size_t size) noexcept {
  if (Inlined::create({.name = "inlined", .object_size = size}) != Status::kOk) firmware::panic("bench: no cache");
}

InlinedSubject::~InlinedSubject() {
  if (Inlined::destroy() != Status::kOk) firmware::panic("bench: the cache is in use");
  reclaim();
}

HeapSubject::~HeapSubject() { reclaim(); }

}  // namespace qm::bench
