/// Every acquisition of the allocator (a segment, a boundary tag, a batch of objects, a constructed object) is made to
/// fail in turn, in a script that uses arenas, caches, the heap and the trace. For all n: nothing is corrupt, nothing
/// leaks, and an operation fails only if one of its own acquisitions has failed, with the corresponding status.

#include "trace_fixture.hpp"

#include <array>
#include <cstring>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>

namespace alloc_acquisition_test {

using namespace qm;

/// The acquisitions that fail: the n-th, or all from the n-th on.
struct Injection {
  unsigned n = 0;
  bool from_then_on = false;
  unsigned count = 0;
  unsigned struck = 0;

  bool allows() noexcept {
    ++count;
    const bool fails = n != 0 && (from_then_on ? count >= n : count == n);
    struck += fails ? 1 : 0;
    return !fails;
  }
};
Injection injection;

/// Whether the operation since the last call may have failed, because one of its acquisitions did.
class Excuse {
 public:
  bool operator()() noexcept {
    const bool excused = injection.struck != seen_;
    seen_ = injection.struck;
    return excused;
  }

 private:
  unsigned seen_ = 0;
};

/// The script: each part frees what it allocated, whether it was completed or not.
class Script {
 public:
  explicit Script(WaitPolicy wait_policy) noexcept : wait_policy_(wait_policy) {}

  void run() {
    numbers();
    segments();
    objects("constructed", {.object_size = 64, .constructor = construct, .destructor = destroy_object});
    objects("aligned", {.object_size = 300, .alignment = 256});
    objects("large", {.object_size = 5000});
    traced_objects();
    promised_objects();
    blocks();
  }

  unsigned constructed = 0;

 private:
  static bool construct(void* object, void* context) noexcept {
    if (!injection.allows()) return false;
    std::memset(object, 0x5a, 64);
    ++static_cast<Script*>(context)->constructed;
    return true;
  }
  static void destroy_object(void* object, void* context) noexcept {
    if (*static_cast<unsigned char*>(object) == 0x5a) --static_cast<Script*>(context)->constructed;
  }

  /// Checks a status: kOk, or kNoMemory with an excuse.
  bool succeeded(Status status, const char* what) {
    const bool excused = excuse_();
    if (status == Status::kOk) return true;
    EXPECT_TRUE(status == Status::kNoMemory && excused)
        << what << ": status " << static_cast<unsigned>(status) << (excused ? "" : ", though it had all it asked for");
    return false;
  }
  bool succeeded(bool got, const char* what) { return succeeded(got ? Status::kOk : Status::kNoMemory, what); }

  /// Checks the status of an operation that cannot fail.
  static void must(Status status, const char* what) { EXPECT_EQ(status, Status::kOk) << what; }

