// The traced path of the trace and the slow halves behind it report and record the same. An observer counts the
// operations that are left to the slow halves; with kNoTracedPath these are all operations.

#include "trace_fixture.hpp"

#include <algorithm>
#include <iterator>

#include <qm/config.h>
#include <qm/trace/event_stream.hpp>

namespace qm::trace {
extern const TracedPath kTracedPath;  // trace/src/tracer.hpp
}

namespace trace_short_way_test {

using namespace qm;
using namespace qm::trace;
using wire::Operation;

/// Whether the image knows which frames are the allocator's: then both ways have the same stacks, and the short way is
/// also taken for new stacks.
#if defined(QM_TARGET) && defined(__OPTIMIZE__)
constexpr bool kTakesShortWay = !kChecked;
#else
constexpr bool kTakesShortWay = false;
#endif

/// Forwards to the trace, and counts the operations.
class CountingObserver final : public Observer {
 public:
  void prepare(const Allocation& a, void* object, Prepared& p) noexcept override { trace->prepare(a, object, p); }
  bool record(const Allocation& a, void* object, Prepared& p) noexcept override {
    ++allocations;
    return trace->record(a, object, p);
  }
  void release(Prepared& p) noexcept override { trace->release(p); }
  void forget(Cache& cache, void* object) noexcept override {
    ++frees;
    trace->forget(cache, object);
  }
  void forget(Arena& arena, std::uintptr_t start) noexcept override { trace->forget(arena, start); }
  void resized(Arena& arena, std::uintptr_t start, std::size_t size, std::size_t former) noexcept override {
    trace->resized(arena, start, size, former);
  }
  void release_handles(std::uint32_t* handles, std::size_t count) noexcept override {
    trace->release_handles(handles, count);
  }
  void created(Cache& cache) noexcept override { trace->created(cache); }
  void destroyed(Cache& cache) noexcept override { trace->destroyed(cache); }
  void destroyed(Arena& arena) noexcept override { trace->destroyed(arena); }

  Observer* trace = nullptr;
  unsigned allocations = 0;
  unsigned frees = 0;
};

[[gnu::noinline]] void* allocate_deep(Cache& cache, unsigned depth) {
  void* object = depth == 0 ? cache.allocate() : allocate_deep(cache, depth - 1);
  asm volatile("" : : : "memory");
  return object;
}

constexpr unsigned kObjects = 6;
struct Told {
  wire::Event event;
  wire::Definition stack;
};

class ShortWay : public test::TraceTest {
 protected:
  void SetUp() override {
    TraceTest::SetUp();
    cache = make("packet");
    counting.trace = observer();
    give(take());  // now the magazine has the objects
  }

  /// Allocations with different data in their events; the last two have the same stack.
  [[gnu::noinline]] unsigned take() {
    void** next = objects;
    *next++ = test::allocate_by<1>(*cache);
    *next++ = test::allocate_by<2>(*cache);
    *next++ = allocate_deep(*cache, kStackDepth + 8);
    *next++ = QM_ALLOC(cache->allocate, 40, WaitPolicy::kAtomic);
    for (unsigned i = 0; i < 2; ++i) *next++ = test::allocate_by<3>(*cache);
    return static_cast<unsigned>(next - objects);
  }
  void give(unsigned count) {
    while (count != 0) cache->free(objects[--count]);
  }

  /// Uses @p path from here on, with counts from 0.
  void go_by(const TracedPath& path) {
    static_assert(std::size(Told{}.stack.frames) >= kStackDepth);
    set_observer(&counting, path);
    counting.allocations = counting.frees = 0;
  }
  /// Expects that the traced path left almost nothing to the slow halves: only operations that find a magazine empty or
  /// full and, with @p is_first, a new context.
  void expect_short_way(bool is_first = false) const {
    if (!kTakesShortWay) return;
    EXPECT_LE(counting.allocations, is_first ? 2u : 1u);
    EXPECT_LE(counting.frees, 1u);
  }

