#include "trial.hpp"

#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <deque>
#include <new>
#include <optional>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/hal/port.hpp>
#include <qm/heap.hpp>
#include <qm/host/error.hpp>
#include <qm/system.hpp>

#include "segments/blocks.hpp"

namespace qm::replay {
namespace {

/// Memory for an allocator. The operating system supplies each page when it is first used.
class Memory {
 public:
  explicit Memory(std::size_t bytes) : bytes_(bytes) {
    start_ = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (start_ == MAP_FAILED) throw std::bad_alloc();
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { munmap(start_, bytes_); }
  [[nodiscard]] MemoryRange range() const { return {reinterpret_cast<std::uintptr_t>(start_), bytes_}; }

 private:
  void* start_;
  std::size_t bytes_;
};

/// An allocator with the caches of a workload.
class Stage {
 public:
  Stage(const MemoryRange& range, const Workload& workload, const Settings& settings) {
    require(initialize({&range, 1}, workload.harts));
    turn_to(0);
    ArenaConfig slabs;
    slabs.name = "slabs";
    slabs.quantum = settings.slab_bytes;
    slabs.source = &base_arena();
    slabs.quantum_cache_max = settings.quantum_caches;
    require(slabs_.initialize(slabs));
    add_large();
    for (const Supply& supply : workload.supplies) add(supply, settings);
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;
  ~Stage() {
    hart_.reset();
    shutdown();
  }

  void turn_to(unsigned hart) {
    if (hart_ && hal::Port::hart_index() == hart) return;
    hart_.reset();
    hart_.emplace(hart);
    attach_hart(hart);
  }
  [[nodiscard]] void* allocate(std::uint32_t supply, std::uint32_t size) {
    if (Cache* cache = caches_[supply]; cache != nullptr) return cache->allocate();
    return reinterpret_cast<void*>(
        large_[arenas_[supply]].allocate_block(std::max(size, 1u), heap::kAlignment, 0, nullptr, WaitPolicy::kAuto));
  }
  void free(std::uint32_t supply, void* object) {
    if (Cache* cache = caches_[supply]; cache != nullptr) return cache->free(object);
    (void)large_[arenas_[supply]].free_block(reinterpret_cast<std::uintptr_t>(object), SIZE_MAX);
  }
  [[nodiscard]] Cost cost() {
    Cost cost;
    cost.peak_bytes = base_arena().stats().high_water;
    cost.arena_trips = slabs_.stats().allocations_ever;
    for (Arena& large : large_) cost.arena_trips += large.stats().allocations_ever;
    for (Cache* cache : caches_) cost.misses += cache != nullptr ? cache->stats().misses : 0;
    return cost;
  }

 private:
  static void require(Status status) {
    if (status != Status::kOk)
      throw host::Error(host::Fault::kInput, "these settings, or so many caches, are not possible");
  }
  void add(const Supply& supply, const Settings& settings) {
    while (large_.size() <= supply.arena) add_large();
    arenas_.push_back(supply.arena);
    names_.push_back("replay_" + std::to_string(caches_.size()));
    CacheConfig config;
    config.name = names_.back().c_str();
    config.object_size = supply.object_bytes;
    config.source = &slabs_;
    config.magazine_rounds = settings.magazine_rounds;
    Status status = Status::kOk;
    caches_.push_back(supply.object_bytes != 0 ? Cache::create(config, &status) : nullptr);
    require(status);
  }

  void add_large() {
    names_.push_back("large_" + std::to_string(large_.size()));
    ArenaConfig config;
    config.name = names_.back().c_str();
    config.quantum = heap::kAlignment;
    config.source = &base_arena();
    config.minimum_import = heap::kLargeImport;
    config.blocks = &blocks_.emplace_back();
    require(large_.emplace_back().initialize(config));
  }

  std::optional<hal::HostHart> hart_;
  Arena slabs_;
  // The allocator refers to these arenas and names, so they must not move.
  std::deque<Arena> large_;
  std::deque<Blocks> blocks_;
  std::deque<std::string> names_;
  std::vector<std::uint32_t> arenas_;  // by supply
  std::vector<Cache*> caches_;
};

/// A live object.
struct Object {
  void* place = nullptr;
  std::uint32_t supply = 0;
};

constexpr int kLeastPasses = 3, kMostPasses = 100;
constexpr double kLeastNanoseconds = 20e6;

/// @returns the processor time of this thread; time in which other threads run does not count.
double processor_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

std::uint64_t perform(Stage& stage, const Workload& workload, std::vector<Object>& objects) {
  std::uint64_t failures = 0;
  for (const Operation& operation : workload.operations) {
    stage.turn_to(operation.hart);
    Object& object = objects[operation.slot];
    void* const fresh = operation.kind != Kind::kFree ? stage.allocate(operation.supply, operation.size) : nullptr;
    if (object.place != nullptr) stage.free(object.supply, object.place);
    object = {fresh, operation.supply};
    failures += operation.kind != Kind::kFree && fresh == nullptr ? 1 : 0;
  }
  return failures;
}

/// The memory for all passes of a workload.
Memory memory_for(const Workload& workload) {
  return Memory(std::max(std::size_t{64} << 20, static_cast<std::size_t>(workload.peak_bytes) * 16));
}

}  // namespace

Cost measure(const Workload& workload, const Settings& settings) {
  const Memory memory = memory_for(workload);
  Stage stage(memory.range(), workload, settings);
  std::vector<Object> objects(workload.slots);
  const std::uint64_t failures = perform(stage, workload, objects);
  Cost cost = stage.cost();
  cost.failures = failures;
  return cost;
}

Cost try_out(const Workload& workload, const Settings& settings) {
  // All passes use the same memory. The first pass pays for the machine's pages, and its time does not count. The time
  // of the shortest of the other passes counts.
  const Memory memory = memory_for(workload);
  const auto operations = static_cast<double>(workload.operations.size());
  Cost cost;
  double sum = 0, least = 0;
  for (int pass = 0; pass <= kLeastPasses || (sum < kLeastNanoseconds && pass <= kMostPasses); ++pass) {
    Stage stage(memory.range(), workload, settings);
    std::vector<Object> objects(workload.slots);
    const double begun = processor_nanoseconds();
    const std::uint64_t failures = perform(stage, workload, objects);
    const double passed = processor_nanoseconds() - begun;
    cost = stage.cost();
    cost.failures = failures;
    if (pass == 0) continue;
    sum += passed;
    least = least == 0 ? passed : std::min(least, passed);
  }
  cost.nanoseconds = least / operations;
  return cost;
}

}  // namespace qm::replay
