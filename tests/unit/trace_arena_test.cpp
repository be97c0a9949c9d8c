// The live trace of arenas: segments are recorded in the same way as objects of caches.

#include "trace_fixture.hpp"

#include <cstring>
#include <initializer_list>

#include <qm/arena.hpp>
#include <qm/heap.hpp>
#include <qm/trace/unwind.hpp>

namespace trace_arena_test {

using namespace qm;
using trace::State;

constexpr std::size_t kLarge = 5000;  // larger than every class of the heap

class TraceArena : public qm::test::TraceTest {
 protected:
  static Arena& arena(const char* name) {
    RegistryCursor<Arena> arenas;
    Arena* found = arenas.find(name);
    EXPECT_NE(found, nullptr) << name;
    return *found;
  }
  static Arena& kheap() { return arena("kheap"); }
  static State state(Arena& arena) { return trace::cache_trace(arena).state; }
  static std::uint32_t live(Arena& arena) { return trace::cache_trace(arena).live; }
  static std::uint64_t recorded(Arena& arena) { return trace::cache_trace(arena).figures.recorded; }

  /// @returns the only record of an arena.
  static trace::DumpEntry only_record(Arena& arena) {
    static trace::Dump dump;
    trace::DumpEntry entry;
    trace::DumpEntry other;
    dump.begin(arena);
    EXPECT_TRUE(dump.next(entry));
    EXPECT_FALSE(dump.next(other));
    return entry;
  }
  static trace::DumpSummary dump_of(Arena& arena) {
    static trace::Dump dump;
    trace::DumpEntry entry;
    dump.begin(arena);
    while (dump.next(entry)) {
    }
    return dump.finish();
  }

