/// The quarantine of a cache: freed objects wait, and a write to one of them, or its second free, is reported.

#include "trace_fixture.hpp"

#include <algorithm>
#include <array>
#include <cstring>

#include <qm/detail/poison.hpp>
#include <qm/heap.hpp>
#include <qm/misuse.hpp>
#include <qm/test/seed.hpp>
#include <qm/trace/event_stream.hpp>

namespace alloc_quarantine_test {

using namespace qm;

constexpr std::size_t kSize = 64;

struct Told {
  unsigned count = 0;
  MisuseReport last;
};
Told told;

class QuarantineTest : public test::TraceTest {
 protected:
  void SetUp() override {
    TraceTest::SetUp();
    listen();
  }
  void TearDown() override {
    set_misuse_handler(nullptr);
    TraceTest::TearDown();
  }
  static void listen() {
    told.count = 0;
    told.last = {};
    set_misuse_handler([](const MisuseReport& report) noexcept {
      told.last = report;
      ++told.count;
    });
  }
  static Cache* make_waiting(std::size_t objects, const char* name = "packet") {
    Cache* cache = make(name, kSize);
    EXPECT_EQ(cache->set_quarantine(objects * kSize), Status::kOk);
    return cache;
  }
  /// Allocates and frees another object, @p times times.
  static void pass(Cache& cache, unsigned times) {
    for (; times != 0; --times) cache.free(cache.allocate());
  }
  static bool is_filled(const void* object) {
    return poison::first_other(object, 0, kSize, poison::kFree) == poison::kNone;
  }
  /// Gives the allocator's own caches and the page map their memory.
  static void warm_up() {
    Cache* cache = make_waiting(50);
    pass(*cache, 200);
    expect_whole(*cache);
  }
  static void expect_whole(Cache& cache) {
    EXPECT_EQ(cache.stats().in_use, 0U);
    EXPECT_TRUE(cache.validate());
    EXPECT_EQ(Cache::destroy(&cache), Status::kOk);
  }
};

/// Holds all memory of the base arena, as a list of pages.
class MemoryList {
 public:
  MemoryList() {
    while (const std::uintptr_t page = base_arena().allocate(PageMap::kPageBytes)) {
      std::memcpy(reinterpret_cast<void*>(page), &list_, sizeof list_);
      list_ = page;
    }
  }
  MemoryList(const MemoryList&) = delete;
  MemoryList& operator=(const MemoryList&) = delete;
  ~MemoryList() {
    while (list_ != 0) {
      const std::uintptr_t page = list_;
      std::memcpy(&list_, reinterpret_cast<const void*>(page), sizeof list_);
      EXPECT_EQ(base_arena().free(page, PageMap::kPageBytes), Status::kOk);
    }
  }

