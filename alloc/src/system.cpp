#include <qm/config.h>
#include <qm/system.hpp>

#include <new>

#include <qm/arena.hpp>
#include <qm/detail/boundary_tag.hpp>
#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/guards.hpp>
#include <qm/heap.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/detail/poison.hpp>
#include <qm/qm.h>

#include "segments/blocks.hpp"
#include "slab/extents.hpp"
#include "linked.hpp"
#include "slab/upkeep.hpp"

namespace qm {

#if defined(QM_TP)
// used: own_hart_cache() refers to it where link-time optimisation does not see it.
[[gnu::used, gnu::section(".tdata.qm_hot")]] constinit thread_local std::uintptr_t qm_hart_cache_offset = sizeof(Cache);
#endif

namespace {

/// The caches that other caches are made from: one for their structures, one for each size of magazine block, and one
/// for the headers of no-touch slabs.
struct OwnCache {
  const char* name;
  unsigned words;  ///< of an object; 0: a cache's structure
  unsigned alignment;
};
constexpr OwnCache kOwnCaches[] = {{"kmem_cache", 0, alignof(HartCache)},
// Magazines of different harts share no line of the processor's cache.
#if defined(QM_MAGAZINES)
                                   {"kmem_magazine", internal::kBlockWords, SlabLayer::kColourBytes},
                                   {"kmem_magazine_29", 32, SlabLayer::kColourBytes},
                                   {"kmem_magazine_61", internal::kMostBlockWords, SlabLayer::kColourBytes},
#else
                                   {"kmem_magazine", internal::kMostBlockWords, SlabLayer::kColourBytes},
#endif
                                   {"kmem_slab", SlabLayer::kExternalBytes / sizeof(void*), alignof(ExternalSlab)}};
constexpr unsigned kSlabHeaders = sizeof kOwnCaches / sizeof kOwnCaches[0] - 1;  ///< the last of them
static_assert(SlabLayer::kExternalBytes % sizeof(void*) == 0);
static_assert(!kMagazines || internal::kMostBlockWords - sizeof(Magazine) / sizeof(void*) == kMaxRounds);

/// The number of the cache for a block size, from 0.
constexpr unsigned kind_of_block(unsigned words) noexcept {
  unsigned kind = 0;
  while (kOwnCaches[1 + kind].words < words) ++kind;
  return kind;
}

CacheConfig config_of(const OwnCache& own, std::size_t structure_bytes) noexcept {
  const bool is_of_caches = own.words == 0;
  CacheConfig config;
  config.name = own.name;
  config.object_size = is_of_caches ? structure_bytes : own.words * sizeof(void*);
  config.alignment = own.alignment;
  config.flags = cache_flags::kNoMagazines | (is_of_caches ? 0 : cache_flags::kNoTrace);
  return config;
}

constexpr std::size_t kPage = SlabLayer::kPageBytes;
/// Whether the structure of kmem_slab lies beside those of the other internal caches. It would be the first object of
/// kmem_cache, which takes a page for it: with small pages, memory is scarce.
constexpr bool kSlabHeadersBeside = kPage < 4096;
/// Enough for a heap of blocks alone, with the spare tags of the arenas.
constexpr std::size_t kStartTags = 12;
static_assert(kStartTags >= kFirstTags);

}  // namespace

/// The caches of kOwnCaches. They have no magazines of their own.
class InternalCaches {
 public:
  /// Bytes of their structures.
  static std::size_t bytes(unsigned harts) noexcept { return count() * Cache::bytes(harts); }
  /// @param[in] place bytes(harts) for them, aligned as a cache is.
  Status initialize(std::uintptr_t place, unsigned harts) noexcept {
    const std::size_t each = Cache::bytes(harts);
    for (unsigned which = 0; which < count(); ++which, place += each) {
      Cache& cache = *new (reinterpret_cast<void*>(place)) Cache;
      caches_[which] = &cache;
      Status status = cache.initialize(config_of(kOwnCaches[which], each), nullptr, harts);
      if (status == Status::kOk) status = registry_add(RegistryKind::kCache, cache);
      if (status != Status::kOk) return status;
    }
    harts_ = harts;
    return Status::kOk;
  }
  /// Makes kmem_slab if no-touch caches are linked, and a slab of kmem_cache in memory that is large enough.
  Status finish() noexcept {
    Status status = Status::kOk;
    if (kSlabHeadersBeside && base_arena().stats().total >= internal::kLeastToPrepareCaches)
      static_cast<void>(internal::prepare_cache());
    if (!is_linked(internal::use_slab_headers)) return status;
    if constexpr (!kSlabHeadersBeside)
      caches_[kSlabHeaders] = Cache::create(config_of(kOwnCaches[kSlabHeaders], 0), &status);
    if (caches_[kSlabHeaders] != nullptr) internal::use_slab_headers(*caches_[kSlabHeaders]);
    return status;
  }
  void forget() noexcept { harts_ = 0; }

