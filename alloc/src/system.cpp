#include <qm/system.hpp>

#include <new>

#include <qm/arena.hpp>
#include <qm/boundary_tag.hpp>
#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/heap.hpp>
#include <qm/page_map.hpp>

namespace qm {

/// Of page_arena.cpp, which is linked with the first call of page_arena().
[[gnu::weak]] Status internal::initialize_page_arena() noexcept;

#if defined(QM_TARGET)
// used: own_cell() names it where link-time optimisation does not look.
[[gnu::used, gnu::section(".tdata.qm_hot")]] constinit thread_local std::uintptr_t qm_cell_offset = sizeof(Cache);
#endif

namespace {

/// The caches of magazines: one for each size of block.
struct MagazineBlock {
  const char* name;
  unsigned words;
};
constexpr unsigned kMagazineBlocks = 3;
constexpr MagazineBlock kBlocks[kMagazineBlocks] = {{"kmem_magazine", internal::kBlockWords},
                                                    {"kmem_magazine_29", 32},
                                                    {"kmem_magazine_61", internal::kMostBlockWords}};
static_assert(internal::kMostBlockWords - sizeof(Magazine) / sizeof(void*) == kMaxRounds);

constexpr std::size_t kPage = SlabLayer::kPageBytes;

}  // namespace

/// The caches that make caches. They lie in pages of `base` and have no magazines of their own.
class InternalCaches {
 public:
  static constexpr unsigned kCount = 2 + kMagazineBlocks;
  enum Which : unsigned { kSlabHeaders, kCaches, kMagazines };

  Status initialize(unsigned harts) noexcept {
    harts_ = harts;
    const std::size_t each = sizeof(Cache) + harts * sizeof(Cell);
    const std::uintptr_t place = base_arena().allocate(kCount * each);
    if (place == 0) return Status::kNoMemory;
    for (unsigned i = 0; i < kCount; ++i) caches_[i] = new (reinterpret_cast<void*>(place + i * each)) Cache;
    Status status = make(kSlabHeaders, "kmem_slab", SlabLayer::kExternalBytes, cache_flags::kNoTrace);
    SlabLayer::set_headers(caches_[kSlabHeaders]->slabs());
    if (status == Status::kOk) status = make(kCaches, "kmem_cache", each, 0);
    for (unsigned i = 0; i < kMagazineBlocks && status == Status::kOk; ++i) {
      status = make(kMagazines + i, kBlocks[i].name, kBlocks[i].words * sizeof(void*), cache_flags::kNoTrace);
    }
    return status;
  }

  [[nodiscard]] Cache& operator[](unsigned which) noexcept { return *caches_[which]; }
  [[nodiscard]] unsigned harts() const noexcept { return harts_; }

 private:
  Status make(unsigned which, const char* name, std::size_t bytes, std::uint32_t flags) noexcept {
    CacheConfig config;
    config.name = name;
    config.object_size = bytes;
    // Magazines of different harts lie in no common line of the processor's cache.
    config.alignment = which == kSlabHeaders ? alignof(ExternalSlab)
                       : which == kCaches    ? alignof(Cell)
                                             : SlabLayer::kColourBytes;
    config.flags = flags | cache_flags::kDirect;
    config.source = &base_arena();
    const Status status = caches_[which]->initialize(config, harts_);
    return status == Status::kOk ? registry_add(RegistryKind::kCache, *caches_[which]) : status;
  }

