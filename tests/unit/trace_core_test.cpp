// The live trace of the core form (QM_FULL=OFF, QM_TRACE=ON).

#include <support/system_fixture.hpp>

#include <array>
#include <cstring>

#include <qm/config.h>
#include <qm/test/seed.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace {

using namespace qm;
using qm::test::pool;
using trace::DumpEntry;
using trace::State;

/// Another stack for each number.
template <int kPath>
[[gnu::noinline]] void* allocate_by(Cache& cache) {
  void* object = cache.allocate();
  asm volatile("" : "+r"(object) : "i"(kPath));
  return object;
}

class CoreTrace : public qm::test::SystemTest {
 protected:
  void SetUp() override { begin({}); }
  void TearDown() override {
    EXPECT_TRUE(trace::validate());
    trace::shutdown();
    reclaim();
    EXPECT_EQ(base_arena().stats().bad_frees, 0U);
    SystemTest::TearDown();
  }
  void begin(const trace::Config& config) {
    start(qm::test::kPoolBytes);
    ASSERT_EQ(trace::initialize(config), Status::kOk);
  }
  void begin_again(const trace::Config& config) {
    trace::shutdown();
    shutdown();
    begin(config);
  }

  static Cache* make(const char* name, std::size_t size = 64, std::uint32_t flags = 0) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.flags = flags;
    return Cache::create(config);
  }
  static State state(Cache& cache) { return trace::cache_trace(cache).state; }
  static trace::CacheTrace heap_trace() { return trace::cache_trace(heap::traceable()); }
  static bool find(Cache& cache, const void* object, DumpEntry& entry) {
    return trace::find(cache.traceable(), reinterpret_cast<std::uintptr_t>(object), entry);
  }
  static bool has_record(const Traceable& source, const void* object) {
    DumpEntry entry;
    return trace::find(source, reinterpret_cast<std::uintptr_t>(object), entry);
  }
  static bool has_record(Cache& cache, const void* object) { return has_record(cache.traceable(), object); }
  static trace::DumpSummary dump_all() {
    trace::Dump dump;
    DumpEntry entry;
    dump.begin_all();
    while (dump.next(entry)) {
    }
    return dump.finish();
  }
};

// ---- start, stop, reset ---------------------------------------------------------------------------------------------

TEST_F(CoreTrace, records_what_is_allocated_between_start_and_stop) {
  Cache* cache = make("packet");
  void* before = cache->allocate();
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_FALSE(trace::cache_trace(*cache).known);
  const trace::CommandResult result = trace::start("packet");
  EXPECT_EQ(result.status, Status::kOk);
  EXPECT_EQ(result.caches, 1U);
  EXPECT_EQ(state(*cache), State::kOn);
  void* held = cache->allocate();
  cache->free(cache->allocate());
  EXPECT_EQ(trace::cache_trace(*cache).figures.recorded, 2U);
  EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 1U);
  EXPECT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_EQ(state(*cache), State::kDraining);
  void* after = cache->allocate();
  EXPECT_EQ(trace::cache_trace(*cache).figures.recorded, 2U);
  cache->free(before);
  cache->free(after);
  EXPECT_EQ(state(*cache), State::kDraining);
  cache->free(held);
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
}

TEST_F(CoreTrace, stop_without_records_is_off_at_once_and_start_goes_on_with_older_ones) {
  Cache* cache = make("packet");
  EXPECT_EQ(trace::start(*cache), Status::kOk);
  EXPECT_EQ(trace::stop(*cache), Status::kOk);
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_EQ(trace::stop(*cache), Status::kOk);
  EXPECT_EQ(state(*cache), State::kOff);
  EXPECT_EQ(trace::start(*cache), Status::kOk);
  void* older = cache->allocate();
  EXPECT_EQ(trace::stop(*cache), Status::kOk);
  void* unseen = cache->allocate();
  EXPECT_EQ(trace::start(*cache), Status::kOk);
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 1U);
  void* newer = cache->allocate();
  EXPECT_TRUE(has_record(*cache, older));
  EXPECT_FALSE(has_record(*cache, unseen));
  EXPECT_TRUE(has_record(*cache, newer));
  for (void* object : {older, unseen, newer}) cache->free(object);
  EXPECT_EQ(state(*cache), State::kOn);
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
}