  /// The cache of caches' structures.
  [[nodiscard]] Cache& of_caches() noexcept { return *caches_[0]; }
  /// The cache of blocks of @p words words.
  [[nodiscard]] Cache& of_blocks(unsigned words) noexcept { return of_blocks_of_kind(kind_of_block(words)); }
  [[nodiscard]] Cache& of_blocks_of_kind(unsigned kind) noexcept { return *caches_[1 + kind]; }
  /// 0: no cache can be made.
  [[nodiscard]] unsigned harts() const noexcept { return harts_; }

 private:
  /// How many have their structures in the first pages.
  static unsigned count() noexcept {
    return kSlabHeaders + (kSlabHeadersBeside && is_linked(internal::use_slab_headers) ? 1 : 0);
  }

  Cache* caches_[kSlabHeaders + 1] = {};
  unsigned harts_ = 0;
};

namespace {

bool ready = false;
InternalCaches caches;
constinit Arena base;
MemoryRange own_pages{};  // of the allocator's own caches and the first boundary tags

/// Whether @p range has a page, does not wrap, and does not begin at 0, which is not an address.
bool is_memory(const MemoryRange& range) noexcept {
  return range.start != 0 && range.size >= kPage && range.start + range.size > range.start;
}

}  // namespace

/// Bytes of the allocator's own caches and, behind them, the first tags. They lie at the start of the first range.
static std::size_t own_bytes(unsigned harts) noexcept {
  return round_up(InternalCaches::bytes(harts) + kStartTags * sizeof(BoundaryTag), Blocks::kUnit);
}
/// Bytes of the pages that have these.
static std::size_t first_bytes(unsigned harts) noexcept { return round_up(own_bytes(harts), kPage); }

/// Gives the heap the parts of a range beside its whole pages, for blocks.
static void add_remains(std::uintptr_t start, std::uintptr_t end) noexcept {
  if (start < end && is_linked(heap::add_memory)) static_cast<void>(heap::add_memory(start, end - start));
}

/// All of initialize() except the checks: first the memory, then what is made from it.
static Status set_up(std::span<const MemoryRange> memory, std::uintptr_t first, unsigned harts,
                     void (*open_trace)() noexcept) noexcept {
  // With the first tags, base can cut its own pages into tags.
  const std::size_t own = InternalCaches::bytes(harts);
  boundary_tags_initialize(reinterpret_cast<void*>(first + own), own_bytes(harts) - own);
  own_pages = {first, first_bytes(harts)};
  // The trace has its memory from there, so it does not trace that arena.
  Status status = base.initialize({.name = "base", .quantum = kPage, .no_trace = true, .from_top = true});
  std::uintptr_t start = first + first_bytes(harts);
  for (const MemoryRange& range : memory) {
    const std::uintptr_t end = range.start + range.size;
    if (&range != memory.data()) start = range.start;
    if (status == Status::kOk) status = base.add(start, end - start);
    if (&range == memory.data()) boundary_tags_set_root(base);
    if (status == Status::kOk) status = page_map.add_region(start, end);
  }
  if constexpr (kExtents) extents.initialize(base);
  if constexpr (kCallSites) {
    if (status == Status::kOk) status = call_sites::initialize(harts);
  }
  if (status == Status::kOk) status = caches.initialize(first, harts);
  if (status == Status::kOk && open_trace != nullptr) open_trace();
  if (status == Status::kOk) status = caches.finish();
  if (status == Status::kOk && is_linked(internal::initialize_page_arena)) status = internal::initialize_page_arena();
  if (status == Status::kOk && is_linked(heap::initialize)) status = heap::initialize();
  if (status != Status::kOk) return status;
  for (const MemoryRange& range : memory) {
    const std::uintptr_t end = range.start + range.size;
    if (&range != memory.data()) add_remains(range.start, round_up(range.start, kPage));
    add_remains(round_down(end, kPage), end);
  }
  add_remains(memory[0].start, first);
  add_remains(first + own_bytes(harts), first + first_bytes(harts));
  return is_linked(heap::has_room) && !heap::has_room() ? Status::kNoMemory : Status::kOk;
}

Status initialize(std::span<const MemoryRange> memory, unsigned harts, void (*open_trace)() noexcept) noexcept {
  if (ready) return Status::kBusy;
  if (memory.empty() || harts == 0 || harts > hal::Port::kMaxHarts) return Status::kInvalid;
  for (const MemoryRange& range : memory) {
    if (!is_memory(range)) return Status::kInvalid;
  }
  const std::uintptr_t first = (memory[0].start + kPage - 1) & ~(kPage - 1);
  const std::size_t least = first_bytes(harts) + kPage;  // and a page for the heap
  if (memory[0].size < least || first - memory[0].start > memory[0].size - least) return Status::kInvalid;
  const Status status = set_up(memory, first, harts, open_trace);
  ready = status == Status::kOk;
  if (!ready) shutdown();
  return status;
}

void shutdown() noexcept {
  ready = false;
  if (const guards::internal::Calls* guards = guards::internal::linked(); guards != nullptr) guards->end();
  caches.forget();
  upkeep::want_nothing();
  if (is_linked(heap::shutdown)) heap::shutdown();
  if constexpr (kCallSites) call_sites::shutdown();
  registry_reset();
  exhaustion::reset();
  if constexpr (poison::kHides) {
    poison::show(reinterpret_cast<void*>(own_pages.start), own_pages.size);
    for (unsigned i = 0; i < page_map.region_count(); ++i)
      poison::show(reinterpret_cast<void*>(page_map.region(i).low), page_map.region(i).bytes);
  }
  page_map.reset();
  new (&base) Arena;
  set_observer(nullptr);
}

Status add_memory(const MemoryRange& range) noexcept {
  if (!ready || !is_memory(range)) return Status::kInvalid;
  const std::uintptr_t end = range.start + range.size;
  // These pages are not in base, so base.add() does not detect an overlap with them.
  if (range.start < own_pages.start + own_pages.size && end > own_pages.start) return Status::kOverlap;
  // The memory region first: other harts may allocate from it, and free, at once.
  Status status = page_map.add_region(range.start, end);
  if (status != Status::kOk) return status;
  status = base.add(range.start, range.size);
  if (status != Status::kOk) {
    page_map.drop_region();
    return status;
  }
  add_remains(range.start, round_up(range.start, kPage));
  add_remains(round_down(end, kPage), end);
  if (is_linked(heap::note_memory)) heap::note_memory(base.stats().total);
  return Status::kOk;
}

Arena& base_arena() noexcept { return base; }

MemoryRange internal::first_pages() noexcept { return {own_pages.start - kPage, own_pages.size + kPage}; }
unsigned hart_count() noexcept { return caches.harts(); }

Status attach_hart(unsigned hart) noexcept {
  if (hart >= hart_count()) return Status::kInvalid;
  internal::attach_hart_caches(hart);
  if (is_linked(heap::attach_hart)) heap::attach_hart();
  if constexpr (kCallSites) call_sites::attach_hart(hart);
  hal::hart_online(hart);
  if (const guards::internal::Calls* guards = guards::internal::linked(); guards != nullptr) guards->attach();
  return Status::kOk;
}

Status detach_hart(unsigned hart) noexcept {
  if (hart >= hart_count()) return Status::kInvalid;
  RegistryCursor<Cache> all;
  while (Cache* cache = all.next()) {
    const hal::InterruptGuard masked;
    cache->detach_magazines(hart);
  }
  hal::hart_offline(hart);  // may serve a request of the guards
  if (const guards::internal::Calls* guards = guards::internal::linked(); guards != nullptr) guards->detach();
  return Status::kOk;
}

std::size_t trim() noexcept {
  const std::size_t before = base_arena().stats().free;
  RegistryCursor<Cache> all;
  while (Cache* cache = all.next()) cache->trim();
  const std::size_t after = base_arena().stats().free;
  return after > before ? after - before : 0;
}

namespace internal {

void* allocate_cache() noexcept {
  Cache& all = caches.of_caches();
  if (kCallSites || all.slabs().is_spent()) return QM_ALLOC(all.allocate);  // which may reclaim
  return all.allocate_direct();
}
void free_cache(void* cache) noexcept { caches.of_caches().free(cache); }
bool prepare_cache() noexcept {
  SlabLayer& slabs = caches.of_caches().slabs();
  if (!slabs.is_spent()) return false;
  slabs.prepare();
  return !slabs.is_spent();
}
void* allocate_block(unsigned words) noexcept { return caches.of_blocks(words).allocate_direct(); }
void free_block(void* block, unsigned words) noexcept { caches.of_blocks(words).free_direct(block); }

static constexpr unsigned kHeadWords = sizeof(Magazine) / sizeof(void*);

Magazine* create_magazine(std::uint32_t rounds) noexcept {
  unsigned step = 0;
  while (step + 1 < kMagazineSteps && kMagazineRounds[step] < rounds) ++step;
  const unsigned kind = kind_of_block(kHeadWords + kMagazineRounds[step]);
  Cache& blocks = caches.of_blocks_of_kind(kind);
  void* place = blocks.allocate_direct();
  if (place == nullptr) return nullptr;
  if (blocks.slabs().is_spent()) upkeep::want_slab(blocks.slabs());
  auto* magazine = new (place) Magazine;
  magazine->capacity = static_cast<std::uint8_t>(kMagazineRounds[step]);
  magazine->end_offset = static_cast<std::uint16_t>((kHeadWords + kMagazineRounds[step]) * sizeof(void*));
  return magazine;
}

void free_magazine(Magazine* magazine) noexcept { free_block(magazine, kHeadWords + magazine->capacity); }

}  // namespace internal
}  // namespace qm

qm_arena* qm_base_arena() noexcept { return qm::hart_count() != 0 ? &qm::base_arena() : nullptr; }
