/// The growth of costs with live objects, caches, free fragments of an arena, and harts. Each row is a point of a curve
/// in a picture of docs/performance.md: instructions of one operation, mean and worst, at `count` of the things that
/// the case names.

#include <array>

#include <qm/arena.hpp>
#include <qm/bench/bench.hpp>
#include <qm/bench/harts.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/system.hpp>

namespace qm::bench {
namespace {

constexpr std::size_t kSize = 64;
constexpr std::size_t kBatch = 256;
constexpr unsigned kBatches = 40;

/// The mean and the worst cost of one operation.
class Cost {
 public:
  void add(unsigned long cost) noexcept {
    sum_ += cost;
    ++operations_;
    if (cost > max_) max_ = cost;
  }
  template <class Call>
  void measure(Call&& call) noexcept {
    add(count(call));
  }
  void print(std::string_view grows, std::string_view name, std::size_t at) const noexcept {
    Row(grows).text("cost", name).number("count", at).mean("mean", sum_, operations_).number("max", max_);
  }

 private:
  std::uint64_t sum_ = 0;
  std::uint64_t operations_ = 0;
  unsigned long max_ = 0;
};

/// Memory for the bench's own tables, in pages from `base`.
template <class Item>
class Table {
 public:
  explicit Table(std::size_t count) noexcept
      : bytes_(count * sizeof(Item)), items_(reinterpret_cast<Item*>(base_arena().allocate(bytes_))) {
    if (items_ == nullptr) firmware::panic("bench: no memory");
  }
  ~Table() { base_arena().free(reinterpret_cast<std::uintptr_t>(items_), bytes_); }
  Table(const Table&) = delete;
  Table& operator=(const Table&) = delete;
  [[nodiscard]] Item& operator[](std::size_t index) noexcept { return items_[index]; }