 private:
  std::uintptr_t list_ = 0;
};

std::byte* bytes_of(void* object) { return static_cast<std::byte*>(object); }

TEST_F(QuarantineTest, a_freed_object_is_not_used_again_before_as_many_others_were_freed) {
  Cache* cache = make_waiting(10);
  void* object = cache->allocate();
  std::memset(object, 0, kSize);
  cache->free(object);
  EXPECT_EQ(cache->stats().quarantined, 1U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  std::array<void*, 9> others{};
  for (void*& other : others) other = cache->allocate();
  for (void* other : others) {
    EXPECT_NE(other, object);
    cache->free(other);
  }
  EXPECT_EQ(cache->stats().quarantined, 10U);
  EXPECT_EQ(cache->stats().quarantine_passed, 0U);
  EXPECT_TRUE(is_filled(object));
  EXPECT_EQ(cache->look_for(object).place, Cache::Place::kQuarantine);
  pass(*cache, 1);  // the eleventh
  EXPECT_EQ(cache->stats().quarantined, 10U);
  EXPECT_EQ(cache->stats().quarantine_passed, 1U);
  EXPECT_EQ(cache->allocate(), object);
  cache->free(object);
  EXPECT_EQ(told.count, 0U);
  expect_whole(*cache);
}

TEST_F(QuarantineTest, a_write_to_a_waiting_object_is_reported_once_when_the_object_leaves) {
  if (kChecked) GTEST_SKIP() << "a checking build finds it at the next use of the object";
  Cache* cache = make_waiting(4);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}, std::size_t{17}, kSize - 1}) {
    told.count = 0;
    void* object = cache->allocate();
    cache->free(object);
    bytes_of(object)[at] = std::byte{0x11};
    pass(*cache, 3);
    EXPECT_EQ(told.count, 0U);
    pass(*cache, 1);
    ASSERT_EQ(told.count, 1U) << at;
    EXPECT_EQ(told.last.kind, Misuse::kWriteAfterFree);
    EXPECT_EQ(told.last.cache, cache);
    EXPECT_EQ(told.last.object, object);
    EXPECT_EQ(told.last.offset, at);
    EXPECT_NE(told.last.freed_by, 0U);
    EXPECT_NE(told.last.allocated_by, 0U);
    EXPECT_NE(told.last.freed_by, told.last.allocated_by);
    pass(*cache, 10);
    EXPECT_EQ(told.count, 1U);
  }
  EXPECT_EQ(cache->stats().misuses, 4U);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  expect_whole(*cache);
}

TEST_F(QuarantineTest, an_inspection_reports_each_damaged_object_once) {
  if (kChecked) GTEST_SKIP() << "a checking build finds it at the next use of the object";
  Cache* cache = make_waiting(100);
  std::array<void*, 20> objects{};
  for (void*& object : objects) object = cache->allocate();
  for (void* object : objects) cache->free(object);
  bytes_of(objects[3])[7] = std::byte{1};
  bytes_of(objects[19])[8] = std::byte{1};
  EXPECT_EQ(cache->inspect_quarantine(), 2U);
  EXPECT_EQ(told.count, 2U);
  EXPECT_EQ(told.last.object, objects[19]);
  EXPECT_EQ(told.last.offset, 8U);
  EXPECT_EQ(cache->inspect_quarantine(), 0U);
  cache->reap();
  EXPECT_EQ(told.count, 2U);
  expect_whole(*cache);
}

TEST_F(QuarantineTest, the_second_free_of_a_waiting_object_is_reported_at_once_and_ignored) {
  Cache* cache = make_waiting(8);
  std::array<void*, 8> objects{};
  for (void*& object : objects) object = cache->allocate();
  for (void* object : objects) cache->free(object);
  for (void* object : objects) {
    told.count = 0;
    cache->free(object);
    ASSERT_EQ(told.count, 1U);
    EXPECT_EQ(told.last.kind, Misuse::kDoubleFree);
    EXPECT_EQ(told.last.object, object);
    EXPECT_NE(told.last.freed_by, 0U);
  }
  EXPECT_EQ(cache->stats().quarantined, 8U);
  pass(*cache, 20);
  EXPECT_EQ(told.count, 1U);
  expect_whole(*cache);
}

TEST_F(QuarantineTest, objects_of_a_constructor_keep_their_contents_and_a_write_to_one_is_reported) {
  Cache* cache = Cache::create({.name = "session", .object_size = kSize, .constructor = [](void* object, void*) {
                                  std::memset(object, 7, kSize);
                                  return true;
                                }});
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->set_quarantine(2 * kSize), Status::kOk);
  void* object = cache->allocate();
  cache->free(object);
  EXPECT_EQ(bytes_of(object)[0], std::byte{7});
  bytes_of(object)[40] = std::byte{8};
  EXPECT_EQ(cache->inspect_quarantine(), kChecked ? 0U : 1U);
  bytes_of(object)[40] = std::byte{7};
  cache->reap();
  expect_whole(*cache);
}

