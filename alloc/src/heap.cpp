#include <qm/heap.hpp>

#include <array>
#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/system.hpp>

namespace qm::heap {
namespace {

constexpr std::size_t kPage = SlabLayer::kPageBytes;
constexpr std::size_t kLargeQuantum = 64;
constexpr std::size_t kLargeImport = 64 * 1024;
constexpr unsigned kClasses = 24;

constexpr std::size_t class_bytes(unsigned number) {
  return number < 16 ? (number + 1) * 16 : 256 + (number - 15) * 32;
}
static_assert(class_bytes(15) == 256 && class_bytes(16) == 288 && class_bytes(kClasses - 1) == kMaxClassBytes);

/// The class of a size, indexed by the size in steps of 16, rounded up.
constexpr std::array<std::uint8_t, kMaxClassBytes / 16 + 1> kClassOf = [] {
  std::array<std::uint8_t, kMaxClassBytes / 16 + 1> table{};
  for (unsigned step = 1; step < table.size(); ++step) {
    while (class_bytes(table[step]) < step * 16) ++table[step];
  }
  return table;
}();

constexpr unsigned class_of(std::size_t size) { return kClassOf[(size + 15) / 16]; }

std::array<std::atomic<Cache*>, kClasses> classes;
constinit Arena large;  // `kheap`
std::atomic<std::uint32_t>* large_pages = nullptr;  // a bit a page of [low, high): in a span of `kheap`
std::uintptr_t memory_low = 0;
std::uintptr_t memory_high = 0;

void mark_pages(std::uintptr_t start, std::size_t size, bool is_large) noexcept {
  for (std::uintptr_t page = (start - memory_low) / kPage; page < (start + size - memory_low) / kPage; ++page) {
    const std::uint32_t bit = std::uint32_t{1} << (page % 32);
    if (is_large) {
      large_pages[page / 32].fetch_or(bit, std::memory_order_relaxed);
    } else {
      large_pages[page / 32].fetch_and(~bit, std::memory_order_relaxed);
    }
  }
}

bool is_large(std::uintptr_t address) noexcept {
  const std::uintptr_t page = (address - memory_low) / kPage;
  return (large_pages[page / 32].load(std::memory_order_relaxed) >> (page % 32) & 1) != 0;
}

std::uintptr_t import_span(Arena& source, std::size_t size, Fit fit) noexcept {
  const std::uintptr_t start = source.allocate(size, fit);
  if (start != 0) mark_pages(start, size, true);
  return start;
}

void release_span(Arena& source, std::uintptr_t start, std::size_t size) noexcept {
  mark_pages(start, size, false);
  source.free(start, size);
}

/// Creates the class's cache, or finds the one that another hart has just created.
Cache* create_class(unsigned number) noexcept {
  char name[16] = "kmalloc_";
  unsigned length = 8;
  const std::size_t bytes = class_bytes(number);
  for (std::size_t unit = bytes >= 100 ? 100 : 10; unit != 0; unit /= 10) {
    name[length++] = static_cast<char>('0' + bytes / unit % 10);
  }
  CacheConfig config;
  config.name = name;
  config.object_size = bytes;
  config.alignment = kAlignment;
  Status why = Status::kOk;
  Cache* cache = Cache::create(config, &why);
  if (cache != nullptr) {
    // release: pairs with the acquire in allocate_at(), so that the cache is seen whole.
    classes[number].store(cache, std::memory_order_release);
    return cache;
  }
  while (why == Status::kDuplicate && (cache = classes[number].load(std::memory_order_acquire)) == nullptr) hal::Port::relax();
  return cache;
}

void* allocate_large(std::size_t alignment, std::size_t size, Effort effort) noexcept {
  Constraint constraint;
  constraint.align = alignment;
  const bool plain = alignment <= kLargeQuantum;
  const auto attempt = [&] {
    return plain ? large.allocate(size) : large.allocate_constrained(size, constraint, Fit::kInstant);
  };
  std::uintptr_t start = attempt();
  if (start == 0 && effort != Effort::kAtomic && size < memory_high - memory_low && hal::may_wait()) {
    reclaim();
    start = attempt();
  }
  return reinterpret_cast<void*>(start);
}

/// The cache of a block that is in a slab.
Cache* cache_of(const void* block) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  return reinterpret_cast<const Slab*>((address | (kPage - 1)) + 1 - sizeof(Slab))->cache;
}

}  // namespace