TEST_F(CoreTrace, reset_drops_records_and_figures_and_leaves_the_state) {
  Cache* cache = make("packet");
  Cache* other = make("other");
  EXPECT_EQ(trace::start("*").caches, 4U);  // the heap, and the cache of caches
  void* old = cache->allocate();
  void* others = other->allocate();
  EXPECT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_EQ(state(*cache), State::kOn);
  trace::CacheTrace trace = trace::cache_trace(*cache);
  EXPECT_EQ(trace.live, 0U);
  EXPECT_EQ(trace.figures.recorded, 0U);
  EXPECT_EQ(trace.from_before_start, 1U);
  EXPECT_FALSE(has_record(*cache, old));
  EXPECT_TRUE(has_record(*other, others));
  void* young = cache->allocate();
  EXPECT_TRUE(has_record(*cache, young));
  cache->free(old);
  EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
  EXPECT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_EQ(state(*cache), State::kOff);
  cache->free(young);
  other->free(others);
  EXPECT_EQ(trace::totals().record_bytes, 0U);
}

TEST_F(CoreTrace, reset_gives_the_room_of_dropped_records_to_new_ones) {
  begin_again({.record_bytes = 5 * trace::kBytesPerRecord});
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start(*cache), Status::kOk);
  std::array<void*, 10> objects{};
  for (unsigned i = 0; i < 5; ++i) objects[i] = cache->allocate();
  EXPECT_EQ(trace::reset(*cache), Status::kOk);
  for (unsigned i = 5; i < 10; ++i) objects[i] = cache->allocate();
  EXPECT_EQ(trace::cache_trace(*cache).figures.dropped, 0U);
  EXPECT_EQ(trace::cache_trace(*cache).live, 5U);
  for (void* object : objects) cache->free(object);
}

TEST_F(CoreTrace, commands_say_what_they_applied_to) {
  make("first");
  make("first");  // names are not unique here
  Cache* hidden = make("hidden", 64, cache_flags::kNoTrace);
  EXPECT_EQ(trace::start("nobody").status, Status::kNotFound);
  EXPECT_EQ(trace::start("").status, Status::kNotFound);
  EXPECT_EQ(trace::start("hidden").status, Status::kRefused);
  EXPECT_EQ(trace::start(*hidden), Status::kRefused);
  EXPECT_EQ(trace::start("first").caches, 2U);
  const trace::CommandResult all = trace::start("*i*");
  EXPECT_EQ(all.status, Status::kOk);
  EXPECT_EQ(all.caches, 2U);
  EXPECT_EQ(all.skipped, 1U);
  hidden->free(hidden->allocate());
  EXPECT_FALSE(trace::cache_trace(*hidden).known);
  EXPECT_EQ(trace::totals().traced, 2U);
  EXPECT_EQ(trace::stop("*").caches, 4U);
  EXPECT_EQ(trace::totals().traced, 0U);
}

TEST_F(CoreTrace, before_the_books_are_open_and_after_they_are_closed_nothing_is_traced) {
  Cache* cache = make("packet");
  EXPECT_EQ(trace::initialize({}), Status::kBusy);
  EXPECT_EQ(trace::start(*cache), Status::kOk);
  void* held = cache->allocate();
  trace::shutdown();
  EXPECT_EQ(trace::start("packet").status, Status::kUnsafe);
  EXPECT_EQ(trace::start(*cache), Status::kUnsafe);
  EXPECT_FALSE(trace::cache_trace(*cache).known);
  EXPECT_FALSE(has_record(*cache, held));
  EXPECT_EQ(dump_all().outstanding, 0U);
  EXPECT_EQ(trace::totals().record_capacity, 0U);
  cache->free(cache->allocate());
  ASSERT_EQ(trace::initialize({}), Status::kOk);
  EXPECT_EQ(trace::start(*cache), Status::kOk);
  EXPECT_EQ(trace::cache_trace(*cache).from_before_start, 1U);
  cache->free(held);
}

