#include <qm/config.h>
#include <qm/heap.hpp>

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/checked.hpp>
#include <qm/misuse.hpp>
#include <qm/page_map.hpp>
#include <qm/system.hpp>

#include "blocks.hpp"
#include "heap_blocks.hpp"
#include "size_classes.hpp"

namespace qm::heap {

std::atomic<Cache*> classes[kClasses];

// Few, so that they are looked at one after the other.
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

/// Counts and tells a free that is refused. @param[in] cache the class whose block it is, nullptr if it is none.
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

/// Bytes that the first cache of a class takes beyond what each takes: a leaf of the page map, and a slab each of caches and of
/// magazines.
constexpr std::size_t kFirstCacheBytes = 3 * PageMap::kPageBytes;
/// Bytes that each takes beside its slab before it serves more than a few objects: magazines. And objects in a slab, about.
constexpr std::size_t kBesideSlab = PageMap::kPageBytes;
constexpr std::size_t kInSlab = 6;
/// Classes may have caches at once while these take at most so much of the memory.
constexpr std::size_t kCacheShare = 64;
/// A class that holds so many blocks, and bytes, has a cache if there is the memory for any: what is idle in its last slab is
/// little beside that.
constexpr std::size_t kManyBlocks = 256;
constexpr std::size_t kManyBytes = 64 << 10;
/// A class whose blocks are at least half headers and rounding has a cache once it holds so many.
constexpr std::size_t kManyTiny = 512;
/// Below this memory no class has a cache; and below the next, none has magazines.
constexpr std::size_t kLeastForCaches = 48 * PageMap::kPageBytes;
constexpr std::size_t kLeastForMagazines = 256 << 10;
/// A class's slab has this part of the memory, or of what the class held in blocks when its cache was made.
constexpr std::size_t kSlabShareOfMemory = 2048;
constexpr std::size_t kSlabShareOfClass = 4;

std::atomic<std::size_t> affordable{0};  ///< bytes that caches which are made at once may still take
std::atomic<std::size_t> memory_bytes{0};

/// What the class's cache takes at first.
std::size_t bytes_of_cache(unsigned number, std::size_t memory) noexcept {
  std::size_t slab = kInSlab * kClassBytes[number];
  if (slab < memory / kSlabShareOfMemory) slab = memory / kSlabShareOfMemory;
  return kBesideSlab + (slab > PageMap::kPageBytes ? slab : PageMap::kPageBytes);
}

/// Whether the class's objects should come from slabs: it costs little, or pays.
bool earns_cache(unsigned number) noexcept {
  const std::size_t memory = memory_bytes.load(std::memory_order_relaxed);
  if (memory < kLeastForCaches) return false;
  if (bytes_of_cache(number, memory) <= affordable.load(std::memory_order_relaxed)) return true;
  const std::size_t held = __atomic_load_n(&blocks.held[number], __ATOMIC_RELAXED);
  const std::size_t bytes = kClassBytes[number];
  if (2 * bytes <= Blocks::bytes_for(bytes, kCallSites)) return held >= kManyTiny;
  return held >= kManyBlocks && held * bytes >= kManyBytes;
}

/// Makes the class's cache.
/// @returns nullptr if it cannot be had now: no memory, another hart or an interrupted task is making it this moment,
///          or the firmware has given its name to a cache of its own.
Cache* create_class(unsigned number) noexcept {
  if (large.name()[0] == 0) return nullptr;  // before initialize()
  const std::uint16_t cell_pointer = internal::heap_cell_pointer(PageMap::tag_of(number));
  const std::size_t memory = memory_bytes.load(std::memory_order_relaxed);
  const std::size_t of_memory = memory / kSlabShareOfMemory;
  const std::size_t of_class =
      __atomic_load_n(&blocks.held[number], __ATOMIC_RELAXED) * kClassBytes[number] / kSlabShareOfClass;
  CacheConfig config;  // no call from here on: the flags are seen to be these
  config.name = kClassNames[number].data();
  config.object_size = kClassBytes[number];
  config.alignment =
      kCallSites ? kAlignment : config.object_size & (~config.object_size + 1);  // what its multiples are aligned to
  config.magazine_rounds = number <= kLastInTable ? 13 : 7;                      // what a slab has of the large ones
  config.heap_class = static_cast<std::uint8_t>(number);
  config.cell_pointer = cell_pointer;
  if (memory < kLeastForMagazines) config.flags |= cache_flags::kDirect;
  config.least_slab = of_class > of_memory ? of_class : of_memory;
  Cache* cache = Cache::create(config);
  // release: pairs with the acquire in cache_of(), so that the cache is seen whole.
  if (cache != nullptr) {
    const std::size_t left = affordable.load(std::memory_order_relaxed);
    const std::size_t bytes = bytes_of_cache(number, memory);
    affordable.store(left > bytes ? left - bytes : 0, std::memory_order_relaxed);
    classes[number].store(cache, std::memory_order_release);
  }
  return classes[number].load(std::memory_order_acquire);
}

/// The class's cache, made if it has earned one; nullptr: there is none now, as of class 0.
[[gnu::always_inline]] inline Cache* have_class(unsigned number) noexcept {
  Cache* cache = cache_of(number);
  if (cache != nullptr || number == 0 || !earns_cache(number)) return cache;
  return create_class(number);
}

/// An object of a class's cache. With call sites by the slow half: the cache's section charges without the bytes asked
/// for.
void* take(Cache& cache, const CallSite* site, std::size_t size, Effort effort) noexcept {
  if constexpr (kCallSites) return qm_cache_allocate_slow(&cache, site, size, effort);
  return cache.allocate_fitting(site, size, effort);
}

/// Without call sites not by the fast path: it is linked where it is called.
void* allocate_any(const CallSite* site, std::size_t size) noexcept {
  if constexpr (kCallSites) return allocate_at(site, size);
  return allocate_at(site, size, Effort::kAuto);
}

/// Tells the books, which hear of frees, that a block in a slab stays where it is with another size.
[[gnu::noinline]] void note_resize(Cache& cache, void* block, std::size_t size) noexcept {
  const hal::InterruptGuard masked;
  // acquire: as for a free, the word is read in the section that changes the record (O2).
  if ((cache.state().load(std::memory_order_acquire) & trace_state::kHearsFree) != 0)
    observer()->resized(cache, block, size);
}

/// What a block of the heap belongs to, which lies in a slab of @p cache, or is large where that is null.
Traceable& source_of(Cache* cache) noexcept {
  if (cache != nullptr) return *cache;
  return large;
}

/// As usable_size(), of such a block.
std::size_t usable_in(Cache* cache, const void* block) noexcept {
  if (cache == nullptr) return large.size_of(reinterpret_cast<std::uintptr_t>(block));
  if constexpr (kChecked) return checked::requested(*cache, block);  // the redzone begins behind it
  return cache->object_size();
}

/// Whether a free would be told as an event.
bool is_told(Traceable& source) noexcept {
  return (source.state().load(std::memory_order_relaxed) & trace_state::kStream) != 0;
}

/// A block in a slab stays where it is, and is another site's.
[[maybe_unused]] void recharge(Cache& cache, void* block, const CallSite* site, std::size_t size) noexcept {
  cache.discharge(block);
  cache.charge(block, site, size);
}

/// What freeing a block that is in no slab has come to.
void note_free_of_large(void* block, Status status) noexcept {
  if (status == Status::kOk) return;
  if (status == Status::kInvalid) {  // a damaged header beside it, and the arena has told of it
    refused_frees.fetch_add(1, std::memory_order_relaxed);
  } else {
    report_misuse(status == Status::kMismatch ? Misuse::kWrongSize : Misuse::kForeign, block, nullptr);
  }
}

}  // namespace