  /// Makes an arena of numbers, without memory behind them.
  static Status make_numbers(Arena& arena, const char* name, std::uintptr_t start, std::size_t size,
                             std::size_t quantum) {
    ArenaConfig config;
    config.name = name;
    config.start = start;
    config.size = size;
    config.quantum = quantum;
    return arena.initialize(config);
  }
};

[[gnu::noinline]] void* ask_for_object(Cache& cache) {
  void* object = cache.allocate();
  asm volatile("" : "+r"(object));  // keeps the call above from becoming a jump
  return object;
}
[[gnu::noinline]] void* ask_for_block() {
  void* block = heap::allocate(kLarge);
  asm volatile("" : "+r"(block));
  return block;
}

template <class Function>
bool shows(const trace::DumpEntry& entry, Function* function) {
  for (unsigned i = 0; i < entry.depth; ++i) {
    if (entry.pcs[i] - reinterpret_cast<std::uintptr_t>(function) < 256) return true;
  }
  return false;
}

TEST_F(TraceArena, a_segment_is_shown_with_the_function_that_asked_for_the_object_or_the_block) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = ask_for_block();
  EXPECT_TRUE(shows(only_record(kheap()), ask_for_block));
  heap::free(block);
  CacheConfig config;
  config.name = "packet";
  config.object_size = 5000;
  config.source = &page_arena();  // its quantum caches have no slab of that size
  Cache* cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  ASSERT_EQ(trace::start("kpages").status, Status::kOk);
  void* objects[16] = {};
  unsigned count = 0;
  while (count < 16 && cache->stats().slabs < 3) objects[count++] = ask_for_object(*cache);
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(page_arena());
  unsigned segments = 0;
  for (; dump.next(entry); ++segments) EXPECT_TRUE(shows(entry, ask_for_object)) << segments;
  EXPECT_EQ(segments, 3U);
  while (count != 0) cache->free(objects[--count]);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

TEST_F(TraceArena, a_large_block_of_the_heap_is_shown_with_its_size_its_stack_and_its_context) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = heap::allocate(kLarge);
  trace::CallStack here;
  trace::walk_here(here);
  const trace::DumpEntry entry = only_record(kheap());
  EXPECT_EQ(entry.object, reinterpret_cast<std::uintptr_t>(block));
  EXPECT_EQ(entry.requested, kLarge);
  EXPECT_FALSE(entry.context.empty());
  EXPECT_GE(entry.stack_id, trace::kFirstId);
  ASSERT_GE(here.depth, 1U);
  bool found = false;
  for (unsigned i = 0; i < entry.depth; ++i) found = found || entry.pcs[i] == here.pcs[0];
  EXPECT_TRUE(found);
  heap::free(block);
  EXPECT_EQ(live(kheap()), 0U);
  EXPECT_EQ(recorded(kheap()), 1U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceArena, a_block_that_was_written_past_its_end_keeps_its_record) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = heap::allocate(kLarge);
  char* end = static_cast<char*>(block) + heap::usable_size(block);
  char behind[8];  // the seal and the handle of the record
  std::memcpy(behind, end, sizeof behind);
  std::memset(end, 0x5a, sizeof behind);  // as a handle, a count of a stack that is not there
  heap::free(block);
  EXPECT_EQ(live(kheap()), 1U);
  std::memcpy(end, behind, sizeof behind);
  heap::free(block);
  EXPECT_EQ(live(kheap()), 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceArena, stop_drains_and_is_off_with_the_last_record) {
  void* before = heap::allocate(kLarge);
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  EXPECT_EQ(state(kheap()), State::kOn);
  EXPECT_EQ(trace::cache_trace(kheap()).from_before_start, 1U);
  void* block = heap::allocate(kLarge);
  void* aligned = heap::allocate_aligned(8192, 100);  // a constrained allocation
  EXPECT_EQ(live(kheap()), 2U);
  ASSERT_EQ(trace::stop("kheap").status, Status::kOk);
  EXPECT_EQ(state(kheap()), State::kDraining);
  void* after = heap::allocate(kLarge);
  EXPECT_EQ(recorded(kheap()), 2U);
  heap::free(before);
  heap::free(after);
  heap::free(block);
  EXPECT_EQ(state(kheap()), State::kDraining);
  heap::free(aligned);
  EXPECT_EQ(state(kheap()), State::kOff);
  EXPECT_EQ(kheap().state().load(), 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceArena, a_reallocation_in_place_is_the_same_record_with_another_size) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = heap::allocate(kLarge);
  const trace::DumpEntry before = only_record(kheap());
  ASSERT_EQ(heap::reallocate(block, 2 * kLarge), block);
  trace::DumpEntry after = only_record(kheap());
  EXPECT_EQ(after.requested, 2 * kLarge);
  EXPECT_EQ(after.sequence, before.sequence);
  EXPECT_EQ(after.stack_id, before.stack_id);
  EXPECT_EQ(recorded(kheap()), 1U);
  ASSERT_EQ(trace::stop("kheap").status, Status::kOk);
  ASSERT_EQ(heap::reallocate(block, kLarge - 1), block);
  after = only_record(kheap());
  EXPECT_EQ(after.requested, kLarge - 1);
  heap::free(block);
  EXPECT_EQ(state(kheap()), State::kOff);
}

TEST_F(TraceArena, a_reallocation_that_moves_is_a_record_of_the_new_block_and_none_of_the_old) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = heap::allocate(kLarge);
  const trace::DumpEntry before = only_record(kheap());
  void* barrier = heap::allocate(kLarge);  // keeps the block from growing in place
  void* moved = heap::reallocate(block, 8 * kLarge);
  ASSERT_NE(moved, block);
  trace::DumpEntry after;
  ASSERT_TRUE(trace::find(kheap(), reinterpret_cast<std::uintptr_t>(moved), after));
  EXPECT_EQ(after.requested, 8 * kLarge);
  EXPECT_GT(after.sequence, before.sequence);
  EXPECT_FALSE(trace::find(kheap(), reinterpret_cast<std::uintptr_t>(block), after));
  EXPECT_EQ(live(kheap()), 2U);
  EXPECT_EQ(recorded(kheap()), 3U);
  heap::free(moved);
  heap::free(barrier);
  EXPECT_EQ(live(kheap()), 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceArena, a_segments_record_is_found_by_its_start_while_it_is_out) {
  Arena numbers;
  ASSERT_EQ(make_numbers(numbers, "numbers", 1, 100, 1), Status::kOk);
  const std::uintptr_t before = numbers.allocate(1);
  ASSERT_EQ(trace::start("numbers").status, Status::kOk);
  const std::uintptr_t plain = numbers.allocate(3);
  const std::uintptr_t constrained = numbers.allocate_constrained(5, {.align = 16, .phase = 3});
  trace::DumpEntry entry;
  ASSERT_TRUE(trace::find(numbers, plain, entry));
  EXPECT_EQ(entry.object, plain);
  EXPECT_EQ(entry.requested, 3U);
  ASSERT_TRUE(trace::find(numbers, constrained, entry));
  EXPECT_EQ(entry.object, constrained);
  EXPECT_EQ(entry.requested, 5U);
  EXPECT_FALSE(trace::find(numbers, before, entry));
  EXPECT_FALSE(trace::find(numbers, plain + 1, entry));
  EXPECT_EQ(numbers.free(plain, 3), Status::kOk);
  EXPECT_FALSE(trace::find(numbers, plain, entry));
  EXPECT_EQ(numbers.free_constrained(constrained, 5), Status::kOk);
  EXPECT_EQ(numbers.free(before, 1), Status::kOk);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

TEST_F(TraceArena, reset_drops_the_records_and_keeps_the_state) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = heap::allocate(kLarge);
  ASSERT_EQ(trace::reset("kheap").status, Status::kOk);
  const trace::CacheTrace now = trace::cache_trace(kheap());
  EXPECT_EQ(now.state, State::kOn);
  EXPECT_EQ(now.live, 0U);
  EXPECT_EQ(now.figures.recorded, 0U);
  EXPECT_EQ(now.from_before_start, 1U);
  void* later = heap::allocate(kLarge);
  heap::free(block);  // its handle belongs to a record that is gone, or that is now another block's
  EXPECT_EQ(live(kheap()), 1U);
  EXPECT_EQ(only_record(kheap()).object, reinterpret_cast<std::uintptr_t>(later));
  heap::free(later);
  EXPECT_EQ(live(kheap()), 0U);
}

TEST_F(TraceArena, sources_of_the_trace_itself_are_refused_and_passed_by) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);  // the trace is open
  for (const char* name : {"base", "ktrace"}) {
    EXPECT_EQ(trace::start(name).status, Status::kRefused) << name;
    EXPECT_EQ(arena(name).state().load(), 0U) << name;
  }
  EXPECT_EQ(trace::start("*").status, Status::kOk);
  EXPECT_EQ(arena("base").state().load(), 0U);
  EXPECT_EQ(arena("ktrace").state().load(), 0U);
}