// ---- records --------------------------------------------------------------------------------------------------------

TEST_F(CoreTrace, a_record_says_object_size_hart_and_stack) {
  Cache* cache = make("packet", 100);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  std::array<void*, 4> objects{};
  for (unsigned i = 0; i < 4; i += 2) {  // two stacks, twice each
    asm volatile("" : "+r"(i));          // the loop is not unrolled
    objects[i] = allocate_by<1>(*cache);
    objects[i + 1] = allocate_by<2>(*cache);
  }
  std::array<DumpEntry, 4> entries;
  for (unsigned i = 0; i < 4; ++i) {
    ASSERT_TRUE(find(*cache, objects[i], entries[i]));
    EXPECT_EQ(entries[i].object, reinterpret_cast<std::uintptr_t>(objects[i]));
    EXPECT_EQ(entries[i].requested, cache->object_size());
    EXPECT_EQ(entries[i].hart, 0U);
    EXPECT_GE(entries[i].depth, 2U);
    EXPECT_GE(entries[i].stack_id, 16U);
    EXPECT_TRUE(i == 0 || entries[i].sequence > entries[i - 1].sequence);
  }
  EXPECT_EQ(entries[0].stack_id, entries[2].stack_id);
  EXPECT_EQ(entries[1].stack_id, entries[3].stack_id);
  EXPECT_NE(entries[0].stack_id, entries[1].stack_id);
  EXPECT_EQ(trace::totals().stacks, 2U);
#if defined(QM_TARGET)
  // The image says where the allocator's own code lies, which is not shown.
  const std::uintptr_t from_function = entries[0].pcs[0] - reinterpret_cast<std::uintptr_t>(&allocate_by<1>);
  EXPECT_GT(from_function, 0U);
  EXPECT_LT(from_function, 64U);
  EXPECT_FALSE(entries[0].truncated);
#endif
  for (void* object : objects) cache->free(object);
  DumpEntry gone;
  EXPECT_FALSE(find(*cache, objects[0], gone));
}

TEST_F(CoreTrace, a_dump_shows_the_oldest_first_and_nothing_younger_than_itself) {
  Cache* cache = make("packet");
  Cache* other = make("other");
  ASSERT_EQ(trace::start("*").status, Status::kOk);
  std::array<void*, 30> objects{};
  for (void*& object : objects) object = cache->allocate();
  for (unsigned i = 0; i < 30; i += 3) cache->free(objects[i]);
  for (unsigned i = 0; i < 30; i += 3) objects[i] = cache->allocate();  // young ones in old slots
  void* others = other->allocate();
  trace::Dump dump;
  DumpEntry entry;
  ASSERT_EQ(dump.begin("packet"), Status::kOk);
  std::uint64_t last = 0;
  unsigned shown = 0;
  void* young = nullptr;
  while (dump.next(entry)) {
    EXPECT_GT(entry.sequence, last);
    last = entry.sequence;
    if (shown++ == 10) {
      young = cache->allocate();
      cache->free(objects[28]);
    }
  }
  EXPECT_EQ(shown, 29U);
  trace::DumpSummary summary = dump.finish();
  EXPECT_EQ(summary.outstanding, 29U);
  EXPECT_EQ(summary.figures.recorded, 41U);
  EXPECT_TRUE(summary.ended);
  EXPECT_FALSE(summary.reset);
  dump.begin(*cache);
  ASSERT_TRUE(dump.next(entry));
  EXPECT_EQ(trace::reset("other").status, Status::kOk);
  EXPECT_FALSE(dump.finish().reset);
  EXPECT_EQ(trace::reset("packet").status, Status::kOk);
  EXPECT_FALSE(dump.next(entry));
  summary = dump.finish();
  EXPECT_TRUE(summary.reset);
  EXPECT_FALSE(summary.complete());
  EXPECT_EQ(dump.begin("nobody"), Status::kNotFound);
  EXPECT_FALSE(dump.next(entry));
  other->free(others);
  cache->free(young);
  for (unsigned i = 0; i < 30; ++i) {
    if (i != 28) cache->free(objects[i]);
  }
}