  void numbers() {
    Arena ids;
    const ArenaConfig config{.name = "ids", .start = 1, .size = 100, .quantum = 1, .quantum_cache_max = 2};
    if (!succeeded(ids.initialize(config), "ids")) return;
    succeeded(ids.add(200, 100), "add");
    std::array<std::uintptr_t, 24> taken{};
    for (std::size_t i = 0; i < taken.size(); ++i) {
      taken[i] = ids.allocate(1 + i % 4, Fit::kNext, nullptr, wait_policy_);
      succeeded(taken[i] != 0, "a number");
    }
    const std::uintptr_t aligned =
        ids.allocate_constrained(8, {.align = 8, .min = 200}, Fit::kBest, nullptr, wait_policy_);
    succeeded(aligned != 0, "an aligned range of numbers");
    if (aligned != 0) must(ids.free_constrained(aligned, 8), "free of an aligned range");
    EXPECT_TRUE(ids.validate());
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] != 0) must(ids.free(taken[i], 1 + i % 4), "free of a number");
    }
    must(ids.destroy(), "destroy of ids");
  }

  void segments() {
    Arena above;
    if (!succeeded(above.initialize({.name = "above", .quantum = 512, .source = &page_arena()}), "above")) return;
    std::array<std::uintptr_t, 6> taken{};
    std::array<std::size_t, 6> sizes{};
    for (std::size_t i = 0; i < taken.size(); ++i) {
      sizes[i] = 1024 * (i + 1);
      taken[i] = above.allocate(sizes[i], Fit::kBest, nullptr, wait_policy_);
      succeeded(taken[i] != 0, "a segment");
    }
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] == 0) continue;
      if (succeeded(above.resize_in_place(taken[i], sizes[i], 512), "shrink")) sizes[i] = 512;
      // The segment behind may be allocated: a failure then needs no excuse.
      if (above.resize_in_place(taken[i], sizes[i], 1024) == Status::kOk) sizes[i] = 1024;
      excuse_();
    }
    EXPECT_TRUE(above.validate());
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] != 0) must(above.free(taken[i], sizes[i]), "free of a segment");
    }
    must(above.destroy(), "destroy of above");
  }

  static constexpr unsigned kObjects = 40;

  void take_objects(Cache& cache, std::array<void*, kObjects>& taken) {
    for (void*& object : taken) {
      object = cache.allocate_at(nullptr, 0, wait_policy_);
      if (succeeded(object != nullptr, "an object")) std::memset(object, 0x5a, 64);
    }
  }
  static void give_objects(Cache& cache, const std::array<void*, kObjects>& taken) {
    for (void* object : taken) {
      if (object != nullptr) cache.free(object);
    }
  }

  void objects(const char* name, CacheConfig config) {
    config.name = name;
    config.context = this;
    Status why = Status::kOk;
    Cache* cache = Cache::create(config, &why);
    if (!succeeded(why, name)) return;
    std::array<void*, kObjects> taken{};
    take_objects(*cache, taken);
    EXPECT_TRUE(cache->validate());
    give_objects(*cache, taken);
    EXPECT_EQ(cache->stats().in_use, 0U);
    EXPECT_TRUE(cache->validate());
    must(Cache::destroy(cache), "destroy of a cache");
  }

  void traced_objects() {
    Status why = Status::kOk;
    Cache* cache = Cache::create({.name = "traced", .object_size = 64}, &why);
    if (!succeeded(why, "traced")) return;
    const bool started = succeeded(trace::start("traced").status, "trace start");
    std::array<void*, kObjects> taken{};
    take_objects(*cache, taken);
    std::size_t out = 0;
    for (const void* object : taken) out += object != nullptr ? 1 : 0;
    if (started) {
      const trace::Figures figures = trace::cache_trace(*cache).figures;
      EXPECT_EQ(figures.recorded + figures.all_dropped(), out);  // each is recorded or counted as dropped
      must(trace::stop("traced").status, "trace stop");
    }
    give_objects(*cache, taken);
    if (started) must(trace::reset("traced").status, "trace reset");
    EXPECT_EQ(cache->live_records.load(), 0U);
    must(Cache::destroy(cache), "destroy of the traced cache");
  }

  void promised_objects() {
    Status why = Status::kOk;
    Cache* cache = Cache::create({.name = "promised", .object_size = 100, .limit = 60}, &why);
    if (!succeeded(why, "promised")) return;
    const bool promised = succeeded(cache->reserve(20), "reserve");
    EXPECT_EQ(cache->stats().reserve, promised ? 20U : 0U);
    std::array<void*, 30> bulk{};
    const std::size_t got = cache->allocate_bulk(bulk.data(), bulk.size(), wait_policy_);
    succeeded(got == bulk.size(), "bulk");
    if (promised) {  // a reserve was granted: its objects are available, whatever fails
      std::array<void*, 20> urgent{};
      const hal::InterruptGuard masked;
      for (void*& object : urgent) EXPECT_NE(object = cache->allocate(), nullptr);
      for (void* object : urgent) cache->free(object);
      excuse_();
    }
    cache->free_bulk(bulk.data(), got);
    EXPECT_TRUE(cache->validate());
    must(cache->reserve(0), "the end of a reserve");
    EXPECT_EQ(cache->stats().in_use, 0U);
    must(Cache::destroy(cache), "destroy of promised");
  }

  void blocks() {
    static constexpr std::size_t kSizes[] = {1, 40, 100, 500, 600, 5000, 20000};
    std::array<unsigned char*, std::size(kSizes)> taken{};
    for (std::size_t i = 0; i < taken.size(); ++i) {
      taken[i] = static_cast<unsigned char*>(heap::allocate_at(nullptr, kSizes[i], wait_policy_));
      if (succeeded(taken[i] != nullptr, "a block")) {
        taken[i][0] = taken[i][kSizes[i] - 1] = static_cast<unsigned char>(i);
      }
    }
    for (std::size_t i = 0; i < taken.size(); ++i) {
      if (taken[i] == nullptr) continue;
      void* moved = heap::reallocate(taken[i], kSizes[i] * 2);
      if (succeeded(moved != nullptr, "a larger block")) taken[i] = static_cast<unsigned char*>(moved);
      EXPECT_EQ(taken[i][0], i);  // moved or not, the contents are intact
      EXPECT_EQ(taken[i][kSizes[i] - 1], i);
    }
    void* aligned = heap::allocate_aligned(512, 2000);
    if (succeeded(aligned != nullptr, "an aligned block")) heap::free(aligned);
    for (unsigned char* block : taken) heap::free(block);
  }

  WaitPolicy wait_policy_;
  Excuse excuse_;
};