TEST_F(QuarantineTest, a_cache_without_magazines_may_have_one) {
  Cache* cache = make("plain", kSize, cache_flags::kNoMagazines);
  ASSERT_EQ(cache->set_quarantine(3 * kSize), Status::kOk);
  void* object = cache->allocate();
  cache->free(object);
  cache->free(object);
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(told.last.kind, Misuse::kDoubleFree);
  if (!kChecked) {
    bytes_of(object)[5] ^= std::byte{1};
    pass(*cache, 3);
    EXPECT_EQ(told.count, 2U);
    EXPECT_EQ(told.last.kind, Misuse::kWriteAfterFree);
  }
  expect_whole(*cache);
}

TEST_F(QuarantineTest, objects_that_are_no_memory_wait_unwritten) {
  Cache* cache = make("device", kSize, cache_flags::kNoTouch);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(cache->set_quarantine(2 * kSize), Status::kOk);
  void* object = cache->allocate();
  std::memset(object, 3, kSize);
  cache->free(object);
  EXPECT_EQ(bytes_of(object)[0], std::byte{3});
  cache->free(object);
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(told.last.kind, Misuse::kDoubleFree);
  pass(*cache, 5);
  EXPECT_EQ(told.count, 1U);
  expect_whole(*cache);
}

TEST_F(QuarantineTest, reap_a_limit_and_exhausted_memory_empty_it) {
  Cache* cache = make_waiting(1000);
  std::array<void*, 200> objects{};
  const auto free_all = [&] {
    for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr);
    for (void* object : objects) cache->free(object);
    ASSERT_EQ(cache->stats().quarantined, objects.size());
  };
  free_all();
  EXPECT_GT(cache->reap(), 0U);
  EXPECT_EQ(cache->stats().quarantined, 0U);
  free_all();
  ASSERT_EQ(cache->set_limit(objects.size()), Status::kOk);
  for (void*& object : objects) ASSERT_NE(object = cache->allocate(), nullptr) << "at the limit";
  EXPECT_EQ(cache->stats().quarantined, 0U);
  ASSERT_EQ(cache->set_limit(0), Status::kOk);
  for (void* object : objects) cache->free(object);
  EXPECT_EQ(cache->stats().quarantined, objects.size());
  { const MemoryList memory; }
  EXPECT_EQ(cache->stats().quarantined, 0U);
  expect_whole(*cache);
}