  void begin_stream() { ASSERT_EQ(start_stream({.pattern = "packet"}).status, Status::kOk); }
  /// Stops the stream and reads the events of each object's allocation, then those of the frees, in reverse order.
  void end_stream_of(Told (&told)[2 * kObjects]) {
    ASSERT_EQ(stop_stream().status, Status::kOk);
    for (unsigned i = 0; i < 2 * kObjects; ++i) {
      ASSERT_TRUE(next_event(0, told[i].event)) << i;
      EXPECT_EQ(told[i].event.hart_number, i);
      EXPECT_EQ(told[i].event.global_number, i);
      const bool is_free = i >= kObjects;
      EXPECT_TRUE(told[i].event.operation == (is_free ? Operation::kFree : Operation::kAllocate)) << i;
      EXPECT_EQ(told[i].event.address, reinterpret_cast<std::uintptr_t>(objects[is_free ? 2 * kObjects - 1 - i : i]));
      EXPECT_EQ(define_stack(told[i].event.stack, told[i].stack), !is_free);
    }
    wire::Event none;
    EXPECT_FALSE(next_event(0, none));
    EXPECT_EQ(hart_statistic(0).lost, 0u);
    end_stream();
  }

  static void expect_same(const Told& left, const Told& right, unsigned at) {
    EXPECT_EQ(left.event.source, right.event.source) << at;
    EXPECT_EQ(left.event.requested, right.event.requested) << at;
    EXPECT_EQ(left.event.allocated, right.event.allocated) << at;
    EXPECT_EQ(left.event.flags, right.event.flags) << at;
    EXPECT_EQ(left.event.context, right.event.context) << at;
    EXPECT_EQ(left.event.call_site, right.event.call_site) << at;
    if (!kTakesShortWay || at >= kObjects) return;
    EXPECT_EQ(left.event.stack, right.event.stack) << at;
    EXPECT_EQ(left.stack.truncated, right.stack.truncated) << at;
    ASSERT_EQ(left.stack.depth, right.stack.depth) << at;
    EXPECT_TRUE(std::equal(left.stack.frames, left.stack.frames + left.stack.depth, right.stack.frames)) << at;
  }