class Acquisitions : public qm::test::TraceTest {
 protected:
  void TearDown() override {
    fault::set_acquisition_test(nullptr);
    TraceTest::TearDown();
  }

  /// @returns the free bytes and the bytes that have permanently become boundary tags.
  static std::size_t accounted_bytes() { return free_bytes() + boundary_tags_stats().pages * 4096; }

  static void inject(unsigned n, bool from_then_on) {
    injection = {n, from_then_on, 0, 0};
    fault::set_acquisition_test([](fault::Resource, const Arena*) noexcept { return injection.allows(); });
  }

  static void expect_sound() {
    RegistryCursor<Cache> caches;
    while (Cache* cache = caches.next()) EXPECT_TRUE(cache->validate()) << cache->name();
    RegistryCursor<Arena> arenas;
    while (Arena* arena = arenas.next()) EXPECT_TRUE(arena->validate()) << arena->name();
  }

  /// Runs the script for n = 1, 2, ... until nothing fails any more. @returns the number of acquisitions in it.
  static unsigned fail_each(WaitPolicy wait_policy, bool from_then_on) {
    inject(0, false);
    for (unsigned i = 0; i < 2; ++i) Script(wait_policy).run();  // the heap's classes and the trace keep their memory
    const std::size_t bytes = accounted_bytes();
    unsigned n = 0;
    do {
      inject(++n, from_then_on);
      Script script(wait_policy);
      script.run();
      fault::set_acquisition_test(nullptr);
      EXPECT_EQ(accounted_bytes(), bytes) << "acquisition " << n;
      EXPECT_EQ(script.constructed, 0U) << "acquisition " << n;
      expect_sound();
    } while (injection.struck != 0 && !HasFailure());
    return n - 1;
  }
};

TEST_F(Acquisitions, each_fails_once_and_nothing_leaks) { EXPECT_GT(fail_each(WaitPolicy::kQuiet, false), 100U); }

TEST_F(Acquisitions, each_fails_with_all_that_follow_and_nothing_leaks) {
  EXPECT_GT(fail_each(WaitPolicy::kReclaim, true), 100U);
}

TEST_F(Acquisitions, one_failure_is_made_up_for_by_whoever_may_reclaim) {
  inject(0, false);
  Script(WaitPolicy::kReclaim).run();
  unsigned n = 0;
  do {
    inject(++n, false);
    Cache* cache = Cache::create({.name = "retried", .object_size = 64});
    if (injection.struck == 0) {
      void* object = cache->allocate();
      EXPECT_NE(object, nullptr);
      cache->free(object);
    }
    EXPECT_NE(cache, nullptr);
    if (cache == nullptr) return;
    EXPECT_EQ(Cache::destroy(cache), Status::kOk);
  } while (injection.struck != 0);
  EXPECT_GT(n, 1U);
}

/// In a new system the heap creates its classes in steps, and the trace its first chunk and directory.
TEST_F(Acquisitions, the_first_use_of_each_class_may_fail_too) {
  std::size_t without = 0;
  for (const bool from_then_on : {false, true}) {
    unsigned n = 0;
    do {
      begin_again({});
      without = accounted_bytes();
      inject(++n, from_then_on);
      void* block = nullptr;
      for (int steps = 8; steps != 0; --steps) {
        block = heap::allocate_at(nullptr, 40, WaitPolicy::kQuiet);
        if (block == nullptr) {
          EXPECT_GT(injection.struck, 0U) << "acquisition " << n;
        }
        heap::free(block);
      }
      fault::set_acquisition_test(nullptr);
      RegistryCursor<Cache> caches;
      Cache* made = caches.find("kmalloc_48");
      if (made == nullptr) {
        EXPECT_EQ(accounted_bytes(), without) << "acquisition " << n;
      }
      expect_sound();
      block = heap::allocate(40);  // the class can be created later
      EXPECT_NE(block, nullptr);
      EXPECT_GE(heap::usable_size(block), 40U);
      heap::free(block);
    } while (injection.struck != 0 && !HasFailure());
    EXPECT_GT(n, 4U);
  }
}

}  // namespace alloc_acquisition_test