 private:
  std::size_t bytes_;
  Item* items_;
};

template <class Subject>
Cost hot_pair(Subject& subject) {
  constexpr unsigned kPairs = 1000;
  Cost pair;
  for (int i = 0; i < 2; ++i) subject.free(subject.allocate(kSize));
  for (unsigned i = 0; i < kPairs; ++i) {
    pair.measure([&] { subject.free(subject.allocate(kSize)); });
  }
  return pair;
}

// ---- live objects ---------------------------------------------------------------------------------------------------

/// @p live objects; then batches of them, at most half of all, are chosen at random, freed and allocated again.
template <class Subject>
void live_objects(std::string_view grows, std::size_t live) {
  Subject subject(kSize);
  Table<void*> objects(live);
  Random random;
  Cost fill, mallocs, frees;
  for (std::size_t i = 0; i < live; ++i) {
    void* object = nullptr;
    fill.measure([&] { object = subject.allocate(kSize); });
    if (object == nullptr) firmware::panic("bench: no memory");
    objects[i] = object;
  }
  const std::size_t batch = kBatch < live / 2 ? kBatch : live / 2;
  for (unsigned turn = 0; turn < kBatches; ++turn) {
    // The batch is the end of the table: random objects are swapped into it first.
    for (std::size_t i = live - batch; i < live; ++i) std::swap(objects[i], objects[random.below(live)]);
    for (std::size_t i = live - batch; i < live; ++i) frees.measure([&] { subject.free(objects[i]); });
    for (std::size_t i = live - batch; i < live; ++i) {
      void* object = nullptr;
      mallocs.measure([&] { object = subject.allocate(kSize); });
      objects[i] = object;
    }
  }
  fill.print(grows, "first allocations", live);
  mallocs.print(grows, "allocate, in batches", live);
  frees.print(grows, "free, in batches", live);
  hot_pair(subject).print(grows, "pair, hot", live);
  for (std::size_t i = 0; i < live; ++i) subject.free(objects[i]);
}

// ---- caches ---------------------------------------------------------------------------------------------------------

constexpr unsigned kMostCaches = 10'000 + 20;  // including the probes

Cache* make_cache(unsigned number) {
  static char names[kMostCaches][12];
  char(&name)[12] = names[number % kMostCaches];
  static constexpr char kPattern[] = "scale_00000";
  for (unsigned i = 0; i < sizeof name; ++i) name[i] = kPattern[i];
  for (char* digit = name + sizeof name - 2; number != 0; number /= 10) *digit-- = static_cast<char>('0' + number % 10);
  return Cache::create({.name = name, .object_size = kSize});
}

/// @p count caches that have been used, each with one live object.
void caches(std::size_t count_of_caches) {
  constexpr unsigned kSteps = 2000;
  constexpr unsigned kProbes = 20;
  constexpr std::string_view kGrows = "caches";
  Table<Cache*> all(count_of_caches);
  Table<void*> objects(count_of_caches);
  for (std::size_t i = 0; i < count_of_caches; ++i) {
    all[i] = make_cache(static_cast<unsigned>(i));
    if (all[i] == nullptr) firmware::panic("bench: no cache");
    all[i]->free(all[i]->allocate());  // a cache gets its magazines with its first free
    objects[i] = all[i]->allocate();
  }
  Cost create, destroy, pair, mallocs, frees, trims;
  for (unsigned probe = 0; probe < kProbes; ++probe) {
    Cache* one = nullptr;
    create.measure([&] { one = make_cache(10'000 + probe); });
    one->free(one->allocate());
    destroy.measure([&] { Cache::destroy(one); });
  }
  Random random;
  for (unsigned step = 0; step < kSteps; ++step) {
    const std::size_t which = random.below(count_of_caches);
    frees.measure([&] { all[which]->free(objects[which]); });
    mallocs.measure([&] { objects[which] = all[which]->allocate(); });
  }
  trims.measure([] { trim(); });
  create.print(kGrows, "create", count_of_caches);
  destroy.print(kGrows, "destroy", count_of_caches);
  mallocs.print(kGrows, "allocate, a cache at random", count_of_caches);
  frees.print(kGrows, "free, a cache at random", count_of_caches);
  trims.print(kGrows, "trim of all", count_of_caches);
  for (std::size_t i = 0; i < count_of_caches; ++i) {
    all[i]->free(objects[i]);
    Cache::destroy(all[i]);
  }
  reclaim();
}

// ---- fragments of an arena ------------------------------------------------------------------------------------------

constexpr std::uintptr_t kBase = 0x1000'0000;
constexpr std::size_t kMostBytes = 8192;

/// Allocates sizes at random between @p holes free segments, each of which lies between two allocated ones.
class Fragmented {
 public:
  explicit Fragmented(std::size_t holes) noexcept : walls_(holes) {
    if (arena_.initialize({.name = "bench", .start = kBase, .size = std::size_t{1} << 40, .quantum = 16}) !=
        Status::kOk) {
      firmware::panic("bench: no arena");
    }
    for (std::size_t i = 0; i < holes; ++i) {
      const std::size_t hole = 16 + random_.below(kMostBytes);
      const std::uintptr_t start = arena_.allocate(hole, Fit::kNext);
      walls_[i] = arena_.allocate(16, Fit::kNext);
      if (walls_[i] == 0) firmware::panic("bench: no memory for tags");
      arena_.free(start, hole);
    }
    holes_ = holes;
  }
  ~Fragmented() {
    for (std::size_t i = 0; i < holes_; ++i) arena_.free(walls_[i], 16);
    if (arena_.destroy() != Status::kOk) firmware::panic("bench: the arena is in use");
  }
  Fragmented(const Fragmented&) = delete;
  Fragmented& operator=(const Fragmented&) = delete;

  void measure(Fit fit, std::string_view allocating, std::string_view freeing) {
    run(allocating, freeing, [&](std::size_t size) { return arena_.allocate(size, fit); });
  }
  void measure_constrained() {
    Constraint constraint;
    constraint.align = 4096;
    run("allocate, aligned to 4096", {},
        [&](std::size_t size) { return arena_.allocate_constrained(size, constraint); });
  }

 private:
  template <class Allocate>
  void run(std::string_view allocating, std::string_view freeing, Allocate allocate) {
    constexpr unsigned kTurns = 10;
    constexpr std::size_t kHeld = 50;
    Cost allocations, frees;
    std::array<std::uintptr_t, kHeld> starts;
    std::array<std::size_t, kHeld> sizes;
    for (unsigned turn = 0; turn < kTurns; ++turn) {
      for (std::size_t i = 0; i < kHeld; ++i) {
        sizes[i] = 16 + random_.below(kMostBytes);
        std::uintptr_t start = 0;
        allocations.measure([&] { start = allocate(sizes[i]); });
        starts[i] = start;
      }
      for (std::size_t i = 0; i < kHeld; ++i) frees.measure([&] { arena_.free(starts[i], sizes[i]); });
    }
    allocations.print("fragments", allocating, holes_);
    if (!freeing.empty()) frees.print("fragments", freeing, holes_);
  }

  Arena arena_;
  Table<std::uintptr_t> walls_;
  Random random_;
  std::size_t holes_ = 0;
};

void fragments(std::size_t holes) {
  static_cast<void>(reclaim());
  Fragmented fragmented(holes);
  fragmented.measure(Fit::kInstant, "allocate, instant fit", "free");
  fragmented.measure(Fit::kBest, "allocate, best fit", {});
  fragmented.measure(Fit::kNext, "allocate, next fit", {});
  fragmented.measure_constrained();
}

// ---- harts ----------------------------------------------------------------------------------------------------------

/// Instructions of all harts together.
void harts_at_work() {
  constexpr std::string_view kGrows = "harts";
  constexpr unsigned kProbes = 20;
  CacheSubject subject(kSize);
  hot_pair(subject).print(kGrows, "pair, hot", harts());
  Cost broadcast, create, destroy, mallocs, frees;
  for (unsigned probe = 0; probe < kProbes; ++probe) {
    broadcast.measure([] {
      static_cast<void>(hal::run_on_harts(
          ~hal::HartMask{0}, [](unsigned, void*) noexcept {}, nullptr));
    });
    Cache* one = nullptr;
    create.measure([&] { one = make_cache(probe); });
    on_harts(0, harts() - 1, [&](unsigned) { one->free(one->allocate()); });
    destroy.measure([&] { Cache::destroy(one); });
  }
  // Hart h + 1 frees the objects that hart h allocates: every magazine goes through the depot.
  static std::array<std::array<void*, kBatch>, hal::Port::kMaxHarts> batches;
  for (unsigned turn = 0; turn < 20; ++turn) {
    for (unsigned hart = 0; hart < harts(); ++hart) {
      on_harts(hart, hart, [&](unsigned) {
        for (void*& slot : batches[hart]) mallocs.measure([&] { slot = subject.allocate(kSize); });
      });
    }
    for (unsigned hart = 0; hart < harts(); ++hart) {
      on_harts(hart, hart, [&](unsigned) {
        for (void* object : batches[(hart + 1) % harts()]) frees.measure([&] { subject.free(object); });
      });
    }
  }
  broadcast.print(kGrows, "a broadcast", harts());
  create.print(kGrows, "create a cache", harts());
  destroy.print(kGrows, "destroy, all have used it", harts());
  mallocs.print(kGrows, "allocate here", harts());
  frees.print(kGrows, "free on the next hart", harts());
}

}  // namespace

void run() {
  harts_at_work();
  if (harts() != 1) return;
  for (const std::size_t live : {100, 1000, 10'000, 100'000, 1'000'000}) {
    live_objects<CacheSubject>("live objects of a cache", live);
    live_objects<HeapSubject>("live blocks of the heap", live);
  }
  for (const std::size_t count_of_caches : {10, 100, 1000, 10'000}) caches(count_of_caches);
  for (const std::size_t holes : {100, 1000, 10'000, 100'000}) fragments(holes);
}

}  // namespace qm::bench