  Cache* caches_[kCount] = {};
  unsigned harts_ = 0;
};

namespace {

bool ready = false;
InternalCaches caches;
constinit Arena base;

}  // namespace

Status initialize(std::span<const MemoryRange> memory, unsigned harts, void (*open_books)() noexcept) noexcept {
  if (ready) return Status::kBusy;
  if (memory.empty() || harts == 0 || harts > hal::Port::kMaxHarts) return Status::kInvalid;
  exhaustion::reset();
  // The first tags lie at the start of the first range: with them base can cut its own pages into tags.
  const std::uintptr_t first = (memory[0].start + kPage - 1) & ~(kPage - 1);
  if (memory[0].size < 16 * kPage || first - memory[0].start > memory[0].size - 16 * kPage) return Status::kInvalid;
  page_map.reset();
  boundary_tags_initialize(reinterpret_cast<void*>(first), kPage);
  // Anew: shutdown() has left it as it was. The books have their memory from there, so they do not trace it.
  Status status = (new (&base) Arena)->initialize({.name = "base", .no_trace = true});
  for (std::size_t i = 0; i < memory.size() && status == Status::kOk; ++i) {
    const std::uintptr_t start = i == 0 ? first + kPage : memory[i].start;
    const std::uintptr_t end = memory[i].start + memory[i].size;
    status = base.add(start, end - start);
    if (i == 0) boundary_tags_set_root(base);
    if (status == Status::kOk) status = page_map.add_bank(start, end);
  }
  if constexpr (kCallSites) {
    if (status == Status::kOk) status = call_sites::initialize(harts);
  }
  if (status == Status::kOk) status = caches.initialize(harts);
  if (status == Status::kOk) {
    if (open_books != nullptr) open_books();
    if (internal::initialize_page_arena != nullptr) status = internal::initialize_page_arena();
  }
  if (status == Status::kOk) status = heap::initialize();
  ready = status == Status::kOk;
  return status;
}

void shutdown() noexcept {
  ready = false;
  heap::shutdown();
  if constexpr (kCallSites) call_sites::shutdown();
  registry_reset();
  exhaustion::reset();
  set_observer(nullptr);
}

Status add_memory(const MemoryRange& range) noexcept {
  const std::uintptr_t end = range.start + range.size;
  if (!ready || end < range.start) return Status::kInvalid;
  // The bank first: what other harts take of it they may free at once.
  Status status = page_map.add_bank(range.start, end);
  if (status != Status::kOk) return status;
  status = base.add(range.start, range.size);
  if (status != Status::kOk) page_map.drop_bank();
  return status;
}

Arena& base_arena() noexcept { return base; }
unsigned hart_count() noexcept { return caches.harts(); }

void attach_hart(unsigned hart) noexcept {
  internal::attach_cells(hart);
  heap::attach_hart();
  if constexpr (kCallSites) call_sites::attach_hart(hart);
  hal::hart_online(hart);
}

void detach_hart(unsigned hart) noexcept {
  RegistryCursor<Cache> all;
  while (Cache* cache = all.next()) {
    const hal::InterruptGuard masked;
    cache->detach_magazines(hart);
  }
  hal::hart_offline(hart);
}

std::size_t trim() noexcept {
  const std::size_t before = base_arena().stats().free;
  RegistryCursor<Cache> all;
  while (Cache* cache = all.next()) cache->trim();
  const std::size_t after = base_arena().stats().free;
  return after > before ? after - before : 0;
}

namespace internal {

void* allocate_cache() noexcept { return QM_ALLOC(caches[InternalCaches::kCaches].allocate); }
void free_cache(void* cache) noexcept { caches[InternalCaches::kCaches].free(cache); }
namespace {
/// The cache of blocks of @p words words.
Cache& blocks_of(unsigned words) noexcept {
  unsigned block = 0;
  while (kBlocks[block].words < words) ++block;
  return caches[InternalCaches::kMagazines + block];
}
constexpr unsigned kHeadWords = sizeof(Magazine) / sizeof(void*);
}  // namespace

void* allocate_block(unsigned words) noexcept { return blocks_of(words).allocate_direct(); }
void free_block(void* block, unsigned words) noexcept { blocks_of(words).free_direct(block); }

Magazine* create_magazine(std::uint32_t rounds) noexcept {
  unsigned step = 0;
  while (step + 1 < kMagazineSteps && kMagazineRounds[step] < rounds) ++step;
  void* place = allocate_block(kHeadWords + kMagazineRounds[step]);
  if (place == nullptr) return nullptr;
  auto* magazine = new (place) Magazine;
  magazine->capacity = kMagazineRounds[step];
  return magazine;
}

void free_magazine(Magazine* magazine) noexcept { free_block(magazine, kHeadWords + magazine->capacity); }

}  // namespace internal
}  // namespace qm