TEST_F(TraceArena, with_everything_traced_an_import_is_a_record_of_the_source_too) {
  ASSERT_EQ(trace::start("*").status, Status::kOk);
  Arena& pages = arena("kpages");
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .source = &pages, .minimum_import = 65536}), Status::kOk);
  ASSERT_EQ(trace::start("importer").status, Status::kOk);
  const std::uint32_t before = live(pages);
  const std::uintptr_t start = importer.allocate(kLarge);
  EXPECT_EQ(live(importer), 1U);
  EXPECT_EQ(live(pages), before + 1);
  EXPECT_TRUE(trace::validate());
  EXPECT_EQ(importer.free(start, kLarge), Status::kOk);
  importer.reap();
  EXPECT_EQ(live(importer), 0U);
  EXPECT_EQ(live(pages), before);
  EXPECT_TRUE(trace::validate());
  EXPECT_EQ(importer.destroy(), Status::kOk);
}

TEST_F(TraceArena, numbers_are_recorded_as_they_are_whatever_the_quantum) {
  for (const std::size_t quantum : {std::size_t{1}, std::size_t{8}, std::size_t{24}, std::size_t{4096}}) {
    Arena numbers;
    ASSERT_EQ(make_numbers(numbers, "numbers", 7 * quantum, 100 * quantum, quantum), Status::kOk);
    ASSERT_EQ(trace::start("numbers").status, Status::kOk);
    const std::uintptr_t number = numbers.allocate(3 * quantum);
    ASSERT_NE(number, 0U);
    EXPECT_EQ(only_record(numbers).object, number);
    EXPECT_EQ(numbers.free(number, 3 * quantum), Status::kOk);
    EXPECT_EQ(live(numbers), 0U);
    EXPECT_EQ(numbers.destroy(), Status::kOk);
  }
}

TEST_F(TraceArena, a_number_that_no_record_can_hold_is_counted_as_dropped) {
  if constexpr (sizeof(std::uintptr_t) == 8) {
    Arena numbers;
    ASSERT_EQ(make_numbers(numbers, "numbers", std::uintptr_t{1} << (sizeof(std::uintptr_t) * 4), 100, 1), Status::kOk);
    ASSERT_EQ(trace::start("numbers").status, Status::kOk);
    const std::uintptr_t number = numbers.allocate(1);
    EXPECT_EQ(live(numbers), 0U);
    EXPECT_EQ(trace::cache_trace(numbers).figures.dropped[static_cast<unsigned>(trace::Drop::kOutOfRange)], 1U);
    EXPECT_EQ(numbers.free(number, 1), Status::kOk);
    EXPECT_EQ(numbers.destroy(), Status::kOk);
  }
}