Status initialize(std::uintptr_t low, std::uintptr_t high) noexcept {
  memory_low = low & ~(kPage - 1);
  memory_high = high;
  const std::size_t words = ((high - memory_low) / kPage + 31) / 32;
  const std::uintptr_t map = base_arena().allocate(words * sizeof *large_pages);
  if (map == 0) return Status::kNoMemory;
  large_pages = reinterpret_cast<std::atomic<std::uint32_t>*>(map);
  for (std::size_t word = 0; word < words; ++word) new (&large_pages[word]) std::atomic<std::uint32_t>(0);
  for (auto& one : classes) one.store(nullptr, std::memory_order_relaxed);
  ArenaConfig config;
  config.name = "kheap";
  config.quantum = kLargeQuantum;
  config.source = &page_arena();
  config.import = import_span;
  config.release = release_span;
  config.minimum_import = kLargeImport;
  return (new (&large) Arena)->initialize(config);
}

void shutdown() noexcept { large_pages = nullptr; }

void* allocate_at(const CallSite* site, std::size_t size, Effort effort) noexcept {
  if (size > kMaxClassBytes) return allocate_large(kAlignment, size, effort);
  const unsigned number = size == 0 ? 0 : class_of(size);
  Cache* cache = classes[number].load(std::memory_order_acquire);
  if (cache == nullptr && (cache = create_class(number)) == nullptr) return nullptr;
  return cache->allocate_at(site, size, effort);
}

void* allocate(std::size_t size) noexcept { return allocate_at(nullptr, size); }

void* allocate_zeroed(std::size_t count, std::size_t size) noexcept {
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, size, &bytes)) return nullptr;
  void* block = allocate(bytes);
  if (block != nullptr) std::memset(block, 0, bytes);
  return block;
}

void* allocate_aligned(std::size_t alignment, std::size_t size) noexcept {
  if (alignment == 0 || (alignment & (alignment - 1)) != 0 || size > SIZE_MAX / 2 || alignment > SIZE_MAX / 4) return nullptr;
  if (alignment <= kAlignment) return allocate(size);
  // A class whose objects lie at multiples of their size from a page's start is aligned to every divisor of that size.
  const std::size_t rounded = size == 0 ? alignment : (size + alignment - 1) & ~(alignment - 1);
  if (rounded <= kMaxClassBytes) return allocate(rounded);
  return allocate_large(alignment, size == 0 ? 1 : size, Effort::kAuto);
}

std::size_t usable_size(const void* block) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (block == nullptr || address < memory_low || address >= memory_high) return 0;
  return is_large(address) ? large.size_of(address) : cache_of(block)->object_size();
}

void* reallocate(void* block, std::size_t size) noexcept {
  if (block == nullptr) return allocate(size);
  const std::size_t old = usable_size(block);
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (is_large(address)) {
    if (size > kMaxClassBytes && large.resize_in_place(address, old, size) == Status::kOk) return block;
  } else if (size <= kMaxClassBytes && class_bytes(size == 0 ? 0 : class_of(size)) == old) {
    return block;
  }
  void* moved = allocate(size);
  if (moved == nullptr) return nullptr;
  std::memcpy(moved, block, old < size ? old : size);
  free(block);
  return moved;
}

void free(void* block) noexcept {
  if (block == nullptr) return;
  const auto address = reinterpret_cast<std::uintptr_t>(block);
  if (address < memory_low || address >= memory_high) hal::Port::fatal("heap: free of an address that is not memory");
  if (!is_large(address)) return cache_of(block)->free(block);
  if (large.free(address) != Status::kOk) hal::Port::fatal("heap: free of an address that is not a block");
}

void free_sized(void* block, std::size_t size) noexcept {
  if (block == nullptr) return;
  // allocate_aligned() may have taken a larger class than the size alone would: the slab knows.
  (void)size;
  free(block);
}

}  // namespace qm::heap