void* allocate_in(unsigned number, const CallSite* site, std::size_t size, Effort effort) noexcept {
  if (Cache* cache = have_class(number); cache != nullptr) return take(*cache, site, size, effort);
  return reinterpret_cast<void*>(large.allocate_block(size != 0 ? size : 1, kAlignment, number, site, effort));
}

void free_large(void* block) noexcept {
  if (block != nullptr) note_free_of_large(block, large.free(reinterpret_cast<std::uintptr_t>(block)));
}

/// What the heap imports of so much memory at a time.
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
  // Anew: an allocation after shutdown() has left tags of a pool that is no more.
  return (new (&large) Arena)
      ->initialize({.name = "kheap",
                    .quantum = kLargeQuantum,
                    .source = &base_arena(),
                    .minimum_import = import_bytes(base_arena().stats().total),
                    .charged = true,
                    .blocks = new (&blocks) Blocks});
}

Status add_memory(std::uintptr_t start, std::size_t size) noexcept { return large.add(start, size); }

void attach_hart() noexcept {
  const hal::InterruptGuard masked;
  internal::reset_heap_pointers();
}

void shutdown() noexcept {
  attach_hart();
  for (auto& one : classes) one.store(nullptr, std::memory_order_relaxed);
  refused_frees.store(0, std::memory_order_relaxed);
  new (&large) Arena;
}

std::size_t misuses() noexcept { return refused_frees.load(std::memory_order_relaxed); }

void* allocate_at(const CallSite* site, std::size_t size, Effort effort) noexcept {
  return allocate_in(class_of(size), site, size, effort);
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
  if (alignment <= kLargeQuantum) return allocate_in(number, site, size, Effort::kAuto);
  if (Cache* cache = have_class(number); cache != nullptr) return take(*cache, site, size, Effort::kAuto);
  if (large.name()[0] == 0) return nullptr;  // before initialize()
  return reinterpret_cast<void*>(large.allocate_block(size != 0 ? size : 1, alignment, number, site, Effort::kAuto));
}

std::size_t class_bytes(unsigned number) noexcept { return number < kClasses ? kClassBytes[number] : 0; }

std::size_t usable_size(const void* block) noexcept { return usable_in(cache_of(block), block); }

/// reallocate_at() of a block of @p cache, large if that is null, which is to be of class @p number. A function of its
/// own, so that who finds its block in the right class saves no registers for it: that saves 40 instructions of 90.
[[gnu::noinline]] static void* reallocate_other(const CallSite* site, void* block, std::size_t size, Cache* cache,
                                                unsigned number) noexcept {
  const std::size_t old = usable_in(cache, block);
  if (cache == nullptr && old == 0) {
    report_misuse(Misuse::kForeign, block, nullptr);
    return nullptr;
  }
  if (cache == nullptr && number == 0) {
    const auto start = reinterpret_cast<std::uintptr_t>(block);
    if (large.resize_in_place(start, old, size) == Status::kOk) {
      if constexpr (kCallSites) large.recharge(start, site);
      return block;
    }
  }
  const bool as_one = is_told(source_of(cache));
  void* moved = allocate_in(number, site, size, as_one ? Effort::kMoving : Effort::kAuto);
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
    return note_free_of_large(block, large.free(reinterpret_cast<std::uintptr_t>(block), size != 0 ? size : 1));
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
