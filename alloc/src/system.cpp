#include <qm/config.h>
#include <qm/system.hpp>

#include <new>

#include <qm/arena.hpp>
#include <qm/boundary_tag.hpp>
#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/heap.hpp>
#include <qm/observer.hpp>
#include <qm/page_map.hpp>
#include <qm/qm.h>

#include "extents.hpp"
#include "linked.hpp"
#include "upkeep.hpp"

namespace qm {

#if defined(QM_TARGET)
// used: own_cell() names it where link-time optimisation does not look.
[[gnu::used, gnu::section(".tdata.qm_hot")]] constinit thread_local std::uintptr_t qm_cell_offset = sizeof(Cache);
#endif

namespace {

/// The caches that make caches: of their structures, and of magazines, one for each size of block.
struct OwnCache {
  const char* name;
  unsigned words;  ///< of an object; 0: a cache's structure
};
constexpr OwnCache kOwnCaches[] = {{"kmem_cache", 0},
                                   {"kmem_magazine", internal::kBlockWords},
                                   {"kmem_magazine_29", 32},
                                   {"kmem_magazine_61", internal::kMostBlockWords}};
static_assert(internal::kMostBlockWords - sizeof(Magazine) / sizeof(void*) == kMaxRounds);

/// The caches of blocks by size, from 0.
constexpr unsigned kind_of_block(unsigned words) noexcept {
  unsigned kind = 0;
  while (kOwnCaches[1 + kind].words < words) ++kind;
  return kind;
}

constexpr std::size_t kPage = SlabLayer::kPageBytes;

}  // namespace

/// They lie in pages of `base` and have no magazines of their own.
class InternalCaches {
 public:
  Status initialize(unsigned harts) noexcept {
    const std::size_t each = Cache::bytes(harts);
    std::uintptr_t place = base_arena().allocate(kCount * each);
    if (place == 0) return Status::kNoMemory;
    for (unsigned which = 0; which < kCount; ++which, place += each) {
      caches_[which] = new (reinterpret_cast<void*>(place)) Cache;
      const Status status = make(*caches_[which], kOwnCaches[which], each, harts);
      if (status != Status::kOk) return status;
    }
    harts_ = harts;
    return Status::kOk;
  }
  void forget() noexcept { harts_ = 0; }

  /// That of caches' structures.
  [[nodiscard]] Cache& of_caches() noexcept { return *caches_[0]; }
  /// That of blocks of @p words words.
  [[nodiscard]] Cache& of_blocks(unsigned words) noexcept { return *caches_[1 + kind_of_block(words)]; }
  [[nodiscard]] Cache& of_blocks_of_kind(unsigned kind) noexcept { return *caches_[1 + kind]; }
  /// 0: caches cannot be made.
  [[nodiscard]] unsigned harts() const noexcept { return harts_; }

 private:
  static constexpr unsigned kCount = sizeof kOwnCaches / sizeof kOwnCaches[0];

  static Status make(Cache& cache, const OwnCache& own, std::size_t structure_bytes, unsigned harts) noexcept {
    const bool is_of_caches = own.words == 0;
    CacheConfig config;
    config.name = own.name;
    config.object_size = is_of_caches ? structure_bytes : own.words * sizeof(void*);
    // Magazines of different harts lie in no common line of the processor's cache.
    config.alignment = is_of_caches ? alignof(Cell) : SlabLayer::kColourBytes;
    config.flags = cache_flags::kDirect | (is_of_caches ? 0 : cache_flags::kNoTrace);
    const Status status = cache.initialize(config, nullptr, harts);
    return status == Status::kOk ? registry_add(RegistryKind::kCache, cache) : status;
  }

