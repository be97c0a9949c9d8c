#include <qm/config.h>
#include <qm/heap.hpp>

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/detail/bits.hpp>
#include <qm/detail/checked.hpp>
#include <qm/guards.hpp>
#include <qm/misuse.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/detail/poison.hpp>
#include <qm/system.hpp>

#include "segments/blocks.hpp"
#include "heap/heap_blocks.hpp"
#include "heap/size_classes.hpp"
#include "slab/upkeep.hpp"

namespace qm::heap {

std::atomic<Cache*> classes[kClasses];

// There are few large classes, so a linear search is enough.
unsigned class_of_large(std::size_t size) noexcept {
  for (unsigned number = kLastInTable + 1; number != kClasses; ++number) {
    const std::size_t bytes = kClassBytes[number];
    if (size <= bytes) return (bytes - size) * 8 <= bytes ? number : 0;
  }
  return 0;
}

namespace {

constinit Arena large;  // `kheap`
constinit Blocks blocks;
std::atomic<std::uint32_t> refused_frees{0};

/// Counts and reports a free that is refused. @param[in] cache the class whose block it is, or nullptr.
void report_misuse(Misuse kind, void* block, Cache* cache) noexcept {
  refused_frees.fetch_add(1, std::memory_order_relaxed);
  MisuseReport report;
  report.kind = kind;
  report.cache = cache;
  report.object = block;
  internal::tell_misuse(report);
}

using ClassName = std::array<char, 14>;
constexpr std::array<ClassName, kClasses> kClassNames = [] {
  std::array<ClassName, kClasses> names{};
  for (unsigned number = 0; number < kClasses; ++number) {
    ClassName& name = names[number];
    unsigned length = 0;
    for (const char c : {'k', 'm', 'a', 'l', 'l', 'o', 'c', '_'}) name[length++] = c;
    for (unsigned unit = 10000; unit != 0; unit /= 10) {
      if (kClassBytes[number] >= unit) name[length++] = static_cast<char>('0' + kClassBytes[number] / unit % 10);
    }
  }
  return names;
}();

/// Bytes that the first cache of a class takes beyond those of every cache: a page-map leaf, and a slab each for caches
/// and for magazines.
constexpr std::size_t kFirstCacheBytes = 3 * PageMap::kPageBytes;
/// Bytes that a cache takes beside its slab before it serves more than a few objects: magazines. And the approximate
/// number of objects in a slab.
constexpr std::size_t kBesideSlab = PageMap::kPageBytes;
constexpr std::size_t kInSlab = 6;
/// Classes may have caches at once while these take at most this part of the memory. With small pages, which mean that
/// there is little memory, the part is smaller.
constexpr std::size_t kCacheShare = PageMap::kPageBytes >= 4096 ? 8 : 256;
/// A class that holds this many blocks, and bytes, has a cache if there is memory for one: the idle memory in its last
/// slab is little beside that.
constexpr std::size_t kManyBlocks = 256;
constexpr std::size_t kManyBytes = 64 << 10;
/// Blocks of the smallest class are at least a third header and rounding. The class has a cache once it holds this many:
/// then these are 8 KiB, or 1400 bytes without magazines, because such a cache costs less memory.
constexpr std::size_t kManyTiny =
    (kMagazines ? 8192 : 1400) / (Blocks::bytes_for(kClassBytes[1], kCallSites) - kClassBytes[1]);
/// Below this memory no class has a cache; below the next, no cache has magazines.
constexpr std::size_t kLeastForCaches = 48 * PageMap::kPageBytes;
constexpr std::size_t kLeastForMagazines = 256 << 10;
/// A class's slab has this part of the memory, or of the bytes that the class held in blocks when its cache was made.
constexpr std::size_t kSlabShareOfMemory = 2048;
constexpr std::size_t kSlabShareOfClass = 4;

std::atomic<std::size_t> affordable{0};  ///< bytes that caches made at once may still take
std::atomic<std::size_t> memory_bytes{0};

/// The bytes that the class's cache takes at first.
std::size_t bytes_of_cache(unsigned number, std::size_t memory) noexcept {
  std::size_t slab = kInSlab * kClassBytes[number];
  std::size_t of_memory = memory / kSlabShareOfMemory;
  if (of_memory > SlabLayer::kUsualSlabBytes) of_memory = SlabLayer::kUsualSlabBytes;
  if (slab < of_memory) slab = of_memory;
  return kBesideSlab + (slab > PageMap::kPageBytes ? slab : PageMap::kPageBytes);
}

/// Whether the class's objects should come from slabs, because a cache costs little, or pays.
bool earns_cache(unsigned number) noexcept {
  const std::size_t memory = memory_bytes.load(std::memory_order_relaxed);
  if (memory < kLeastForCaches) return false;
  if (bytes_of_cache(number, memory) <= affordable.load(std::memory_order_relaxed)) return true;
  const std::size_t held = __atomic_load_n(&blocks.held[number], __ATOMIC_RELAXED);
  const std::size_t bytes = kClassBytes[number];
  if (number == 1) return held >= kManyTiny;
  return held >= kManyBlocks && held * bytes >= kManyBytes;
}

/// Makes the class's cache, unless that fails: there is no memory, or the firmware has given its name to a cache of its
/// own.
void create_class_alone(unsigned number) noexcept {
  const std::uint16_t hart_cache_pointer = internal::heap_hart_cache_pointer(PageMap::tag_of(number));
  const std::size_t memory = memory_bytes.load(std::memory_order_relaxed);
  const std::size_t of_memory = memory / kSlabShareOfMemory;
  const std::size_t of_class =
      __atomic_load_n(&blocks.held[number], __ATOMIC_RELAXED) * kClassBytes[number] / kSlabShareOfClass;
  CacheConfig config;  // no call from here on: the compiler sees that the flags are these
  config.name = kClassNames[number].data();
  config.object_size = kClassBytes[number];
  config.alignment =
      kCallSites ? kAlignment : config.object_size & (~config.object_size + 1);  // the alignment of its multiples
  config.magazine_rounds = number <= kLastInTable ? 13 : 7;  // about what a slab holds of the large ones
  config.heap_class = static_cast<std::uint8_t>(number);
  config.hart_cache_pointer = hart_cache_pointer;
  if (memory < kLeastForMagazines) config.flags |= cache_flags::kNoMagazines;
  config.least_slab = of_class > of_memory ? of_class : of_memory;
  Cache* cache = Cache::create(config);
  // release: pairs with the acquire in cache_of(), so that the cache is seen whole.
  if (cache != nullptr) {
    const std::size_t left = affordable.load(std::memory_order_relaxed);
    const std::size_t bytes = bytes_of_cache(number, memory);
    affordable.store(left > bytes ? left - bytes : 0, std::memory_order_relaxed);
    classes[number].store(cache, std::memory_order_release);
  }
}

/// The same, unless another hart or an interrupted task makes one at this moment: a cache is entered without a search
/// for its name, so only one may be made at a time.
void create_class(unsigned number) noexcept {
  static std::atomic<std::uint32_t> is_busy{0};
  if (is_busy.exchange(1, std::memory_order_acquire) != 0) return;
  if (cache_of(number) == nullptr) create_class_alone(number);
  is_busy.store(0, std::memory_order_release);
}

/// Does one step towards the cache of a class that has earned it: a slab for the structures of caches, tags of the page
/// map (in two steps), then the cache. Each step costs as much as an operation may, so the allocation that does it
/// returns a block.
void prepare_class(unsigned number) noexcept {
  if (internal::prepare_cache() || (page_map.prepares_first() && page_map.prepare())) return;
  create_class(number);
}

/// Allocates an object of a class's cache. With call sites it calls the slow half: the cache's section charges without
/// the bytes requested.
void* take(Cache& cache, std::size_t alignment, const CallSite* site, std::size_t size,
           WaitPolicy wait_policy) noexcept {
  // A guarded object has only kAlignment.
  if (alignment > kAlignment && (cache.state().load(std::memory_order_relaxed) & trace_state::kGuard) != 0)
    return qm_cache_allocate_other(&cache, site, size, wait_policy);
  if constexpr (kCallSites) return qm_cache_allocate_slow(&cache, site, size, wait_policy);
  return cache.allocate_fitting(site, size, wait_policy);
}

/// Allocates; without call sites by the slow path, because a call of the fast path would link it.
void* allocate_any(const CallSite* site, std::size_t size) noexcept {
  if constexpr (kCallSites) return allocate_at(site, size);
  return allocate_at(site, size, WaitPolicy::kAuto);
}

/// Notifies a trace that records frees: a block in a slab stays in place with another size.
[[gnu::noinline]] void note_resize(Cache& cache, void* block, std::size_t size) noexcept {
  const hal::InterruptGuard masked;
  // acquire: as for a free, the word is read in the section that changes the record (O2).
  if ((cache.state().load(std::memory_order_acquire) & trace_state::kHearsFree) != 0)
    observer()->resized(cache, block, size);
}

/// The cache or arena of a block of the heap, which lies in a slab of @p cache, or is large if that is null.
Traceable& source_of(Cache* cache) noexcept {
  if (cache != nullptr) return *cache;
  return large;
}

/// usable_size() of such a block.
std::size_t usable_in(Cache* cache, const void* block) noexcept {
  if (cache == nullptr) {
    const std::size_t size = large.size_of(reinterpret_cast<std::uintptr_t>(block));
    const guards::internal::Calls* const guards = size == 0 ? guards::internal::linked() : nullptr;
    return guards != nullptr ? guards->size_of(block) : size;
  }
  if constexpr (kChecked) return checked::requested(*cache, block);  // the redzone begins behind it
  return cache->object_size();
}

/// Whether a free is reported as an event.
bool is_told(Traceable& source) noexcept {
  return (source.state().load(std::memory_order_relaxed) & trace_state::kStream) != 0;
}

/// Charges a block in a slab, which stays in place, to another site.
[[maybe_unused]] void recharge(Cache& cache, void* block, const CallSite* site, std::size_t size) noexcept {
  cache.discharge(block);
  cache.charge(block, site, size);
}

/// Frees a guarded object; counts or reports another address that is no block.
/// @param[in] size the size given to free_sized(); 0: none.
[[gnu::noinline]] void refuse_free_of_large(void* block, Status status, std::uintptr_t frame,
                                            std::size_t size) noexcept {
  const guards::internal::Calls* const guards = guards::internal::linked();
  const std::size_t has = guards != nullptr && size != 0 ? guards->size_of(block) : 0;
  if (has != 0 && has != size) return report_misuse(Misuse::kWrongSize, block, nullptr);
  if (guards != nullptr && guards->free(block, frame)) return;
  large.count_refused_free();
  if (status == Status::kInvalid) {  // a damaged header beside it, which the arena has reported
    refused_frees.fetch_add(1, std::memory_order_relaxed);
  } else {
    report_misuse(status == Status::kMismatch ? Misuse::kWrongSize : Misuse::kForeign, block, nullptr);
  }
}

/// Looks at the result of freeing a block that lies in no slab.
[[gnu::always_inline]] inline void note_free_of_large(void* block, Status status, std::size_t size = 0) noexcept {
  if (status != Status::kOk) [[unlikely]]
    refuse_free_of_large(block, status, guards::internal::current_frame(), size);
}

}  // namespace

/// Allocates an object of the cache of class @p number, or a block if the class has none; number 0: a size above the
/// classes. An allocation that finds a block at little cost does one step in advance: towards the class's cache, or of
/// upkeep.
static void* allocate_in(unsigned number, std::size_t alignment, const CallSite* site, std::size_t size,
                         WaitPolicy wait_policy) noexcept {
  if (Cache* cache = cache_of(number); cache != nullptr) return take(*cache, alignment, site, size, wait_policy);
  if (observer() != nullptr) {
    if (number != 0 && earns_cache(number)) {
      // With the trace linked, a class's cache is made before its first block: a trace by the class's name has all of
      // the class.
      create_class(number);
      if (Cache* cache = cache_of(number); cache != nullptr) return take(*cache, alignment, site, size, wait_policy);
    }
    if (guards::internal::samples_heap.load(std::memory_order_relaxed) && !guards::internal::may_pass(1) &&
        large.state().load(std::memory_order_relaxed) == 0) {
      if (const guards::internal::Calls* guards = guards::internal::linked(); guards != nullptr) {
        const std::uintptr_t frame = guards::internal::current_frame();
        void* const sample = guards->allocate(nullptr, size != 0 ? size : 1, alignment, frame);
        if (sample != nullptr) return sample;
      }
    }
  }
  // Without magazines a cache only saves memory: here the block is no larger than the cache's object.
  if (!kMagazines && observer() == nullptr && size + Blocks::kHeaderBytes <= kClassBytes[number]) number = 0;
  const std::uint32_t imports = blocks.imports.load(std::memory_order_relaxed);
  const std::uintptr_t block = large.allocate_block(size != 0 ? size : 1, alignment, number, site, wait_policy);
  if (block == 0) return nullptr;
  // An operation that has asked the source for memory has done enough.
  if (blocks.imports.load(std::memory_order_relaxed) != imports) return reinterpret_cast<void*>(block);
  if (number != 0 && earns_cache(number)) {
    prepare_class(number);
  } else if constexpr (kMagazines) {
    upkeep::run_long();
  }
  return reinterpret_cast<void*>(block);
}

void* allocate_in(unsigned number, const CallSite* site, std::size_t size, WaitPolicy wait_policy) noexcept {
  return allocate_in(number, kAlignment, site, size, wait_policy);
}

void free_large(void* block) noexcept {
  if (block != nullptr) note_free_of_large(block, large.free_block(reinterpret_cast<std::uintptr_t>(block), SIZE_MAX));
}

/// How much the heap imports at a time, with this much memory.
constexpr std::size_t import_bytes(std::size_t memory) noexcept {
  const std::size_t part = round_down(memory / 64, PageMap::kPageBytes);
  if (part < PageMap::kPageBytes) return PageMap::kPageBytes;
  return part < kLargeImport ? part : kLargeImport;
}

void note_memory(std::size_t memory) noexcept {
  std::size_t taken = kFirstCacheBytes;
  for (unsigned number = 0; number < kClasses; ++number) {
    if (classes[number].load(std::memory_order_relaxed) != nullptr) taken += bytes_of_cache(number, memory);
  }
  const std::size_t share = memory / kCacheShare;
  affordable.store(share > taken ? share - taken : 0, std::memory_order_relaxed);
  memory_bytes.store(memory, std::memory_order_relaxed);
}

Status initialize() noexcept {
  note_memory(base_arena().stats().total);
  // Constructed anew: an allocation after shutdown() may have left it tags of a pool that no longer exists.
  return (new (&large) Arena)
      ->initialize({.name = "kheap",
                    .quantum = kAlignment,
                    .source = &base_arena(),
                    .minimum_import = import_bytes(base_arena().stats().total),
                    .charged = true,
                    .blocks = new (&blocks) Blocks});
}

Status add_memory(std::uintptr_t start, std::size_t size) noexcept { return large.add(start, size); }

bool has_room() noexcept {
  const ArenaStats base = base_arena().stats();
  if (base.total - base.allocated > 4 * PageMap::kPageBytes) return true;
  const std::uintptr_t block = large.allocate(kLeastRoom, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
  return block != 0 && large.free(block, kLeastRoom) == Status::kOk;
}

void attach_hart() noexcept {
  const hal::InterruptGuard masked;
  internal::reset_heap_pointers();
}

void shutdown() noexcept {
  attach_hart();
  for (auto& one : classes) one.store(nullptr, std::memory_order_relaxed);
  refused_frees.store(0, std::memory_order_relaxed);
  if constexpr (poison::kHides) {
    blocks.visit_large(0, [](BlockHeader& block) noexcept {
      poison::show(&block, block.bytes());
      return true;
    });
    new (&blocks) Blocks;
  }
  new (&large) Arena;
}

std::size_t misuses() noexcept { return refused_frees.load(std::memory_order_relaxed); }

void* allocate_at(const CallSite* site, std::size_t size, WaitPolicy wait_policy) noexcept {
  return allocate_in(class_of(size), site, size, wait_policy);
}

void* allocate_zeroed_at(const CallSite* site, std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* block = allocate_any(site, bytes);
  if (block != nullptr) std::memset(block, 0, bytes);
  return block;
}

void* allocate_aligned_at(const CallSite* site, std::size_t alignment, std::size_t size) noexcept {
  if (!is_power_of_two(alignment)) return nullptr;
  if (alignment <= kAlignment) return allocate_any(site, size);
  const unsigned number = class_of(size, alignment);
  if (large.name()[0] == 0) return nullptr;  // before initialize()
  return allocate_in(number, alignment, site, size, WaitPolicy::kAuto);
}

std::size_t class_bytes(unsigned number) noexcept { return number < kClasses ? kClassBytes[number] : 0; }

std::size_t usable_size(const void* block) noexcept { return usable_in(cache_of(block), block); }

/// reallocate_at() of a block of @p cache, large if that is null, which has to move to class @p number. A separate
/// function, so that a block that is in the right class already saves no registers for it: 40 instructions of 90 less.
[[gnu::noinline]] static void* reallocate_other(const CallSite* site, void* block, std::size_t size, Cache* cache,
                                                unsigned number) noexcept {
  const std::size_t old = usable_in(cache, block);
  if (cache == nullptr && old == 0) {
    report_misuse(Misuse::kForeign, block, nullptr);
    return nullptr;
  }
  if (cache == nullptr && cache_of(number) == nullptr) {
    const auto start = reinterpret_cast<std::uintptr_t>(block);
    if (large.resize_in_place(start, old, size) == Status::kOk) {
      if constexpr (kCallSites) large.recharge(start, site);
      return block;
    }
  }
  const bool as_one = is_told(source_of(cache));
  void* moved = allocate_in(number, site, size, as_one ? WaitPolicy::kMoving : WaitPolicy::kAuto);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, old < size ? old : size);
  if (as_one) {
    const hal::InterruptGuard masked;
    observer()->moved(source_of(cache), block, source_of(cache_of(moved)), moved, size);
    free_in(cache, block);
    return moved;
  }
  free_in(cache, block);
  return moved;
}

void* reallocate_at(const CallSite* site, void* block, std::size_t size) noexcept {
  if (block == nullptr) return allocate_any(site, size);
  Cache* const cache = cache_of(block);
  const unsigned number = class_of(size);
  if (cache == nullptr || cache != cache_of(number)) return reallocate_other(site, block, size, cache, number);
  if constexpr (kChecked) checked::resize(*cache, block, size);
  if ((cache->state().load(std::memory_order_relaxed) & trace_state::kHearsFree) != 0) note_resize(*cache, block, size);
  if constexpr (kCallSites) recharge(*cache, block, site, size);
  return block;
}

const CallSite* site_of([[maybe_unused]] void* block) noexcept {
  if constexpr (kCallSites) {
    if (Cache* cache = cache_of(block); cache != nullptr) return cache->site_of(block);
    return large.site_of(reinterpret_cast<std::uintptr_t>(block));
  } else {
    return nullptr;
  }
}

void free_sized(void* block, std::size_t size, std::size_t alignment) noexcept {
  Cache* cache = cache_of(block);
  if (cache == nullptr) {
    if (block == nullptr) return;
    if (size == 0) size = 1;
    const std::size_t checked = size != SIZE_MAX ? size : 0;  // SIZE_MAX would not be checked
    return note_free_of_large(block, large.free_block(reinterpret_cast<std::uintptr_t>(block), checked), size);
  }
  const unsigned number = alignment <= kAlignment ? class_of(size) : class_of(size, alignment);
  if (number == 0 || cache != cache_of(number)) return report_misuse(Misuse::kWrongSize, block, cache);
  give(*cache, block);
}

}  // namespace qm::heap

constinit const std::array<std::uint8_t, QM_CLASS_STEPS> qm_heap_class_tags = [] {
  std::array<std::uint8_t, QM_CLASS_STEPS> table{};
  for (unsigned step = 0, number = 1; step < table.size(); ++step) {
    while (qm::heap::kClassBytes[number] < (step + 1) * qm::heap::kClassStep) ++number;
    table[step] = qm::PageMap::tag_of(number);
  }
  return table;
}();

#if defined(QM_CALL_SITES)
constinit const std::array<std::uintptr_t, QM_CLASSES> qm_heap_class_amounts = [] {
  std::array<std::uintptr_t, QM_CLASSES> amounts{};
  for (unsigned number = 0; number < amounts.size(); ++number)
    amounts[number] = qm::SiteWord::amount_of(qm::heap::kClassBytes[number]);
  return amounts;
}();
#endif
