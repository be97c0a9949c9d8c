#include "synthetic.hpp"

#include <algorithm>

namespace qm::test {

using host::Event;
using host::EventKind;
using host::Operation;

Synthetic::Synthetic(const SyntheticOptions& options) : options_(options), random_(options.seed) { define(); }

void Synthetic::define() {
  host::StreamHeader& header = definitions_.header;
  header.schema_major = 1;
  header.stream = options_.stream;
  header.boot = options_.boot;
  header.mode = options_.mode;
  header.pattern = "*";
  header.pointer_bytes = options_.pointer_bytes;
  header.harts = options_.harts;
  header.ticks_per_second = 10'000'000;
  header.start_ticks = ticks_;
  header.build_id = "00112233445566778899aabbccddeeff00112233";
  header.from_boot = true;
  const std::uint32_t heap = options_.caches + 1;
  definitions_.traceables[heap] = {heap, EventKind::kHeap, true, "kheap", 16, 16, 0, host::Traceable::kNoParent};
  definitions_.traceables[heap + 1] = {heap + 1, EventKind::kArena,         true, "kpages", 4096, 4096,
                                       0,        host::Traceable::kNoParent};
  for (std::uint32_t id = 1; id <= options_.caches; ++id) {
    const std::uint64_t bytes = std::uint64_t{16} << (id - 1) % 10;
    definitions_.traceables[id] = {id, EventKind::kCache, false, "cache_" + std::to_string(id), bytes, bytes,
                                   0,  heap + 1};
  }
  for (std::uint32_t number = 0; number < options_.stacks; ++number) {
    // Stacks share their outer frames, as in a real program.
    host::Stack stack;
    for (std::uint32_t level = 0; level < options_.depth; ++level) {
      const std::uint64_t inner = options_.depth - level;
      stack.frames.push_back(options_.base_pc + 4 * (level * 64 + number % (1 + inner * 4)));
    }
    stack.frames.front() = options_.base_pc + 4 * (std::uint64_t{4096} + number);
    stack.id = 0x9e3779b9U * (number + 1);
    definitions_.stacks[number + 1] = std::move(stack);
  }
  for (std::uint32_t hart = 0; hart < options_.harts; ++hart)
    definitions_.contexts[hart + 1] = "task worker-" + std::to_string(hart);
  for (std::uint32_t hart = 0; hart < options_.harts; ++hart) statistics_.harts[hart] = {};
}

void Synthetic::deliver(host::EventHandler& handler) {
  handler.on_header(definitions_);
  for (std::uint64_t count = 0; count < options_.events; ++count) {
    handler.on_event(next_event());
    if (options_.statistics_every != 0 && (count + 1) % options_.statistics_every == 0)
      handler.on_statistics(statistics_);
  }
  statistics_.final = true;
  const std::uint64_t stop_ticks = ticks_ + options_.quiet_ticks;
  statistics_.ticks = stop_ticks + options_.drain_ticks;
  handler.on_statistics(statistics_);
  handler.on_stream_end(stop_ticks);
  handler.on_end({});
}

Event Synthetic::next_event() {
  Event event;
  event.number = number_++;
  ticks_ += random_.below(20);
  event.ticks = ticks_;
  event.hart = static_cast<std::uint16_t>(random_.below(options_.harts));
  event.context = event.hart + 1u;
  const bool grow = live_.empty() || random_.below(2 * std::uint64_t{options_.live}) >= live_.size();
  if (grow) {
    allocate(event);
  } else if (random_.chance(5) && live_.back().traceable > options_.caches) {
    reallocate(event);
  } else {
    free(event);
  }
  ++statistics_.harts[event.hart].events;
  statistics_.ticks = ticks_;
  return event;
}

void Synthetic::allocate(Event& event) {
  Object object;
  const bool heap = random_.chance(20);
  object.traceable = heap ? options_.caches + 1 : 1 + static_cast<std::uint32_t>(random_.below(options_.caches));
  const std::uint64_t size = definitions_.traceables[object.traceable].object_bytes;
  object.requested = heap ? 1 + random_.below(2000) : size;
  object.allocated = heap ? (object.requested + 15) / 16 * 16 : size;
  object.address = take_address(object.allocated);
  event.operation = Operation::kAllocate;
  event.kind = heap ? EventKind::kHeap : EventKind::kCache;
  event.traceable = object.traceable;
  event.address = object.address;
  event.requested = object.requested;
  event.allocated = object.allocated;
  event.stack = 1 + static_cast<std::uint32_t>(random_.below(options_.stacks));
  host::Counters& counters = statistics_.traceables[object.traceable];
  ++counters.allocations;
  counters.requested += object.requested;
  counters.allocated += object.allocated;
  live_.push_back(object);
}

void Synthetic::free(Event& event) {
  std::swap(live_[random_.below(live_.size())], live_.back());
  const Object object = live_.back();
  live_.pop_back();
  free_addresses_[object.allocated].push_back(object.address);
  event.operation = Operation::kFree;
  event.kind = definitions_.traceables[object.traceable].kind;
  event.traceable = object.traceable;
  event.address = object.address;
  event.allocated = definitions_.traceables[object.traceable].arena ? 0 : object.allocated;
  host::Counters& counters = statistics_.traceables[object.traceable];
  ++counters.frees;
  counters.freed += object.allocated;
}

void Synthetic::reallocate(Event& event) {
  Object& object = live_.back();
  event.operation = Operation::kReallocate;
  event.kind = EventKind::kHeap;
  event.traceable = object.traceable;
  event.old_address = object.address;
  event.old_traceable = object.traceable;
  host::Counters& counters = statistics_.traceables[object.traceable];
  ++counters.reallocations;
  counters.freed += object.allocated;
  free_addresses_[object.allocated].push_back(object.address);
  object.requested = 1 + random_.below(4000);
  object.allocated = (object.requested + 15) / 16 * 16;
  object.address = take_address(object.allocated);
  counters.requested += object.requested;
  counters.allocated += object.allocated;
  event.address = object.address;
  event.requested = object.requested;
  event.allocated = object.allocated;
  event.stack = 1 + static_cast<std::uint32_t>(random_.below(options_.stacks));
}

/// Addresses are reused, the last freed one first.
std::uint64_t Synthetic::take_address(std::uint64_t bytes) {
  std::vector<std::uint64_t>& free = free_addresses_[bytes];
  if (!free.empty()) {
    const std::uint64_t address = free.back();
    free.pop_back();
    return address;
  }
  const std::uint64_t address = next_address_;
  next_address_ += bytes;
  return address;
}

}  // namespace qm::test