TEST_F(QuarantineTest, its_end_returns_everything_and_opens_the_fast_path) {
  warm_up();
  const std::size_t before = free_bytes();
  Cache* cache = make_waiting(50);
  pass(*cache, 200);
  ASSERT_EQ(cache->set_quarantine(20 * kSize), Status::kOk);  // another size
  EXPECT_EQ(cache->stats().quarantine, 20 * kSize);
  EXPECT_EQ(cache->stats().quarantined, 0U);
  pass(*cache, 200);
  ASSERT_EQ(cache->set_quarantine(0), Status::kOk);
  EXPECT_EQ(cache->stats().quarantine, 0U);
  EXPECT_EQ(cache->stats().quarantined, 0U);
  EXPECT_EQ(cache->state().load(), 0U);
  pass(*cache, 2);
  if (kMagazines && !kChecked) {
    EXPECT_NE(cache->hart_cache(0).limit.load(), nullptr);
  }
  expect_whole(*cache);
  EXPECT_EQ(free_bytes(), before);
  cache = make_waiting(50);
  pass(*cache, 200);
  expect_whole(*cache);  // a destroy ends it too
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(QuarantineTest, what_cannot_have_one_is_refused_and_unchanged) {
  Cache* cache = make("packet", kSize);
  EXPECT_EQ(cache->set_quarantine(kSize - 1), Status::kInvalid);
  EXPECT_EQ(cache->set_quarantine(0), Status::kOk);
  {
    const hal::InterruptGuard masked;
    if (!hal::may_ask_harts()) {
      EXPECT_EQ(cache->set_quarantine(kSize), Status::kUnsafe);
    }
  }
  EXPECT_EQ(cache->state().load(), 0U);
  Cache* own = make("own", kSize, cache_flags::kNoTrace);
  EXPECT_EQ(own->set_quarantine(kSize), Status::kRefused);
  RegistryCursor<Cache> caches;
  while (Cache* one = caches.next()) {
    if (!one->traceable() || (one->flags() & cache_flags::kQuantumCache) != 0) {
      EXPECT_EQ(one->set_quarantine(1 << 16), Status::kRefused) << one->name();
    }
  }
  // A refused size leaves the earlier quarantine.
  ASSERT_EQ(cache->set_quarantine(3 * kSize), Status::kOk);
  const MemoryList memory;
  EXPECT_EQ(cache->set_quarantine(1 << 20), Status::kNoMemory);
  EXPECT_EQ(cache->stats().quarantine, 3 * kSize);
  EXPECT_EQ(own->set_quarantine(0), Status::kRefused);
  expect_whole(*cache);
  expect_whole(*own);
}

TEST_F(QuarantineTest, the_heap_frees_the_objects_of_its_classes_into_it) {
  test::make_class(kSize);
  RegistryCursor<Cache> caches;
  Cache* cache = caches.find("kmalloc_64");
  if (cache == nullptr) GTEST_SKIP() << "the heap's classes have other sizes";
  ASSERT_EQ(cache->set_quarantine(16 * kSize), Status::kOk);
  void* object = heap::allocate(kSize);
  heap::free(object);
  heap::free(object);
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(told.last.kind, Misuse::kDoubleFree);
  std::array<void*, 8> objects{};
  ASSERT_EQ(cache->allocate_bulk(objects.data(), objects.size()), objects.size());
  cache->free_bulk(objects.data(), objects.size());
  EXPECT_EQ(cache->stats().quarantined, 9U);
  ASSERT_EQ(cache->set_quarantine(0), Status::kOk);
}

/// The ways in which a trace follows a cache.
enum class Way : std::uint8_t { kRecords, kCounts, kSampled, kStream };

void start_trace(Way way) {
  if (way == Way::kStream) {
    ASSERT_EQ(trace::start_stream({}).status, Status::kOk);
    return;
  }
  trace::Keeping keeping;
  keeping.counts = way == Way::kCounts;
  keeping.every = way == Way::kSampled ? 2 : 1;
  ASSERT_EQ(trace::start("packet", nullptr, hal::kBroadcastDeadlineMs, keeping).status, Status::kOk);
}
void stop_trace(Way way) {
  ASSERT_EQ(way == Way::kStream ? trace::stop_stream().status : trace::stop("packet").status, Status::kOk);
  if (way == Way::kStream) trace::end_stream();
}

TEST_F(QuarantineTest, a_record_ends_with_the_users_free_whatever_began_first) {
  for (unsigned turn = 0; turn < 8; ++turn) {
    const auto way = static_cast<Way>(turn / 2);
    const bool trace_first = turn % 2 != 0;
    Cache* cache = make("packet", kSize);
    pass(*cache, 50);
    if (trace_first) start_trace(way);
    void* early = test::allocate_by<1>(*cache);
    ASSERT_EQ(cache->set_quarantine(30 * kSize), Status::kOk);
    if (!trace_first) start_trace(way);
    EXPECT_EQ(cache->state().load() & trace_state::kOwned, 0U);
    std::array<void*, 40> objects{};
    for (void*& object : objects) object = test::allocate_by<2>(*cache);
    cache->free(early);
    for (void* object : objects) cache->free(object);
    EXPECT_EQ(cache->live_records.load(), 0U);
    EXPECT_EQ(cache->stats().quarantined, 30U);
    told.count = 0;
    cache->free(objects[39]);
    EXPECT_EQ(told.count, 1U);
    bytes_of(objects[38])[0] = std::byte{1};
    pass(*cache, 40);
    EXPECT_EQ(told.count, 2U);
    EXPECT_EQ(told.last.object, objects[38]);
    if (trace_first) {
      ASSERT_EQ(cache->set_quarantine(0), Status::kOk);
      stop_trace(way);
    } else {
      stop_trace(way);
      ASSERT_EQ(cache->set_quarantine(0), Status::kOk);
    }
    EXPECT_EQ(cache->state().load(), 0U);
    expect_whole(*cache);
  }
}

/// Allocates or frees @p object, with a stack of its own for each @p path below 2^8.
[[gnu::noinline]] void by_path(unsigned path, Cache& cache, void*& object, unsigned levels = 8) {
  if (levels == 0) {
    if (object == nullptr) {
      object = cache.allocate();
    } else {
      cache.free(object);
    }
  } else if (path % 2 == 0) {
    by_path(path / 2, cache, object, levels - 1);
    asm volatile("# even" ::: "memory");  // two calls, neither in tail position
  } else {
    by_path(path / 2, cache, object, levels - 1);
    asm volatile("# odd" ::: "memory");
  }
}

// A free cannot allocate memory for its stack: the allocations before have left enough.
TEST_F(QuarantineTest, each_free_has_its_stack_however_many_stacks_there_are) {
  for (unsigned before = 0; before < 6; ++before) {  // so that each kind of stack comes when the memory is used up
    begin_again({});
    Cache* cache = make_waiting(8);
    start_trace(Way::kRecords);
    for (unsigned path = 0; path < 100; ++path) {
      void* object = nullptr;
      by_path(path, *cache, object);
      ASSERT_NE(object, nullptr);
      if (path < before) {
        cache->free(object);
        continue;
      }
      by_path(path + 128, *cache, object);
      told.count = 0;
      cache->free(object);
      ASSERT_EQ(told.count, 1U);
      trace::CallStack stack;
      std::uint32_t id = 0;
      ASSERT_TRUE(trace::stack_of(told.last.freed_by, stack, id)) << before << " " << path;
    }
    stop_trace(Way::kRecords);
    EXPECT_EQ(cache->set_quarantine(0), Status::kOk);
    expect_whole(*cache);
  }
}

TEST_F(QuarantineTest, of_random_writes_and_second_frees_each_is_reported) {
  constexpr std::size_t kWaiting = 37;
  test::Random random;
  Cache* cache = make_waiting(kWaiting);
  struct One {
    void* object;
    bool damaged;
  };
  static std::array<void*, 100> live;
  std::size_t live_count = 0;
  std::array<One, kWaiting> waiting{};  // a ring
  std::size_t freed = 0;
  unsigned expected = 0;
  for (unsigned step = 0; step < 20'000; ++step) {
    const std::uint64_t choice = random.below(10);
    const std::size_t held = std::min(freed, kWaiting);
    if (live_count == 0 || (choice < 5 && live_count < live.size())) {
      void* object = cache->allocate();
      for (std::size_t i = 0; i < held; ++i) ASSERT_NE(waiting[i].object, object);
      live[live_count++] = object;
    } else if (choice < 9) {
      void*& slot = live[random.below(live_count)];
      One& oldest = waiting[freed % kWaiting];
      cache->free(slot);
      if (held == kWaiting && oldest.damaged) {
        ++expected;
        EXPECT_EQ(told.last.kind, Misuse::kWriteAfterFree);
        EXPECT_EQ(told.last.object, oldest.object);
      }
      oldest = {slot, false};
      slot = live[--live_count];
      ++freed;
    } else if (held != 0) {
      One& one = waiting[random.below(held)];
      if (random.chance(50)) {
        cache->free(one.object);
        ++expected;
        EXPECT_EQ(told.last.kind, Misuse::kDoubleFree);
      } else if (!kChecked && !one.damaged) {
        bytes_of(one.object)[random.below(kSize)] ^= std::byte{0x40};
        one.damaged = true;
      }
    }
    ASSERT_EQ(told.count, expected) << "step " << step;
  }
  for (; live_count != 0; --live_count) cache->free(live[live_count - 1]);
  EXPECT_TRUE(cache->validate());
  cache->reap();
  expect_whole(*cache);
}

}  // namespace alloc_quarantine_test
