#include "trace_fixture.hpp"

#include <array>
#include <span>

#include <qm/detail/call_sites.hpp>
#include <qm/heap.hpp>
#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/trace/marks.hpp>

#include "stream.hpp"

namespace trace_stream_test {

using namespace qm;
using namespace qm::trace;
using wire::Operation;

class StreamTest : public test::TraceTest {
 protected:
  static void start(StreamOptions options = {}) { ASSERT_EQ(start_stream(options).status, Status::kOk); }
  static void stop() { ASSERT_EQ(stop_stream().status, Status::kOk); }
  static wire::Event next() {
    wire::Event event;
    event.operation = Operation::kMode;
    EXPECT_TRUE(next_event(0, event));
    return event;
  }
  static std::string_view name_of(std::uint32_t number) {
    static wire::Definition definition;
    return define_source(number, definition) ? definition.name : std::string_view("?");
  }
};

TEST_F(StreamTest, tells_each_operation_in_its_order_with_what_it_is_about) {
  Cache* cache = make("packet", 96);
  void* before = cache->allocate();
  start({.pattern = "packet"});
  void* object = test::allocate_by<1>(*cache);
  cache->free(object);
  cache->free(before);
  stop();
  const wire::Event taken = next();
  EXPECT_TRUE(taken.operation == Operation::kAllocate);
  EXPECT_EQ(taken.hart_number, 0u);
  EXPECT_EQ(taken.global_number, 0u);
  EXPECT_EQ(taken.address, reinterpret_cast<std::uintptr_t>(object));
  EXPECT_TRUE(name_of(taken.source) == "packet");
  EXPECT_EQ(taken.requested, wire::kSourceSize);
  static wire::Definition definition;
  ASSERT_TRUE(define_stack(taken.stack, definition));
  EXPECT_TRUE(definition.depth > 0);
  ASSERT_TRUE(define_source(taken.source, definition));
  EXPECT_EQ(definition.object_bytes, 96u);
  EXPECT_EQ(definition.outstanding, 1u);
  const wire::Event freed = next();
  EXPECT_TRUE(freed.operation == Operation::kFree && freed.address == taken.address);
  EXPECT_EQ(freed.hart_number, 1u);
  EXPECT_EQ(freed.global_number, 1u);
  EXPECT_TRUE(freed.ticks >= taken.ticks);
  EXPECT_EQ(next().address, reinterpret_cast<std::uintptr_t>(before));
  wire::Event none;
  EXPECT_FALSE(next_event(0, none));
  end_stream();
  EXPECT_TRUE(stream_state() == StreamState::kOff);
}

TEST_F(StreamTest, a_reallocation_is_one_event_whether_it_moves_or_not) {
  start({});
  void* block = heap::allocate_at(nullptr, 100);
  void* same = heap::reallocate(block, 105);
  EXPECT_EQ(same, block);
  void* moved = heap::reallocate(block, 3000);
  void* large = heap::reallocate(moved, 100000);
  heap::free(large);
  stop();
  wire::Event event;
  unsigned seen = 0;
  std::uint64_t last = 0;
  while (next_event(0, event)) {
    if (event.operation == Operation::kAllocate && event.requested == 100) last = event.address;
    if (event.operation != Operation::kReallocate) {
      if (event.address == last && event.operation == Operation::kFree) ++seen;
      continue;
    }
    EXPECT_EQ(event.address, last);
    const void* const to[] = {same, moved, large};
    EXPECT_EQ(event.new_address, reinterpret_cast<std::uintptr_t>(to[seen]));
    const std::uint64_t sizes[] = {105, 3000, 100000};
    EXPECT_EQ(event.requested, sizes[seen]);
    EXPECT_EQ(event.stack != 0, event.new_address != event.address);
    last = event.new_address;
    ++seen;
  }
  EXPECT_EQ(seen, 4u);  // including the free at the end
}

TEST_F(StreamTest, the_call_site_is_told_of_an_object_of_a_large_block_and_of_a_reallocation_that_moves) {
  start({});
  void* small = QM_ALLOC(heap::allocate, 100);
  void* large = QM_ALLOC(heap::allocate, 100000);
  void* moved = QM_ALLOC(heap::reallocate, small, 300000);
  heap::free(moved);
  heap::free(large);
  stop();
  static wire::Definition definition;
  std::uint32_t lines[3] = {};
  wire::Event event;
  while (next_event(0, event)) {
    for (unsigned i = 0; i < 3; ++i) {
      const std::uint64_t sizes[] = {100, 100000, 300000};
      if (event.requested != sizes[i] || !name_of(event.source).starts_with("k")) continue;
      EXPECT_EQ(event.allocated, wire::kSourceSize);
      if (define_call_site(event.call_site, definition)) lines[i] = definition.line;
    }
  }
  EXPECT_EQ(lines[0] != 0, kCallSites);
  EXPECT_EQ(lines[1], lines[0] + kCallSites);
  EXPECT_EQ(lines[2], lines[1] + kCallSites);
}

TEST_F(StreamTest, the_call_site_is_told_of_a_block_with_a_rest_too_small_for_another) {
  if (!kCallSites) GTEST_SKIP() << "there are none";
  start({});
  void* hole = heap::allocate(70'016);
  void* behind = heap::allocate(70'016);
  heap::free(hole);
  void* block = QM_ALLOC(heap::allocate, 70'000);
  const unsigned line = __LINE__ - 1;
  EXPECT_EQ(block, hole);
  stop();
  static wire::Definition definition;
  wire::Event event;
  unsigned seen = 0;
  while (next_event(0, event)) {
    if (event.requested != 70'000 || event.operation != Operation::kAllocate || name_of(event.source) != "kheap")
      continue;
    ++seen;
    EXPECT_NE(event.allocated, wire::kSourceSize);
    ASSERT_TRUE(define_call_site(event.call_site, definition));
    EXPECT_EQ(definition.line, line);
  }
  EXPECT_EQ(seen, 1U);
  heap::free(block);
  heap::free(behind);
}

TEST_F(StreamTest, counts_beside_the_events_what_they_say_number_for_number) {
  Cache* cache = make("session", 200);
  start({});
  void* kept[40];
  for (unsigned i = 0; i < 40; ++i) kept[i] = i % 2 != 0 ? cache->allocate() : heap::allocate_at(nullptr, 50 + i * 300);
  for (unsigned i = 0; i < 20; i += 2) kept[i] = heap::reallocate(kept[i], 40 + i * 500);
  for (unsigned i = 0; i < 30; ++i) {
    if (i % 2 != 0) {
      cache->free(kept[i]);
    } else {
      heap::free(kept[i]);
    }
  }
  stop();
  static wire::Statistic sums[300];
  static wire::Definition definition;
  for (wire::Statistic& sum : sums) sum = {};
  const auto allocated_in = [](const wire::Event& event, const wire::Definition& of) {
    if (event.allocated != wire::kSourceSize) return event.allocated;
    if (of.source_kind == wire::SourceKind::kCache || of.source_kind == wire::SourceKind::kHeapClass)
      return of.allocated_bytes;
    return wire::segment_bytes(event.requested, of.object_bytes, of.allocated_bytes);
  };
  wire::Event event;
  while (next_event(0, event)) {
    ASSERT_TRUE(event.source < 300);
    const std::uint32_t in = event.operation == Operation::kReallocate ? event.new_source : event.source;
    ASSERT_TRUE(define_source(in, definition));
    wire::Statistic& sum = sums[in];
    if (event.operation == Operation::kFree) {
      ++sum.frees;
      continue;
    }
    ++(event.operation == Operation::kAllocate ? sum.allocations : sum.reallocations);
    sum.requested_bytes += event.requested == wire::kSourceSize ? definition.object_bytes : event.requested;
    sum.allocated_bytes += allocated_in(event, definition);
  }
  unsigned sources = 0;
  for (std::uint32_t number = 1; number <= last_source() && number < 300; ++number) {
    wire::Statistic counted;
    if (!source_statistic(number, counted)) continue;
    ++sources;
    EXPECT_EQ(counted.allocations, sums[number].allocations) << number;
    EXPECT_EQ(counted.frees, sums[number].frees) << number;
    EXPECT_EQ(counted.reallocations, sums[number].reallocations) << number;
    EXPECT_EQ(counted.requested_bytes, sums[number].requested_bytes) << number;
    EXPECT_EQ(counted.allocated_bytes, sums[number].allocated_bytes) << number;
  }
  EXPECT_TRUE(sources > 3);
}

TEST_F(StreamTest, with_a_small_ring_each_lost_event_is_counted_in_its_place) {
  Cache* cache = make("packet");
  ASSERT_EQ(set_ring_bytes(8 * sizeof(RingEntry)), Status::kOk);
  start({.pattern = "packet"});
  EXPECT_EQ(set_ring_bytes(65536), Status::kBusy);
  std::uint64_t told = 0, lost = 0, number = 0;
  wire::Event event;
  const auto read = [&] {
    while (next_event(0, event)) {
      EXPECT_EQ(event.hart_number, number);
      if (event.operation == Operation::kLost) {
        lost += event.lost;
        number += event.lost;
      } else {
        ++told;
        ++number;
      }
    }
  };
  for (unsigned i = 0; i < 1000; ++i) {
    cache->free(cache->allocate());
    if (i % 17 == 0) read();
  }
  stop();
  read();
  EXPECT_EQ(told + lost, 2000u);
  EXPECT_TRUE(told > 300 && lost > 300);
  EXPECT_EQ(hart_statistic(0).events, told);
  EXPECT_EQ(hart_statistic(0).lost, lost);
  wire::Statistic counted;
  for (std::uint32_t source = 1; source <= last_source(); ++source) {
    if (!source_statistic(source, counted)) continue;
    EXPECT_EQ(counted.allocations + counted.frees, 2000u);
  }
}

TEST_F(StreamTest, leaves_out_what_is_too_small_and_takes_in_what_is_made_later) {
  Cache* small = make("small", 32);
  start({.pattern = "*", .minimum_bytes = 100});
  Cache* late = make("late", 128);
  small->free(small->allocate());
  late->free(late->allocate());
  stop();
  unsigned of_late = 0;
  wire::Event event;
  while (next_event(0, event)) {
    EXPECT_FALSE(name_of(event.source) == "small");
    of_late += name_of(event.source) == "late" ? 1 : 0;
  }
  EXPECT_EQ(of_late, 2u);
}

TEST_F(StreamTest, a_sample_has_both_events_of_an_object_or_none_and_its_weights_sum_up) {
  Cache* cache = make("packet", 64);
  start({.pattern = "packet", .sample_bytes = 512});
  static void* objects[2000];
  std::uint64_t taken = 0, freed = 0;
  wire::Event event;
  const auto read = [&] {
    while (next_event(0, event)) ++(event.operation == Operation::kFree ? freed : taken);
  };
  for (void*& object : objects) {
    object = cache->allocate();
    read();
  }
  for (void* object : objects) {
    cache->free(object);
    read();
  }
  stop();
  EXPECT_EQ(taken, freed);
  EXPECT_TRUE(taken * 8 > 1400 && taken * 8 < 2600) << taken;  // one in eight, with seeds that differ
}

TEST_F(StreamTest, a_change_of_mode_is_reported_in_its_place_and_then_counters_go_on_alone) {
  Cache* cache = make("packet");
  start({.pattern = "packet"});
  cache->free(cache->allocate());
  ASSERT_EQ(change_stream_mode(wire::StreamMode::kCounters).status, Status::kOk);
  cache->free(cache->allocate());
  stop();
  (void)next();
  (void)next();
  const wire::Event note = next();
  EXPECT_TRUE(note.operation == Operation::kMode && note.mode == wire::StreamMode::kCounters);
  wire::Event none;
  EXPECT_FALSE(next_event(0, none));
  wire::Statistic counted;
  for (std::uint32_t source = 1; source <= last_source(); ++source) {
    if (!source_statistic(source, counted)) continue;
    EXPECT_EQ(counted.allocations, 2u);
  }
}

TEST_F(StreamTest, from_boot_it_has_what_was_allocated_before) {
  Cache* cache = make("packet");
  ASSERT_EQ(start_stream_at_boot({}).status, Status::kOk);
  EXPECT_TRUE(stream_figures().from_boot);
  bool has_cache = false;
  unsigned count = 0;
  wire::Event event;
  while (next_event(0, event)) {
    ++count;
    has_cache = has_cache || event.address == reinterpret_cast<std::uintptr_t>(cache);
  }
  EXPECT_TRUE(has_cache);
  EXPECT_TRUE(count > 2);
}

TEST_F(StreamTest, goes_beside_a_live_trace_of_the_same_cache) {
  Cache* cache = make("packet");
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* object = cache->allocate();
  start({.pattern = "packet"});
  void* second = cache->allocate();
  EXPECT_EQ(dump_of(*cache).outstanding, 2u);
  cache->free(object);
  EXPECT_EQ(dump_of(*cache).outstanding, 1u);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  cache->free(second);
  stop();
  EXPECT_TRUE(cache_trace(*cache).state == State::kOff);
  EXPECT_TRUE(next().operation == Operation::kAllocate);
  EXPECT_EQ(next().address, reinterpret_cast<std::uintptr_t>(object));
  EXPECT_EQ(next().address, reinterpret_cast<std::uintptr_t>(second));
  EXPECT_TRUE((cache->state().load() & (trace_state::kStream | trace_state::kStreamHold)) == 0);
}

TEST_F(StreamTest, does_not_make_a_cache_one_that_was_traced) {
  StackReport report;
  ASSERT_EQ(report.begin(), Status::kOk);
  ASSERT_EQ(set_mark(report, "then"), Status::kOk);
  Cache* cache = make("packet", 96);
  start({.pattern = "packet"});
  void* leaked = cache->allocate();
  stop();
  end_stream();
  EXPECT_FALSE(cache_trace(*cache).known);
  EXPECT_FALSE(dump_of(*cache).known);
  EXPECT_EQ(coverage_since(find_mark(report, "then")).partial, 0u);
  report.select(*cache);
  EXPECT_EQ(report.totals().known, 0u);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  EXPECT_TRUE(cache_trace(*cache).known);
  EXPECT_EQ(cache_trace(*cache).from_before_start, 1u);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_TRUE(cache_trace(*cache).known);
  cache->free(leaked);
}

TEST_F(StreamTest, makes_no_cache_that_was_made_again_one_that_was_traced) {
  Cache* cache = make("packet", 96);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  cache = make("packet", 96);
  start({.pattern = "packet"});
  EXPECT_FALSE(cache_trace(*cache).known);
  stop();
  end_stream();
  ASSERT_EQ(Cache::destroy(cache), Status::kOk);
  ASSERT_EQ(trace_from_creation("packet").status, Status::kOk);
  EXPECT_TRUE(cache_trace(*make("packet", 96)).known);
}

// Cache::destroy() hides a cache and drains it on every hart before it can refuse for its live objects; then it shows it.
TEST_F(StreamTest, is_over_for_a_cache_too_whose_destroy_was_under_way_at_the_stop) {
  Cache* cache = make("packet", 96);
  start();
  void* held = cache->allocate();
  ASSERT_EQ(registry_hide(*cache), Status::kOk);
  stop();
  wire::Event event;
  while (next_event(0, event)) {
  }
  end_stream();
  registry_show(*cache);
  EXPECT_EQ(cache->state().load() & (trace_state::kStream | trace_state::kStreamHold), 0u);
  cache->free(held);
  EXPECT_EQ(events_waiting(0), 0u);
  start({.pattern = "packet"});
  cache->free(cache->allocate());
  stop();
  EXPECT_TRUE(next().operation == Operation::kAllocate);
}

TEST_F(StreamTest, says_what_a_number_means_only_of_numbers_that_it_has_reported) {
  Cache* cache = make("packet", 96);
  start({.pattern = "packet"});
  cache->free(test::allocate_by<1>(*cache));
  cache->free(test::allocate_by<2>(*cache));
  const std::uint32_t stacks[] = {next().stack, next().stack, next().stack};
  static wire::Definition definition;
  unsigned defined[4] = {};
  for (std::uint32_t number = 0; number < 70'000; ++number) {
    defined[0] += define_stack(number, definition) ? 1 : 0;
    defined[1] += define_source(number, definition) ? 1 : 0;
    defined[2] += define_context(number, definition) ? 1 : 0;
    defined[3] += define_call_site(number, definition) ? 1 : 0;
  }
  EXPECT_EQ(defined[0], 2u);
  EXPECT_EQ(defined[1], 1u);
  EXPECT_EQ(defined[2], 1u);
  if constexpr (kCallSites) {
    EXPECT_EQ(defined[3], call_sites::count());
  } else {
    EXPECT_EQ(defined[3], 0u);
  }
  EXPECT_TRUE(define_stack(stacks[0], definition) && definition.number == stacks[0]);
  EXPECT_TRUE(define_stack(stacks[2], definition) && definition.number == stacks[2]);
  for (unsigned bit = 17; bit < 32; ++bit) {
    EXPECT_FALSE(define_stack(1u << bit, definition) || define_source(1u << bit, definition));
    EXPECT_FALSE(define_context(1u << bit, definition) || define_call_site(1u << bit, definition));
  }
  stop();
}

TEST_F(StreamTest, defines_a_source_with_its_parent_and_a_context_with_its_name) {
  start({});
  Cache* cache = Cache::create({.name = "packet", .object_size = 96, .source = &page_arena()});
  ASSERT_NE(cache, nullptr);
  cache->free(cache->allocate());
  stop();
  static wire::Definition definition;
  wire::Event event;
  do event = next();
  while (name_of(event.source) != "packet");
  ASSERT_TRUE(define_source(event.source, definition));
  ASSERT_NE(definition.parent, 0U);
  EXPECT_EQ(name_of(definition.parent - 1), cache->source().name());
  ASSERT_TRUE(define_context(event.context, definition));
  EXPECT_TRUE(definition.kind == wire::DefinitionKind::kContext);
  EXPECT_EQ(definition.number, event.context);
  EXPECT_FALSE(definition.name.empty());
  EXPECT_FALSE(define_context(0, definition));
  EXPECT_TRUE(define_stack(event.stack, definition));
  EXPECT_TRUE(definition.kind == wire::DefinitionKind::kStack);
}

TEST_F(StreamTest, keeps_for_each_number_whether_it_is_defined_until_all_is_forgotten) {
  make("packet", 96);
  start({});
  struct Numbered {
    wire::DefinitionKind kind;
    std::uint32_t number;
  };
  const std::uint32_t stacks = static_cast<std::uint32_t>(tracer.config().stack_bytes / 8);
  static std::array<Numbered, 600> all;
  std::size_t count = 0;
  for (const std::uint32_t number : {1U, stacks - 1}) all[count++] = {wire::DefinitionKind::kStack, number};
  for (const std::uint32_t number : {1U, last_context()}) all[count++] = {wire::DefinitionKind::kContext, number};
  if constexpr (kCallSites) {
    const auto last = static_cast<std::uint32_t>(call_sites::count());
    for (const std::uint32_t number : {1U, last}) all[count++] = {wire::DefinitionKind::kCallSite, number};
  }
  static wire::Definition definition;
  for (std::uint32_t number = 1; number <= last_source(); ++number) {
    if (define_source(number, definition)) all[count++] = {wire::DefinitionKind::kSource, number};
    ASSERT_LT(count, all.size());
  }
  for (unsigned round = 0; round < 2; ++round) {
    for (const Numbered& one : std::span(all).first(count))
      EXPECT_FALSE(mark_defined(one.kind, one.number)) << one.number;
    for (const Numbered& one : std::span(all).first(count))
      EXPECT_TRUE(mark_defined(one.kind, one.number)) << one.number;
    forget_defined();
  }
  EXPECT_TRUE(mark_defined(wire::DefinitionKind::kSource, 0));
  stop();
}

TEST_F(StreamTest, has_freed_all_bytes_that_it_has_allocated_once_nothing_is_out) {
  start({});
  std::array<void*, 30> blocks{};
  for (unsigned i = 0; i < blocks.size(); ++i) blocks[i] = heap::allocate(40 + i * 700);
  for (unsigned i = 0; i < blocks.size(); ++i) blocks[i] = heap::reallocate(blocks[i], 20'000 - i * 600);
  for (void* block : blocks) heap::free(block);
  stop();
  unsigned sources = 0;
  for (std::uint32_t number = 1; number <= last_source(); ++number) {
    wire::Statistic counted;
    if (!source_statistic(number, counted) || !name_of(number).starts_with("k")) continue;
    if (name_of(number) == "kpages" || counted.frees == 0) continue;  // kpages: the heap keeps pages
    ++sources;
    EXPECT_EQ(counted.allocated_bytes, counted.freed_bytes) << number;
  }
  EXPECT_GT(sources, 1U);
}

TEST_F(StreamTest, says_of_a_known_stack_too_that_the_allocation_was_atomic) {
  Cache* cache = make("packet", 96);
  start({.pattern = "packet"});
  for (unsigned i = 0; i < 6; ++i) cache->free(cache->allocate_at(nullptr, 0, WaitPolicy::kAtomic));
  stop();
  for (unsigned i = 0; i < 6; ++i) {
    EXPECT_EQ(next().flags, wire::kAtomic) << i;
    next();
  }
}

TEST_F(StreamTest, counts_nothing_after_its_stop_of_what_is_still_traced) {
  ASSERT_EQ(trace::start("*").status, Status::kOk);
  start({});
  void* block = heap::allocate(3000);
  void* other = heap::allocate(3000);
  heap::free(other);
  stop();
  const auto counted = [] {
    std::uint64_t sum = 0;
    wire::Statistic statistic;
    for (std::uint32_t number = 1; number <= last_source(); ++number) {
      if (source_statistic(number, statistic)) sum += statistic.allocations + statistic.frees + statistic.reallocations;
    }
    return sum;
  };
  const std::uint64_t before = counted();
  EXPECT_GE(before, 3U);
  EXPECT_EQ(heap::reallocate(block, 2990), block);
  block = heap::reallocate(block, 40'000);
  heap::free(block);
  EXPECT_EQ(counted(), before);
}

TEST_F(StreamTest, frees_of_objects_from_before_its_start_are_no_danger) {
  Cache* cache = make("packet", 96);
  std::array<void*, 20> objects{};
  for (void*& object : objects) object = cache->allocate();
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  for (void* object : objects) cache->free(object);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(recorded(*cache), 0U);
  EXPECT_TRUE(trace::validate());
}

TEST_F(StreamTest, a_source_that_joins_leaves_the_counts_of_all_others) {
  static constexpr std::array<const char*, 3> kNames = {"first", "second", "third"};
  std::array<Cache*, 3> caches{};
  for (unsigned again = 0; again < 3; ++again) {
    // The stream's data of each exists from an earlier stream; the one that is made again joins this one alone.
    for (unsigned i = 0; i < 3; ++i) {
      if (caches[i] == nullptr) caches[i] = make(kNames[i], 96);
    }
    start({});
    stop();
    end_stream();
    ASSERT_EQ(Cache::destroy(caches[again]), Status::kOk);
    start({});
    for (unsigned i = 0; i < 3; ++i) {
      if (i != again) caches[i]->free(caches[i]->allocate());
    }
    caches[again] = make(kNames[again], 96);
    unsigned counted = 0;
    for (std::uint32_t number = 1; number <= last_source(); ++number) {
      wire::Statistic statistic;
      if (!source_statistic(number, statistic)) continue;
      for (unsigned i = 0; i < 3; ++i) {
        if (name_of(number) != kNames[i]) continue;
        ++counted;
        EXPECT_EQ(statistic.allocations, i != again ? 1U : 0U);
        EXPECT_EQ(statistic.frees, i != again ? 1U : 0U);
      }
    }
    EXPECT_EQ(counted, 3U);
    stop();
    end_stream();
  }
}

TEST_F(StreamTest, defines_a_context_by_its_kind_number_and_name_and_none_by_0) {
  Cache* cache = make("packet", 96);
  start({.pattern = "packet"});
  cache->free(cache->allocate());
  stop();
  const std::uint32_t context = next().context;
  static wire::Definition definition;
  ASSERT_NE(context, 0u);
  ASSERT_TRUE(define_context(context, definition));
  EXPECT_TRUE(definition.kind == wire::DefinitionKind::kContext);
  EXPECT_EQ(definition.number, context);
  EXPECT_FALSE(definition.name.empty());
  EXPECT_FALSE(define_context(0, definition));
}

TEST_F(StreamTest, remembers_each_definition_until_it_forgets_them_all) {
  Cache* cache = make("packet", 96);
  start({.pattern = "packet"});
  cache->free(cache->allocate());
  const wire::Event event = next();
  using Kind = wire::DefinitionKind;
  struct Defined {
    Kind kind;
    std::uint32_t number;
  };
  const auto last_stack = static_cast<std::uint32_t>(tracer.config().stack_bytes / 8 - 1);
  const Defined all[] = {{Kind::kSource, event.source},
                         {Kind::kStack, event.stack},
                         {Kind::kStack, last_stack},
                         {Kind::kContext, event.context}};
  for (unsigned round = 0; round < 2; ++round) {
    for (const Defined& one : all) {
      EXPECT_FALSE(mark_defined(one.kind, one.number)) << one.number;
      EXPECT_TRUE(mark_defined(one.kind, one.number)) << one.number;
    }
    forget_defined();
  }
  stop();
}

TEST_F(StreamTest, counts_as_freed_what_it_counted_as_allocated_once_every_block_is_gone) {
  test::make_class(100);
  start();
  void* block = heap::allocate(100);
  block = heap::reallocate(block, 100'000);
  block = heap::reallocate(block, 100);
  heap::free(block);
  stop();
  for (std::uint32_t number = 1; number <= last_source(); ++number) {
    wire::Statistic counted;
    if (!source_statistic(number, counted) || name_of(number) != "kheap") continue;
    EXPECT_NE(counted.allocated_bytes, 0u);
    EXPECT_EQ(counted.freed_bytes, counted.allocated_bytes);
  }
}

TEST_F(StreamTest, tells_the_call_site_of_a_segment_with_one_quantum_more) {
  start({.pattern = "kheap"});
  static wire::Definition of;
  std::uint32_t number = 1;
  while (number <= last_source() && !define_source(number, of)) ++number;
  ASSERT_TRUE(of.name == "kheap");
  const std::uint64_t bytes = wire::segment_bytes(1000, of.object_bytes, of.allocated_bytes) + of.object_bytes;
  trace::stream.allocated(*stream_of(*tracer.source_numbered(number)), 0,
                          {number, 64, 0, 1000, static_cast<std::size_t>(bytes), 7});
  const wire::Event event = next();
  EXPECT_EQ(event.call_site, 7u);
  EXPECT_EQ(event.allocated, bytes);
  stop();
}

TEST_F(StreamTest, that_is_refused_takes_no_number_and_leaves_the_figures_of_the_one_before) {
  Cache* cache = make("packet", 96);
  start({.pattern = "packet"});
  cache->free(cache->allocate());
  stop();
  (void)next(), (void)next();
  end_stream();
  EXPECT_EQ(start_stream({.pattern = "nobody"}).status, Status::kNotFound);
  EXPECT_EQ(stream_figures().number, 1u);
  EXPECT_EQ(stream_figures().events, 2u);
  EXPECT_TRUE(stream_figures().options.pattern == "packet");
}

TEST_F(StreamTest, gives_its_memory_back_when_it_is_over_and_keeps_its_figures) {
  Cache* cache = make("packet", 96);
  cache->free(cache->allocate());
  const auto drain = [] {
    wire::Event event;
    while (next_event(0, event)) {
    }
  };
  const auto lasts = [&] {
    start();
    for (int i = 0; i < 5; ++i) cache->free(cache->allocate());
    stop();
    drain();
  };
  lasts();  // afterwards all permanent memory exists: the trace, and its data for each source
  end_stream();
  base_arena().reap();
  const std::size_t used = base_arena().stats().allocated;
  ASSERT_EQ(set_ring_bytes(std::size_t{1} << 20), Status::kOk);
  lasts();
  EXPECT_GE(base_arena().stats().allocated, used + (std::size_t{1} << 20));
  end_stream();
  base_arena().reap();
  EXPECT_EQ(base_arena().stats().allocated, used);
  EXPECT_EQ(stream_figures().events, 10u);
  EXPECT_EQ(stream_figures().waiting, 0u);
  EXPECT_EQ(hart_statistic(0).events, 10u);
  wire::Event event;
  EXPECT_FALSE(next_event(0, event));
  EXPECT_EQ(start_stream({.pattern = "nothing"}).status, Status::kNotFound);
  EXPECT_EQ(base_arena().stats().allocated, used) << "a start that is refused";
  lasts();
  EXPECT_EQ(stream_figures().events, 10u);
  end_stream();
  EXPECT_EQ(set_ring_bytes(kRingBytes), Status::kOk);
}

TEST_F(StreamTest, has_never_the_number_that_means_none) {
  trace::stream.number = 0xffff;
  make("packet", 96);
  start();
  EXPECT_EQ(stream_figures().number, 1u);
  stop();
}

TEST_F(StreamTest, is_refused_while_one_is_on_and_for_a_name_that_nothing_has) {
  EXPECT_EQ(start_stream({.pattern = "nothing"}).status, Status::kNotFound);
  EXPECT_EQ(stop_stream().status, Status::kNotFound);
  EXPECT_EQ(set_ring_bytes(16), Status::kInvalid);
  start({});
  EXPECT_EQ(start_stream({}).status, Status::kBusy);
  stop();
  EXPECT_EQ(start_stream({}).status, Status::kBusy);
  end_stream();
  start({});
}

}  // namespace trace_stream_test
