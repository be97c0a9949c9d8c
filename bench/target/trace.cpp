/// The cost of tracing: before the trace is open, off, on, after a stop with records left, after the last record is
/// gone, after a reset. Pairs come from 50 call stacks of depth 8 in rotation.

#include <array>
#include <utility>

#include <qm/bench/harts.hpp>
#include <qm/bench/path.hpp>
#include <qm/bench/subjects.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/qm.h>
#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/unwind.hpp>

namespace qm::bench {
namespace {

constexpr unsigned kStacks = 50;
constexpr unsigned kDepth = 8;
constexpr unsigned kPairs = 1000;
constexpr unsigned kBatch = 100;

Cache* cache;
Distribution mallocs, frees;
unsigned depth_seen;
Path* allocation;  ///< for the profile: the path of the next operations
Path* release;

bool in_c = false;  ///< whether pairs go through the C interface

/// One of 50 functions that allocate.
template <bool kInC, unsigned N>
[[gnu::noinline]] void* allocate_here() {
  void* object = nullptr;
  Cache& own = *cache;
  const unsigned long cost = measure([&] {
    if constexpr (kInC) {
      object = qm_cache_alloc(reinterpret_cast<qm_cache*>(&own), 0);
    } else {
      object = own.allocate();
    }
  });
  allocation->add(cost);
  mallocs.add(cost);
  return object;
}

using Site = void* (*)();
template <bool kInC, unsigned... N>
constexpr std::array<Site, sizeof...(N)> make_sites(std::integer_sequence<unsigned, N...>) {
  return {&allocate_here<kInC, N>...};
}
template <bool kInC>
constexpr std::array<Site, kStacks> sites = make_sites<kInC>(std::make_integer_sequence<unsigned, kStacks>());

/// Calls itself until @p frames more frames are on the stack.
[[gnu::noinline]] void* descend(unsigned frames, unsigned site) {
  if (frames != 0) {
    void* object = descend(frames - 1, site);
    asm volatile("" : "+r"(object));  // keeps the call from becoming a jump
    return object;
  }
  trace::CallStack stack;
  if (depth_seen == 0) {
    trace::walk_here(stack);
    depth_seen = stack.depth + 1;  // plus the frame of the site
  }
  return (in_c ? sites<true> : sites<false>)[site]();
}

unsigned frames_below = 0;  ///< frames to add so that the whole stack has depth kDepth

void* allocate_from(unsigned site) { return descend(frames_below, site % kStacks); }

void free_measured(void* object) {
  Cache& own = *cache;
  const unsigned long cost = in_c ? measure([&] { qm_cache_free(reinterpret_cast<qm_cache*>(&own), object); })
                                  : measure([&] { own.free(object); });
  release->add(cost);
  frees.add(cost);
}

[[gnu::noinline]] void measure_pairs(unsigned pairs) {
  mallocs = frees = {};
  for (unsigned i = 0; i < pairs; ++i) {
    void* object = allocate_from(i);
    free_measured(object);
  }
}

/// Allocates kBatch objects, then frees them in the same order.
[[gnu::noinline]] void measure_batches(unsigned batches) {
  mallocs = frees = {};
  std::array<void*, kBatch> objects;
  for (unsigned batch = 0; batch < batches; ++batch) {
    for (unsigned i = 0; i < kBatch; ++i) objects[i] = allocate_from(i);
    for (void* object : objects) free_measured(object);
  }
}

void row(std::string_view state) {
  Row(state).number("harts", harts()).distribution("malloc", mallocs).distribution("free", frees);
}

void show(std::string_view state) {
  // Both passes run from one place, so that the stacks are the same; after the first pass all one-time work is done.
  for (unsigned pairs = 2 * kStacks; pairs <= kPairs; pairs += kPairs - 2 * kStacks) {
    asm volatile("" : "+r"(pairs));
    measure_pairs(pairs);
  }
  row(state);
}

void show_batches(std::string_view state) {
  for (unsigned batches = 10; batches <= 20; batches += 10) {
    asm volatile("" : "+r"(batches));  // as in show()
    measure_batches(batches);
  }
  row(state);
}

void require(const trace::CommandResult& result) {
  if (result.status != Status::kOk) firmware::panic("bench: a trace command failed");
}

void stopped_with_records(Path* rest, Path* recorded) {
  std::array<void*, kBatch> traced;
  for (unsigned i = 0; i < traced.size(); ++i) traced[i] = allocate_from(i);
  require(trace::stop("bench"));
  allocation = rest;
  if (trace::cache_trace(*cache).live != traced.size()) firmware::panic("bench: records are missing");
  show("stopped, records left");
  frees = {};
  release = recorded;
  for (void* object : traced) free_measured(object);
  release = rest;
  Row("stopped, a recorded object").number("harts", harts()).distribution("free", frees);
}

/// With settings that keep less than a record of each object.
void kept_less(std::string_view state, const trace::Keeping& keeping, Path* allocations, Path* releases) {
  require(trace::start("bench", nullptr, hal::kBroadcastDeadlineMs, keeping));
  allocation = allocations;
  release = releases;
  show(state);
  require(trace::stop("bench"));
}

/// With the event stream on and no reader: the rings have room for all events.
void streamed(Path* allocations, Path* releases) {
  if (trace::set_ring_bytes(std::size_t{1} << 20) != Status::kOk) firmware::panic("bench: no rings");
  require(trace::start_stream({.pattern = "bench"}));
  allocation = allocations;
  release = releases;
  show("events, known stacks");
  require(trace::stop_stream());
  if (trace::stream_figures().lost != 0) firmware::panic("bench: events were lost");
  trace::end_stream();
}

trace::EventRing ring;
std::array<trace::RingEntry, 2048> entries;
std::atomic<std::uint32_t> numbers{0};

/// The cost that writing an event adds to an operation: its words, number and time go into the ring.
void written() {
  ring.initialize(entries, wire::StreamMode::kFull);
  Distribution writes;
  for (unsigned i = 0; i < kPairs; ++i) {
    writes.add(measure([&] {
      ring.put(i, reinterpret_cast<std::uintptr_t>(&ring), i, i, i, numbers,
               static_cast<std::uint32_t>(hal::Port::ticks()));
    }));
  }
  Row("an event").number("harts", harts()).distribution("write", writes);
}

}  // namespace

void run() {
  CacheSubject subject(64);
  cache = subject.cache;
  Path rest("no record", "cache", Path::Rows::kNone);
  allocation = release = &rest;
  cache->free(allocate_from(0));
  frames_below = kDepth - depth_seen;
  show("never");
  const std::uintptr_t memory = firmware::boot_info().memory.front().low & ~std::uintptr_t{0xffffff};
  if (trace::initialize({.object_base = memory}) != Status::kOk) firmware::panic("bench: no trace");
  show("off");
  show_batches("off, batches");
  require(trace::start("bench"));
  constexpr auto kNone = Path::Rows::kNone;
  Path new_stack("allocate: on, new stack", "cache", kNone), known("allocate: on, known stack", "cache", kNone);
  Path on("free: on", "cache", kNone), watched("free: stopped, no record of it", "cache", kNone);
  Path recorded("free: stopped, recorded", "cache", kNone);
  allocation = &new_stack;
  release = &on;
  measure_pairs(kStacks);
  row("on, new stacks");
  allocation = &known;
  show("on, known stacks");
  Path batched("allocate: on, batch", "cache", kNone), unbatched("free: on, batch", "cache", kNone);
  allocation = &batched;
  release = &unbatched;
  show_batches("on, batches");
  allocation = &known;
  release = &watched;
  stopped_with_records(&rest, &recorded);
  show("stopped, no record left");
  require(trace::start("bench"));
  void* kept = allocate_from(0);
  require(trace::stop("bench"));
  require(trace::reset("bench"));
  show("reset");
  cache->free(kept);
  Path counted("allocate: counts", "cache", kNone), uncounted("free: counts", "cache", kNone);
  kept_less("counts, known stacks", {.every = 1, .counts = true}, &counted, &uncounted);
  Path sampled("allocate: sampled", "cache", kNone), unsampled("free: sampled", "cache", kNone);
  kept_less("sampled, 1 in 100", {.every = 100, .counts = false}, &sampled, &unsampled);
  Path told("allocate: events", "cache", kNone), untold("free: events", "cache", kNone);
  streamed(&told, &untold);
  written();
  in_c = true;
  allocation = release = &rest;
  show("off, in C");
  require(trace::start("bench"));
  show("on, known stacks, in C");
}

}  // namespace qm::bench
