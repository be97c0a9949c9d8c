/// The longest single operation of each kind, in scripts that search for it: first use, magazines that become empty or
/// full, slabs that are created and destroyed, arenas with thousands of isolated holes.

#include <array>

#include <qm/arena.hpp>
#include <qm/bench/path.hpp>
#include <qm/bench/peer_subject.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>

namespace qm::bench {
namespace {

constexpr std::size_t kHoles = 2000;
constexpr std::size_t kMost = 2 * kHoles;
std::array<void*, kMost> held;

unsigned repetitions(unsigned full) noexcept { return profiling() ? full / 20 : full; }

// ---- caches: the path of an operation is read from the cache's own statistics ---------------------------------------

constexpr std::string_view kCache = CacheSubject::kName;

class CachePaths {
 public:
  explicit CachePaths(std::size_t size) noexcept : cache_(size), slots_(cache_.cache->stats()) {}

  void* allocate() noexcept {
    void* object = nullptr;
    const unsigned long cost = measure([&] { object = cache_.allocate(0); });
    const CacheStats before = slots_;
    slots_ = cache_.cache->stats();
    if (slots_.misses == before.misses) {
      (cost <= kHit ? allocate_hit_ : allocate_previous_).add(cost);
    } else if (slots_.slabs > before.slabs) {
      (before.slabs == 0 ? allocate_first_ : allocate_slab_).add(cost);
    } else {
      (slots_.depot_full < before.depot_full ? allocate_depot_ : allocate_refill_).add(cost);
    }
    return object;
  }

  void free(void* object) noexcept {
    const unsigned long cost = measure([&] { cache_.free(object); });
    const CacheStats before = slots_;
    slots_ = cache_.cache->stats();
    if (slots_.misses == before.misses) {
      (cost <= kHit ? free_hit_ : free_previous_).add(cost);
    } else {
      (slots_.depot_empty < before.depot_empty ? free_depot_ : free_new_magazine_).add(cost);
    }
  }