  Cache* caches_[kCount] = {};
  unsigned harts_ = 0;
};

namespace {

bool ready = false;
InternalCaches caches;
constinit Arena base;
std::uintptr_t tags_page = 0;  // the page of the first boundary tags

/// Whether @p range has a page, does not wrap, and does not begin at 0, which is no address.
bool is_memory(const MemoryRange& range) noexcept {
  return range.start != 0 && range.size >= kPage && range.start + range.size > range.start;
}

}  // namespace

/// All of initialize() but the checks: memory first, then what is made of it.
static Status set_up(std::span<const MemoryRange> memory, std::uintptr_t first, unsigned harts,
                     void (*open_books)() noexcept) noexcept {
  // The first tags lie at the start of the first range: with them base can cut its own pages into tags.
  boundary_tags_initialize(reinterpret_cast<void*>(first), kPage);
  tags_page = first;
  // The books have their memory from there, so they do not trace it.
  Status status = base.initialize({.name = "base", .no_trace = true});
  std::uintptr_t start = first + kPage;
  for (const MemoryRange& range : memory) {
    const std::uintptr_t end = range.start + range.size;
    if (&range != memory.data()) start = range.start;
    if (status == Status::kOk) status = base.add(start, end - start);
    if (&range == memory.data()) boundary_tags_set_root(base);
    if (status == Status::kOk) status = page_map.add_bank(start, end);
  }
  if constexpr (kMagazines) extents.initialize(base);
  if constexpr (kCallSites) {
    if (status == Status::kOk) status = call_sites::initialize(harts);
  }
  if (status == Status::kOk) status = caches.initialize(harts);
  if (status == Status::kOk && open_books != nullptr) open_books();
  if (status == Status::kOk && is_linked(internal::initialize_slab_headers))
    status = internal::initialize_slab_headers();
  if (status == Status::kOk && is_linked(internal::initialize_page_arena)) status = internal::initialize_page_arena();
  return status == Status::kOk ? heap::initialize() : status;
}

Status initialize(std::span<const MemoryRange> memory, unsigned harts, void (*open_books)() noexcept) noexcept {
  if (ready) return Status::kBusy;
  if (memory.empty() || harts == 0 || harts > hal::Port::kMaxHarts) return Status::kInvalid;
  for (const MemoryRange& range : memory) {
    if (!is_memory(range)) return Status::kInvalid;
  }
  const std::uintptr_t first = (memory[0].start + kPage - 1) & ~(kPage - 1);
  if (memory[0].size < 16 * kPage || first - memory[0].start > memory[0].size - 16 * kPage) return Status::kInvalid;
  const Status status = set_up(memory, first, harts, open_books);
  ready = status == Status::kOk;
  if (!ready) shutdown();
  return status;
}

void shutdown() noexcept {
  ready = false;
  caches.forget();
  upkeep::want_nothing();
  heap::shutdown();
  if constexpr (kCallSites) call_sites::shutdown();
  registry_reset();
  exhaustion::reset();
  page_map.reset();
  new (&base) Arena;
  set_observer(nullptr);
}

Status add_memory(const MemoryRange& range) noexcept {
  if (!ready || !is_memory(range)) return Status::kInvalid;
  const std::uintptr_t end = range.start + range.size;
  if (range.start < tags_page + kPage && end > tags_page) return Status::kOverlap;  // base does not have that page
  // The bank first: what other harts take of it they may free at once.
  Status status = page_map.add_bank(range.start, end);
  if (status != Status::kOk) return status;
  status = base.add(range.start, range.size);
  if (status != Status::kOk) page_map.drop_bank();
  return status;
}

Arena& base_arena() noexcept { return base; }
unsigned hart_count() noexcept { return caches.harts(); }

Status attach_hart(unsigned hart) noexcept {
  if (hart >= hart_count()) return Status::kInvalid;
  internal::attach_cells(hart);
  heap::attach_hart();
  if constexpr (kCallSites) call_sites::attach_hart(hart);
  hal::hart_online(hart);
  return Status::kOk;
}

Status detach_hart(unsigned hart) noexcept {
  if (hart >= hart_count()) return Status::kInvalid;
  RegistryCursor<Cache> all;
  while (Cache* cache = all.next()) {
    const hal::InterruptGuard masked;
    cache->detach_magazines(hart);
  }
  hal::hart_offline(hart);
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

void* allocate_cache() noexcept { return QM_ALLOC(caches.of_caches().allocate); }
void free_cache(void* cache) noexcept { caches.of_caches().free(cache); }
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