TEST_F(CoreTrace, what_finds_no_record_free_is_counted_and_the_next_one_is_recorded_again) {
  begin_again({.record_bytes = 10 * trace::kBytesPerRecord});
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start(*cache), Status::kOk);
  std::array<void*, 25> objects{};
  for (void*& object : objects) object = cache->allocate();
  trace::CacheTrace trace = trace::cache_trace(*cache);
  EXPECT_EQ(trace.live, 10U);
  EXPECT_EQ(trace.figures.recorded, 10U);
  EXPECT_EQ(trace.figures.dropped, 15U);
  EXPECT_EQ(trace::totals().dropped, 15U);
  EXPECT_EQ(trace::totals().record_bytes, trace::totals().record_capacity);
  const trace::DumpSummary summary = dump_all();
  EXPECT_EQ(summary.outstanding, 10U);
  EXPECT_FALSE(summary.complete());
  EXPECT_TRUE(trace::validate());
  cache->free(objects[20]);  // one without a record
  cache->free(objects[3]);
  EXPECT_EQ(trace::cache_trace(*cache).live, 9U);
  objects[3] = cache->allocate();
  EXPECT_TRUE(has_record(*cache, objects[3]));
  EXPECT_EQ(trace::cache_trace(*cache).figures.dropped, 15U);
  for (unsigned i = 0; i < 25; ++i) {
    if (i != 20) cache->free(objects[i]);
  }
  EXPECT_EQ(trace::cache_trace(*cache).live, 0U);
}

template <int... kPaths>
unsigned allocate_by_each(Cache& cache, void** objects, std::integer_sequence<int, kPaths...>) {
  unsigned count = 0;
  ((objects[count++] = allocate_by<kPaths>(cache)), ...);
  return count;
}

TEST_F(CoreTrace, records_without_room_for_their_stack_are_made_and_counted) {
  begin_again({.stack_bytes = 256});
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start(*cache), Status::kOk);
  void* objects[16];
  const unsigned count = allocate_by_each(*cache, objects, std::make_integer_sequence<int, 16>());
  const trace::CacheTrace trace = trace::cache_trace(*cache);
  EXPECT_EQ(trace.figures.recorded, count);
  EXPECT_GE(trace.figures.lost_stacks, 10U);
  EXPECT_LT(trace.figures.lost_stacks, count);
  DumpEntry entry;
  ASSERT_TRUE(find(*cache, objects[15], entry));
  EXPECT_EQ(entry.depth, 0U);
  EXPECT_TRUE(entry.truncated);
  EXPECT_LT(entry.stack_id, 16U);
  ASSERT_TRUE(find(*cache, objects[0], entry));
  EXPECT_GE(entry.depth, 2U);
  EXPECT_FALSE(dump_all().complete());
  for (void* object : objects) cache->free(object);
}

// ---- misuse ---------------------------------------------------------------------------------------------------------

TEST_F(CoreTrace, refused_frees_leave_the_records_that_there_are) {
  Cache* cache = make("packet");
  Cache* other = make("other");
  ASSERT_EQ(trace::start("packet").caches + trace::start("other").caches, 2U);
  auto* object = static_cast<char*>(cache->allocate());
  auto* twice = static_cast<char*>(cache->allocate());
  cache->free(object + 8);
  other->free(object);
  cache->free(twice);
  cache->free(twice);
  EXPECT_EQ(cache->stats().misuses + other->stats().misuses, 3U);
  EXPECT_TRUE(has_record(*cache, object));
  EXPECT_EQ(trace::cache_trace(*cache).live, 1U);
  EXPECT_TRUE(trace::validate());
  cache->free(object);
}

// ---- the heap -------------------------------------------------------------------------------------------------------

