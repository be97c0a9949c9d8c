/// Quantum caches: the caches through which an arena serves its small multiples of the quantum. Their objects are
/// ranges of the arena, so they are never touched; their slabs are segments of the arena that only they see.

#include <algorithm>
#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/system.hpp>

namespace qm::quantum_caches {
namespace {

static_assert(kMostQuantumCaches == internal::kBlockWords);

/// The caches of one arena: caches[i] serves (i + 1) quanta; unused entries are null.
struct Table {
  Cache* caches[kMostQuantumCaches] = {};

  Cache** begin() noexcept { return caches; }
  /// Behind the last cache: create() fills the table in order.
  Cache** end() noexcept { return std::find(caches, caches + kMostQuantumCaches, nullptr); }
};

Table* table(Arena& arena) noexcept { return static_cast<Table*>(arena.quantum_cache_state); }
Cache& cache_of(Arena& arena, std::size_t size) noexcept { return *table(arena)->caches[size / arena.quantum() - 1]; }
bool has_out(Cache& cache, void* object) noexcept { return cache.slabs().classify(object) == ObjectState::kOut; }

/// Makes the name `<arena>_<size>`. @returns false if it is longer than a name may be.
bool make_name(char (&name)[kNameBytes], const char* arena, std::size_t size) noexcept {
  unsigned length = 0;
  while (arena[length] != 0) {
    name[length] = arena[length];
    ++length;
  }
  char digits[24];
  unsigned digit_count = 0;
  do {
    digits[digit_count++] = static_cast<char>('0' + size % 10);
    size /= 10;
  } while (size != 0);
  if (length + 1 + digit_count >= kNameBytes) return false;
  name[length++] = '_';
  while (digit_count != 0) name[length++] = digits[--digit_count];
  name[length] = 0;
  return true;
}

Status create(Arena& arena) noexcept {
  const std::size_t wanted = arena.quantum_cache_max() / arena.quantum();
  if (wanted > kMostQuantumCaches || hart_count() == 0) return Status::kInvalid;
  void* block = internal::allocate_block(internal::kBlockWords);
  if (block == nullptr) return Status::kNoMemory;
  arena.quantum_cache_state = new (block) Table;
  Status status = Status::kOk;
  for (std::size_t i = 0; i < wanted && status == Status::kOk; ++i) {
    char name[kNameBytes] = {};
    CacheConfig config;
    config.name = name;
    config.object_size = (i + 1) * arena.quantum();
    config.flags = cache_flags::kNoTouch | cache_flags::kQuantumCache;
    config.source = &arena;
    status = make_name(name, arena.name(), config.object_size) ? Status::kOk : Status::kInvalid;
    if (status == Status::kOk) table(arena)->caches[i] = Cache::create(config, &status);
  }
  return status;
}

Status destroy(Arena& arena) noexcept {
  Table* all = table(arena);
  if (all == nullptr) return Status::kOk;
  // Retire all caches before any ends. A retired cache does not change: a hart that still moved idle objects to slabs
  // would make them look live.
  for (Cache** at = all->begin(); at != all->end(); ++at) {
    const Status status = (*at)->retire();
    if (status == Status::kOk) continue;
    while (at != all->begin()) registry_show(**--at);
    return status;
  }
  for (Cache* cache : *all) Cache::end(cache);
  arena.quantum_cache_state = nullptr;
  internal::free_block(all, internal::kBlockWords);
  return Status::kOk;
}

std::uintptr_t allocate(Arena& arena, std::size_t size, const CallSite* site, WaitPolicy wait_policy) noexcept {
  Cache* const cache = &cache_of(arena, size);
  auto attempt = [=]() noexcept {
    return reinterpret_cast<std::uintptr_t>(cache->allocate_fitting(site, size, WaitPolicy::kQuiet));
  };
  const std::uintptr_t start = attempt();
  return start != 0 ? start : arena.reclaim_and_retry(size, wait_policy, exhaustion::attempt_of(attempt), &attempt);
}

Status free(Arena& arena, std::uintptr_t start, std::size_t size) noexcept {
  Cache& cache = cache_of(arena, size);
  void* const object = reinterpret_cast<void*>(start);
  if (has_out(cache, object)) [[likely]] {
    if (cache.refuse_last_freed(object)) return Status::kNotFound;
    cache.free(object);
    return Status::kOk;
  }
  cache.free_slow(object);  // refuses and reports it
  const auto is_another_s = [object](Cache* other) noexcept { return has_out(*other, object); };
  Table& all = *table(arena);
  return std::any_of(all.begin(), all.end(), is_another_s) ? Status::kMismatch : Status::kNotFound;
}

}  // namespace

constinit const Calls calls{create, destroy, allocate, free};

}  // namespace qm::quantum_caches