TEST_F(TraceArena, what_a_quantum_cache_serves_is_the_caches) {
  ASSERT_EQ(trace::start("kpages*").status, Status::kOk);
  Arena& pages = arena("kpages");
  const std::uint32_t before = live(pages);
  const std::uintptr_t small = pages.allocate(4096);
  EXPECT_EQ(live(pages), before);
  RegistryCursor<Cache> caches;
  EXPECT_EQ(trace::cache_trace(*caches.find("kpages_4096")).live, 1U);
  const std::uintptr_t large = pages.allocate(5 * 4096);
  EXPECT_EQ(live(pages), before + 1);
  EXPECT_EQ(pages.free(small, 4096), Status::kOk);
  EXPECT_EQ(pages.free(large, 5 * 4096), Status::kOk);
  EXPECT_EQ(live(pages), before);
}

TEST_F(TraceArena, a_refused_free_leaves_the_record) {
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* block = heap::allocate(kLarge);
  const auto start = reinterpret_cast<std::uintptr_t>(block);
  EXPECT_EQ(kheap().free(start, 3 * kLarge), Status::kMismatch);
  EXPECT_EQ(live(kheap()), 1U);
  EXPECT_EQ(kheap().free(start, kLarge), Status::kOk);
  EXPECT_EQ(kheap().free(start, kLarge), Status::kNotFound);
  EXPECT_EQ(live(kheap()), 0U);
}

TEST_F(TraceArena, with_the_records_full_recorded_and_dropped_add_up) {
  trace::Config config;
  config.record_bytes = 10 * trace::kBytesPerRecord;
  begin_again(config);
  ASSERT_EQ(trace::start("kheap").status, Status::kOk);
  void* blocks[15];
  for (void*& block : blocks) block = heap::allocate(kLarge);
  const trace::CacheTrace now = trace::cache_trace(kheap());
  EXPECT_EQ(now.live, 10U);
  EXPECT_EQ(now.figures.recorded, 10U);
  EXPECT_EQ(now.figures.dropped[static_cast<unsigned>(trace::Drop::kRecordsFull)], 5U);
  EXPECT_FALSE(dump_of(kheap()).complete());
  for (void* block : blocks) heap::free(block);
  EXPECT_EQ(live(kheap()), 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceArena, an_arena_made_later_is_traced_from_its_first_segment_if_that_was_asked) {
  ASSERT_EQ(trace::trace_from_creation("num*").status, Status::kOk);
  Arena numbers;
  ASSERT_EQ(make_numbers(numbers, "numbers", 1, 100, 1), Status::kOk);
  EXPECT_EQ(state(numbers), State::kOn);
  const std::uintptr_t number = numbers.allocate(2);
  EXPECT_EQ(live(numbers), 1U);
  EXPECT_EQ(trace::cache_trace(numbers).from_before_start, 0U);
  EXPECT_EQ(numbers.free(number, 2), Status::kOk);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
}

TEST_F(TraceArena, destroying_a_traced_arena_is_refused_while_segments_are_out_and_then_drops_its_trace) {
  Arena numbers;
  ASSERT_EQ(make_numbers(numbers, "numbers", 1, 100, 1), Status::kOk);
  ASSERT_EQ(trace::start("numbers").status, Status::kOk);
  const std::uintptr_t number = numbers.allocate(1);
  EXPECT_EQ(numbers.destroy(), Status::kBusy);
  EXPECT_EQ(state(numbers), State::kOn);
  EXPECT_EQ(live(numbers), 1U);
  EXPECT_EQ(numbers.free(number, 1), Status::kOk);
  EXPECT_EQ(numbers.destroy(), Status::kOk);
  EXPECT_EQ(trace::totals().traced, 0U);
  Cache* next = make("next");  // reuses the number
  EXPECT_EQ(trace::start("next").status, Status::kOk);
  EXPECT_EQ(trace::cache_trace(*next).figures.recorded, 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(TraceArena, a_dump_of_an_arena_that_is_destroyed_ends_and_says_so) {
  Arena numbers;
  ASSERT_EQ(make_numbers(numbers, "numbers", 1, 100, 1), Status::kOk);
  ASSERT_EQ(trace::start("numbers").status, Status::kOk);
  const std::uintptr_t first = numbers.allocate(1);
  const std::uintptr_t second = numbers.allocate(1);
  static trace::Dump dump;
  trace::DumpEntry entry;
  dump.begin(numbers);
  ASSERT_TRUE(dump.next(entry));
  EXPECT_EQ(numbers.free(first, 1), Status::kOk);
  EXPECT_EQ(numbers.free(second, 1), Status::kOk);
  ASSERT_EQ(numbers.destroy(), Status::kOk);
  EXPECT_FALSE(dump.next(entry));
  EXPECT_TRUE(dump.finish().destroyed);
}

}  // namespace trace_arena_test