TEST_F(CoreTrace, the_heap_is_one_source_with_classes_that_come_later_and_large_blocks) {
  void* before = heap::allocate(200);
  EXPECT_EQ(trace::start("kmalloc").caches, 1U);
  EXPECT_EQ(heap_trace().from_before_start, 1U);
  void* blocks[] = {heap::allocate(24), heap::allocate(700), heap::allocate_zeroed(10, 33), heap::allocate(5000),
                    heap::allocate_aligned(4096, 100)};
  constexpr std::size_t kSizes[] = {24, 700, 330, 5000, 100};
  EXPECT_EQ(heap_trace().figures.recorded, 5U);
  for (unsigned i = 0; i < 5; ++i) {
    DumpEntry entry;
    ASSERT_TRUE(trace::find(heap::traceable(), reinterpret_cast<std::uintptr_t>(blocks[i]), entry));
    EXPECT_EQ(entry.requested, kSizes[i]);
    EXPECT_GE(entry.depth, 2U);
  }
  heap::free(before);
  heap::free_sized(blocks[0], 300);   // another class: refused
  heap::free_sized(blocks[3], 9000);  // another size: refused
  EXPECT_EQ(heap::misuses(), 2U);
  EXPECT_EQ(heap_trace().live, 5U);
  heap::free_sized(blocks[0], 24);
  heap::free_sized(blocks[3], 5000);
  for (void* block : {blocks[1], blocks[2], blocks[4]}) heap::free(block);
  heap::free(blocks[1]);  // twice
  EXPECT_EQ(heap_trace().live, 0U);
}

TEST_F(CoreTrace, a_block_that_is_reallocated_in_place_keeps_its_record_and_one_that_moves_gets_another) {
  ASSERT_EQ(trace::start("kmalloc").caches, 1U);
  const auto entry_of = [](const void* block) {
    DumpEntry entry;
    EXPECT_TRUE(trace::find(heap::traceable(), reinterpret_cast<std::uintptr_t>(block), entry));
    return entry;
  };
  void* small = heap::allocate(20);
  const DumpEntry first = entry_of(small);
  ASSERT_EQ(heap::reallocate(small, 30), small);
  EXPECT_EQ(entry_of(small).requested, 30U);
  EXPECT_EQ(entry_of(small).sequence, first.sequence);
  void* moved = heap::reallocate(small, 100);
  EXPECT_FALSE(has_record(heap::traceable(), small));
  EXPECT_EQ(entry_of(moved).requested, 100U);
  EXPECT_GT(entry_of(moved).sequence, first.sequence);
  void* large = heap::reallocate(moved, 8000);
  const std::uint64_t number = entry_of(large).sequence;
  ASSERT_EQ(heap::reallocate(large, 9000), large);
  EXPECT_EQ(entry_of(large).requested, 9000U);
  EXPECT_EQ(entry_of(large).sequence, number);
  EXPECT_EQ(heap_trace().live, 1U);
  heap::free(large);
  EXPECT_EQ(heap_trace().live, 0U);
}

// ---- arenas, and what goes ------------------------------------------------------------------------------------------

TEST_F(CoreTrace, an_arenas_segments_are_traced_also_where_they_are_no_memory) {
  Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 10, .size = 100, .quantum = 1}), Status::kOk);
  Arena more;
  ASSERT_EQ(more.initialize({.name = "more", .start = 10, .size = 100, .quantum = 1}), Status::kOk);
  EXPECT_EQ(ids.allocate(1), 10U);
  ASSERT_EQ(trace::start(ids), Status::kOk);
  ASSERT_EQ(trace::start(more), Status::kOk);
  EXPECT_EQ(trace::cache_trace(ids).from_before_start, 1U);
  EXPECT_EQ(ids.allocate(4), 11U);
  EXPECT_EQ(more.allocate(8), 10U);
  DumpEntry entry;
  ASSERT_TRUE(trace::find(ids.traceable(), 11, entry));
  EXPECT_EQ(entry.object, 11U);
  EXPECT_EQ(entry.requested, 4U);
  EXPECT_EQ(ids.free(11, 3), Status::kMismatch);
  EXPECT_TRUE(trace::find(ids.traceable(), 11, entry));
  EXPECT_EQ(ids.resize_in_place(11, 4, 6), Status::kOk);
  ASSERT_TRUE(trace::find(ids.traceable(), 11, entry));
  EXPECT_EQ(entry.requested, 6U);
  EXPECT_EQ(ids.free(10), Status::kOk);
  EXPECT_EQ(ids.destroy(), Status::kBusy);
  EXPECT_EQ(trace::cache_trace(ids).live, 1U);
  EXPECT_EQ(ids.free(11, 6), Status::kOk);
  EXPECT_EQ(trace::cache_trace(ids).live, 0U);
  EXPECT_EQ(trace::cache_trace(more).live, 1U);
  EXPECT_EQ(ids.destroy(), Status::kOk);
  EXPECT_FALSE(trace::cache_trace(ids).known);
  EXPECT_EQ(more.free(10), Status::kOk);
  EXPECT_EQ(more.destroy(), Status::kOk);
  EXPECT_EQ(trace::totals().traced, 0U);
}