 private:
  static constexpr unsigned long kHit = 16;
  CacheSubject cache_;
  CacheStats slots_;
  Path allocate_hit_{"allocate: magazine", kCache};
  Path allocate_previous_{"allocate: previous magazine", kCache};
  Path allocate_depot_{"allocate: magazine from the depot", kCache};
  Path allocate_refill_{"allocate: refill from slabs", kCache};
  Path allocate_slab_{"allocate: refill with a new slab", kCache};
  Path allocate_first_{"allocate: first of all", kCache};
  Path free_hit_{"free: magazine", kCache};
  Path free_previous_{"free: previous magazine", kCache};
  Path free_depot_{"free: magazine from the depot", kCache};
  Path free_new_magazine_{"free: new magazine, or slab", kCache};
};

void cache_paths() {
  CachePaths paths(64);
  Random random;
  std::size_t count = 0;
  // Up to the top and down to the bottom, then up and down at random.
  while (count < kMost) held[count++] = paths.allocate();
  while (count != 0) paths.free(held[--count]);
  for (unsigned walk = 0; walk < repetitions(200); ++walk) {
    const std::size_t wanted = random.below(kMost / 4);
    while (count < wanted) held[count++] = paths.allocate();
    while (count > wanted) {
      std::swap(held[random.below(count)], held[count - 1]);
      paths.free(held[--count]);
    }
  }
  while (count != 0) paths.free(held[--count]);
}

/// The lower bound.
void free_list_paths() {
  FreeListSubject list(64);
  Path allocate("allocate", FreeListSubject::kName), free("free", FreeListSubject::kName);
  for (void*& object : held) allocate.add(measure([&] { object = list.allocate(64); }));
  for (void* object : held) free.add(measure([&] { list.free(object); }));
}

// ---- arenas ---------------------------------------------------------------------------------------------------------

constexpr std::string_view kArena = "arena";
constexpr std::uintptr_t kBase = 0x1000'0000;

struct ArenaPaths {
  Arena arena;
  explicit ArenaPaths(std::size_t size) noexcept {
    if (arena.initialize({.name = "bench", .start = kBase, .size = size, .quantum = 16}) != Status::kOk) {
      firmware::panic("bench: no arena");
    }
  }
  ~ArenaPaths() {
    if (arena.destroy() != Status::kOk) firmware::panic("bench: the arena is in use");
  }
  ArenaPaths(const ArenaPaths&) = delete;
  ArenaPaths& operator=(const ArenaPaths&) = delete;
  std::uintptr_t allocate(Path& path, std::size_t size) noexcept {
    std::uintptr_t start = 0;
    path.add(measure([&] { start = arena.allocate(size); }));
    return start;
  }
  void free(Path& path, std::uintptr_t start, std::size_t size) noexcept {
    path.add(measure([&] { arena.free(start, size); }));
  }
};

/// kHoles free segments of @p hole bytes, each between two allocated segments; @p rest bytes are free behind them.
void arena_with_holes(std::string_view allocating, std::string_view freeing, std::size_t hole, std::size_t wanted) {
  ArenaPaths paths(std::size_t{16} << 20);
  static std::array<std::uintptr_t, kMost> starts;
  for (std::uintptr_t& start : starts) start = paths.arena.allocate(hole);
  for (std::size_t i = 0; i < kMost; i += 2) paths.arena.free(starts[i], hole);
  {
    Path allocate(allocating, kArena), free(freeing, kArena);
    std::array<std::uintptr_t, 16> large;
    for (std::uintptr_t& start : large) start = paths.allocate(allocate, wanted);
    for (const std::uintptr_t start : large) paths.free(free, start, wanted);
  }
  for (std::size_t i = 1; i < kMost; i += 2) paths.arena.free(starts[i], hole);
}

/// Sizes and order at random.
void arena_at_random() {
  ArenaPaths paths(std::size_t{16} << 20);
  Path allocate("allocate: sizes at random", kArena), free("free: sizes at random", kArena);
  Random random;
  struct Segment {
    std::uintptr_t start;
    std::size_t size;
  };
  static std::array<Segment, 1000> segments;
  for (Segment& segment : segments) {
    segment.size = 16 + random.below(8192);
    segment.start = paths.allocate(allocate, segment.size);
  }
  for (unsigned left = repetitions(20'000); left != 0; --left) {
    Segment& segment = segments[random.below(segments.size())];
    paths.free(free, segment.start, segment.size);
    segment.size = 16 + random.below(8192);
    segment.start = paths.allocate(allocate, segment.size);
  }
  for (const Segment& segment : segments) paths.free(free, segment.start, segment.size);
}

/// Pages: a quantum cache serves them; larger segments come from the arena itself and its source.
void pages() {
  Path small("allocate: a page", "kpages"), small_free("free: a page", "kpages");
  Path large("allocate: 64 KiB", "kpages"), large_free("free: 64 KiB", "kpages");
  const auto script = [](Path& allocate, Path& free, std::size_t size) {
    for (std::size_t i = 0; i < 64; ++i) {
      std::uintptr_t start = 0;
      allocate.add(measure([&] { start = page_arena().allocate(size); }));
      held[i] = reinterpret_cast<void*>(start);
    }
    for (std::size_t i = 0; i < 64; ++i) {
      const auto start = reinterpret_cast<std::uintptr_t>(held[i]);
      free.add(measure([&] { page_arena().free(start, size); }));
    }
  };
  for (int i = 0; i < 2; ++i) script(small, small_free, 4096);
  for (int i = 0; i < 2; ++i) script(large, large_free, 65536);
}

// ---- malloc ---------------------------------------------------------------------------------------------------------

template <class Subject>
void* allocate(Path& path, Subject& subject, std::size_t size) noexcept {
  void* block = nullptr;
  path.add(measure([&] { block = subject.allocate(size); }));
  return block;
}

template <class Subject>
void free(Path& path, Subject& subject, void* block) noexcept {
  path.add(measure([&] { subject.free(block); }));
}

template <class Subject>
void four_blocks(Subject& subject, Path& mallocs, Path& frees) {
  std::array<void*, 4> blocks;
  for (void*& block : blocks) block = allocate(mallocs, subject, 1000);
  for (void* block : blocks) free(frees, subject, block);
}

/// Allocates blocks of 1000 bytes while there are kHoles free ones of @p hole bytes, each between two live blocks.
/// One-time costs (the class's cache, its first slab, the hart's magazines) are in a row of their own.
template <class Subject>
void heap_with_holes(std::string_view first, std::string_view allocating, std::string_view freeing, std::size_t hole) {
  Subject subject(0);
  for (void*& block : held) block = subject.allocate(hole);
  for (std::size_t i = 0; i < kMost; i += 2) subject.free(held[i]);
  {
    Path firsts(first, Subject::kName), mallocs(allocating, Subject::kName), frees(freeing, Subject::kName);
    four_blocks(subject, firsts, frees);
    for (unsigned i = 1; i < 16; ++i) four_blocks(subject, mallocs, frees);
  }
  for (std::size_t i = 1; i < kMost; i += 2) subject.free(held[i]);
}

template <class Subject>
void heap_at_random(std::string_view first, std::string_view allocating, std::string_view freeing,
                    std::size_t largest) {
  Subject subject(0);
  Path firsts(first, Subject::kName), mallocs(allocating, Subject::kName), frees(freeing, Subject::kName);
  Random random;
  for (std::size_t i = 0; i < 1000; ++i) held[i] = allocate(firsts, subject, 1 + random.below(largest));
  for (unsigned left = repetitions(20'000); left != 0; --left) {
    void*& block = held[random.below(1000)];
    free(frees, subject, block);
    block = allocate(mallocs, subject, 1 + random.below(largest));
  }
  for (std::size_t i = 0; i < 1000; ++i) free(frees, subject, held[i]);
}

/// Changes the size of a block, which stays or moves; the result shows afterwards which of these happened.
template <class Subject>
class Resizes {
 public:
  Resizes(std::string_view in_place, std::string_view moved) noexcept
      : in_place_(in_place, Subject::kName), moved_(moved, Subject::kName) {}
  void* operator()(Subject& subject, void* block, std::size_t size) noexcept {
    void* resized = nullptr;
    const unsigned long cost = measure([&] { resized = subject.reallocate(block, size); });
    (resized == block ? in_place_ : moved_).add(cost);
    return resized;
  }

 private:
  Path in_place_, moved_;
};

/// Within a size class of the heap, from one class to another, and of large blocks, which have free room or a live
/// block behind them.
template <class Subject>
void heap_resizes() {
  Subject subject(0);
  Resizes<Subject> within("realloc: 100 to 112 bytes, in place", "realloc: 100 to 112 bytes, moved");
  Resizes<Subject> across("realloc: 112 to 400 bytes, in place", "realloc: 112 to 400 bytes, moved");
  Resizes<Subject> large("realloc: 20000 to 24000 bytes, in place", "realloc: 20000 to 24000 bytes, moved");
  for (std::size_t i = 0; i < 256; ++i) held[i] = subject.allocate(100);
  for (std::size_t i = 0; i < 256; ++i) held[i] = within(subject, held[i], 112);
  for (std::size_t i = 0; i < 256; ++i) held[i] = across(subject, held[i], 400);
  for (std::size_t i = 0; i < 256; ++i) subject.free(held[i]);
  for (std::size_t i = 0; i < 64; ++i) held[i] = subject.allocate(20000);
  for (std::size_t i = 0; i < 64; ++i) held[i] = large(subject, held[i], 24000);
  for (std::size_t i = 0; i < 64; ++i) subject.free(held[i]);
  for (std::size_t i = 0; i < 64; ++i) held[i] = subject.reallocate(subject.allocate(40000), 20000);
  for (std::size_t i = 0; i < 64; ++i) held[i] = large(subject, held[i], 24000);
  for (std::size_t i = 0; i < 64; ++i) subject.free(held[i]);
}

template <class Subject>
void malloc_paths() {
  heap_with_holes<Subject>("malloc(1000), first four: 2000 holes of 48", "malloc(1000): 2000 holes of 48",
                           "free of 1000: 2000 holes of 48", 48);
  heap_with_holes<Subject>("malloc(1000), first four: 2000 holes of 960", "malloc(1000): 2000 holes of 960",
                           "free of 1000: 2000 holes of 960", 960);
  heap_at_random<Subject>("malloc, first 1000: 1 to 512 bytes", "malloc: 1 to 512 bytes", "free: 1 to 512 bytes", 512);
  heap_at_random<Subject>("malloc, first 1000: 1 to 4096 bytes", "malloc: 1 to 4096 bytes", "free: 1 to 4096 bytes",
                          4096);
  heap_resizes<Subject>();
}

}  // namespace

void run() {
  if (kOfPeers) return for_each_peer([]<class Peer> { malloc_paths<PeerSubject<Peer>>(); });
  cache_paths();
  if (!profiling()) free_list_paths();
  // Segments of 1072 bytes and requests of 1088 bytes are in the same power-of-two class, 1024 to 2047.
  arena_with_holes("allocate: 2000 holes, each 16 too small", "free: 2000 holes, each 16 too small", 1072, 1088);
  arena_with_holes("allocate: 2000 holes of 48", "free: 2000 holes of 48", 48, 1008);
  arena_at_random();
  pages();
  malloc_paths<HeapSubject>();
  if (!profiling()) malloc_paths<PicolibcSubject>();
}

}  // namespace qm::bench