  Cache* cache = nullptr;
  void* objects[kObjects] = {};
  CountingObserver counting;
};

TEST_F(ShortWay, events_of_new_and_of_known_stacks_are_those_of_the_slow_way) {
  static Told told[3][2 * kObjects];
  const TracedPath* const ways[] = {&kTracedPath, &kTracedPath, &kNoTracedPath};
  for (unsigned way = 0; way < std::size(ways); ++way) {
    go_by(*ways[way]);
    begin_stream();
    ASSERT_EQ(take(), kObjects);
    give(kObjects);
    end_stream_of(told[way]);
    if (ways[way] == &kTracedPath) {
      expect_short_way(way == 0);
    } else {
      EXPECT_GE(counting.allocations, kObjects);
      EXPECT_EQ(counting.frees, kObjects);
    }
    for (unsigned i = 0; i < 2 * kObjects; ++i) expect_same(told[0][i], told[way][i], i);
  }
  EXPECT_TRUE(told[0][2].stack.truncated);
  EXPECT_EQ(told[0][2].stack.depth, kStackDepth);
  EXPECT_TRUE(told[0][3].event.flags == wire::kAtomic && told[0][3].event.requested == 40);
}

TEST_F(ShortWay, a_stream_that_comes_and_goes_leaves_records_and_counts_as_they_are) {
  const Keeping ways[] = {{}, {.every = 1, .counts = true}};
  static Told told[2 * kObjects];
  for (const Keeping& keeping : ways) {
    go_by(kTracedPath);
    void* before[2 * kObjects];
    ASSERT_EQ(trace::start("packet", nullptr, hal::kBroadcastDeadlineMs, keeping).status, Status::kOk);
    ASSERT_EQ(take(), kObjects);
    std::copy(objects, objects + kObjects, before);
    begin_stream();
    ASSERT_EQ(take(), kObjects);
    EXPECT_EQ(cache_trace(*cache).live, 2 * kObjects);
    give(kObjects);
    EXPECT_EQ(cache_trace(*cache).live, kObjects);
    end_stream_of(told);
    go_by(kTracedPath);
    ASSERT_EQ(take(), kObjects);  // recorded, and no longer in the stream
    EXPECT_EQ(cache_trace(*cache).live, 2 * kObjects);
    std::copy(objects, objects + kObjects, before + kObjects);
    for (void* object : before) cache->free(object);
    expect_short_way();
    EXPECT_EQ(cache_trace(*cache).live, 0u);
    EXPECT_EQ(cache_trace(*cache).figures.recorded, 3 * kObjects);
    EXPECT_TRUE(validate());
    ASSERT_EQ(trace::stop("packet").status, Status::kOk);
    ASSERT_EQ(trace::reset("packet").status, Status::kOk);
    EXPECT_EQ(cache->state().load(), 0u);
  }
  EXPECT_TRUE(cache->validate());
}

TEST_F(ShortWay, a_free_without_a_record_is_reported_where_others_have_one) {
  ASSERT_EQ(take(), kObjects);
  go_by(kTracedPath);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  begin_stream();
  give(kObjects);
  ASSERT_EQ(stop_stream().status, Status::kOk);
  wire::Event event;
  for (unsigned i = kObjects; i != 0; --i) {
    ASSERT_TRUE(next_event(0, event));
    EXPECT_TRUE(event.operation == Operation::kFree);
    EXPECT_EQ(event.address, reinterpret_cast<std::uintptr_t>(objects[i - 1]));
  }
  EXPECT_FALSE(next_event(0, event));
}

TEST_F(ShortWay, what_begins_within_an_object_is_refused_while_recording_and_after_a_stop) {
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* const object = test::allocate_by<1>(*cache);
  void* const beside = static_cast<char*>(object) + 4;
  cache->free(beside);
  EXPECT_EQ(cache->stats().misuses, 1u);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  cache->free(beside);
  EXPECT_EQ(cache->stats().misuses, 2u);
  EXPECT_EQ(cache_trace(*cache).live, 1u);
  cache->free(object);
  EXPECT_EQ(cache_trace(*cache).live, 0u);
  EXPECT_EQ(cache->stats().misuses, 2u);
}

TEST_F(ShortWay, what_lies_in_no_slab_of_the_cache_is_refused_while_recording_and_after_a_stop) {
  alignas(64) static std::byte elsewhere[128];
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* const object = test::allocate_by<1>(*cache);
  cache->free(elsewhere + 64);
  EXPECT_EQ(cache->stats().misuses, 1u);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  cache->free(elsewhere + 64);
  EXPECT_EQ(cache->stats().misuses, 2u);
  cache->free(object);
  EXPECT_EQ(cache_trace(*cache).live, 0u);
  EXPECT_TRUE(cache->validate());
}

TEST_F(ShortWay, in_batches_magazines_and_free_records_are_exchanged_on_the_way) {
  static void* batch[100];
  const auto fill = [&] {
    for (void*& object : batch) object = test::allocate_by<1>(*cache);
  };
  const auto drain = [&] {
    for (void* object : batch) cache->free(object);
  };
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  for (unsigned i = 0; i < 20; ++i) fill(), drain();  // afterwards there are enough slabs, magazines and slots
  go_by(kTracedPath);
  fill();
  EXPECT_EQ(cache_trace(*cache).live, std::size(batch));
  drain();
  EXPECT_EQ(cache_trace(*cache).live, 0u);
  fill();
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  drain();
  EXPECT_EQ(cache->state().load(), 0u);  // the watching ended with the last record
  EXPECT_TRUE(cache->validate());
  if (!kTakesShortWay) return;
  EXPECT_LE(counting.allocations, 0u);
  EXPECT_LE(counting.frees, 0u);
}

TEST_F(ShortWay, goes_on_without_room_for_stacks_and_tells_an_event_without_one) {
  begin_again({.stack_bytes = 256});
  cache = make("packet");
  give(take());
  begin_stream();
  ASSERT_EQ(take(), kObjects);
  give(kObjects);
  ASSERT_EQ(stop_stream().status, Status::kOk);
  unsigned events = 0, without = 0;
  for (wire::Event event; next_event(0, event); ++events) {
    EXPECT_EQ(event.hart_number, events);
    without += event.operation == Operation::kAllocate && event.stack == 0 ? 1 : 0;
  }
  EXPECT_EQ(events, 2 * kObjects);
  EXPECT_GT(without, 0u);
  EXPECT_LT(without, kObjects);
}

}  // namespace trace_short_way_test