TEST_F(CoreTrace, a_cache_that_goes_leaves_its_number_to_the_next) {
  begin_again({.caches = 2});
  Cache* first = make("one");
  Cache* second = make("two");
  Cache* third = make("three");
  ASSERT_EQ(trace::start(*first), Status::kOk);
  ASSERT_EQ(trace::start(*second), Status::kOk);
  EXPECT_EQ(trace::start(*third), Status::kNoMemory);
  EXPECT_EQ(trace::start("*").status, Status::kNoMemory);
  third->free(third->allocate());
  void* object = first->allocate();
  EXPECT_EQ(Cache::destroy(first), Status::kBusy);
  EXPECT_TRUE(has_record(*first, object));
  first->free(object);
  trace::Dump dump;
  dump.begin(*first);
  EXPECT_EQ(Cache::destroy(first), Status::kOk);
  EXPECT_EQ(trace::start(*third), Status::kOk);
  DumpEntry entry;
  void* its = third->allocate();
  EXPECT_FALSE(dump.next(entry));  // of the first alone
  EXPECT_TRUE(dump.finish().reset);
  const trace::CacheTrace trace = trace::cache_trace(*third);
  EXPECT_EQ(trace.figures.recorded, 1U);
  EXPECT_EQ(trace.from_before_start, 0U);
  third->free(its);
  EXPECT_EQ(Cache::destroy(second), Status::kOk);
  EXPECT_EQ(Cache::destroy(third), Status::kOk);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

TEST_F(CoreTrace, the_books_lie_in_memory_of_the_firmwares_or_of_the_base_arena) {
  trace::shutdown();
  const std::size_t before = base_arena().stats().allocated;
  ASSERT_EQ(trace::initialize({.stack_bytes = 4096, .record_bytes = 4096}), Status::kOk);
  EXPECT_GE(base_arena().stats().allocated, before + 8192);
  trace::shutdown();
  EXPECT_EQ(base_arena().stats().allocated, before);
  trace::Config config{.stack_bytes = 1024, .record_bytes = 1024, .caches = 1, .memory = {}};
  alignas(8) static std::byte memory[4096];
  const std::size_t bytes = trace::bytes_of(config);
  ASSERT_LE(bytes, sizeof memory);
  config.memory = {memory, bytes - 1};
  EXPECT_EQ(trace::initialize(config), Status::kNoMemory);
  config.memory = {memory + 1, sizeof memory - 1};
  EXPECT_EQ(trace::initialize(config), Status::kInvalid);
  std::memset(memory, 0x5a, sizeof memory);
  config.memory = {memory, bytes};
  ASSERT_EQ(trace::initialize(config), Status::kOk);
  EXPECT_EQ(base_arena().stats().allocated, before);
  ASSERT_EQ(trace::start("kmalloc").status, Status::kOk);
  std::array<void*, 60> blocks{};
  for (void*& block : blocks) block = heap::allocate(40);
  EXPECT_EQ(heap_trace().figures.dropped, 60 - 1024 / trace::kBytesPerRecord);
  for (void* block : blocks) heap::free(block);
  for (std::size_t i = bytes; i < sizeof memory; ++i) ASSERT_EQ(memory[i], std::byte{0x5a});
  EXPECT_TRUE(trace::validate());
}

TEST_F(CoreTrace, numbers_out_of_range_are_refused) {
  trace::shutdown();
  EXPECT_EQ(trace::initialize({.stack_bytes = 255}), Status::kInvalid);
  EXPECT_EQ(trace::initialize({.stack_bytes = (std::size_t{32} << 20) + 1}), Status::kInvalid);
  EXPECT_EQ(trace::initialize({.record_bytes = trace::kBytesPerRecord - 1}), Status::kInvalid);
  EXPECT_EQ(trace::initialize({.record_bytes = SIZE_MAX}), Status::kInvalid);
  EXPECT_EQ(trace::initialize({.caches = 30}), Status::kInvalid);
  EXPECT_EQ(trace::initialize({.record_bytes = std::size_t{16} << 20}), Status::kNoMemory);
  ASSERT_EQ(trace::initialize({.caches = 29}), Status::kOk);
  for (unsigned i = 0; i < 29; ++i) {
    Cache* cache = make("many", 16);
    ASSERT_EQ(trace::start(*cache), Status::kOk);
    EXPECT_TRUE(has_record(*cache, cache->allocate()));
  }
  EXPECT_EQ(trace::start(*make("many", 16)), Status::kNoMemory);
}

// ---- all of it ------------------------------------------------------------------------------------------------------

TEST_F(CoreTrace, random_use_leaves_a_record_for_each_object_that_is_out) {
  constexpr unsigned kObjects = 120;
  begin_again({.record_bytes = 100 * trace::kBytesPerRecord});
  struct Held {
    void* object = nullptr;
    bool recorded = false;
  };
  static std::array<Held, kObjects> held;
  held = {};
  Cache* caches[] = {make("a", 24), make("b", 200)};
  constexpr const char* kNames[] = {"a", "b", "kmalloc"};
  bool on = false;
  std::uint64_t dropped = 0;
  unsigned live = 0;
  qm::test::Random random(qm::test::seed());
  const auto source_of = [&](std::size_t i) -> Traceable& {
    return i % 3 == 2 ? heap::traceable() : caches[i % 3]->traceable();
  };
  const std::uint64_t steps = qm::test::steps(300000);
  for (std::uint64_t step = 0; step < steps; ++step) {
    const auto i = static_cast<std::size_t>(random.below(kObjects));
    Held& one = held[i];
    if (one.object != nullptr) {
      i % 3 == 2 ? heap::free(one.object) : caches[i % 3]->free(one.object);
      if (one.recorded) --live;
      one = {};
    } else {
      one.object = i % 3 == 2 ? heap::allocate(random.below(3000)) : caches[i % 3]->allocate();
      one.recorded = on && live < 100;
      if (one.recorded) ++live;
      if (on && !one.recorded) ++dropped;
    }
    if (random.chance(1)) {
      on = !on;
      for (const char* name : kNames) EXPECT_EQ((on ? trace::start(name) : trace::stop(name)).status, Status::kOk);
    }
    if (step % 1000 == 999) {
      ASSERT_TRUE(trace::validate());
      EXPECT_EQ(trace::totals().dropped, dropped);
      for (std::size_t k = 0; k < kObjects; ++k) {
        if (held[k].object == nullptr) continue;
        ASSERT_EQ(has_record(source_of(k), held[k].object), held[k].recorded);
      }
      EXPECT_EQ(dump_all().outstanding, live);
      if (random.chance(30)) {
        for (const char* name : kNames) EXPECT_EQ(trace::reset(name).status, Status::kOk);
        for (Held& each : held) each.recorded = false;
        live = 0;
        dropped = 0;
      }
    }
  }
  for (std::size_t k = 0; k < kObjects; ++k) {
    if (held[k].object != nullptr) k % 3 == 2 ? heap::free(held[k].object) : caches[k % 3]->free(held[k].object);
  }
  EXPECT_EQ(trace::totals().record_bytes, 0U);
}

}  // namespace
