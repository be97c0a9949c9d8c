#include "stream_merge.hpp"

#include <algorithm>

namespace qm::host {
namespace {

// The fewest bytes of an event in a ring of the device.
constexpr std::size_t kLeastRingBytes = 32;
constexpr std::size_t kLeastWindow = 4096;
// The need of 8 harts with rings of 4 MiB: 200 MB. A header may falsely claim larger rings.
constexpr std::size_t kMostWindow = std::size_t{1} << 21;

/// Fills in the sizes that the stream omits: for a cache the size of its objects, for a segment the requested size,
/// rounded up.
void fill_sizes(const wire::Event& from, const Traceable* of, Event& event) noexcept {
  const bool is_free = from.operation == wire::Operation::kFree;
  if (!is_free)
    event.requested = from.requested != wire::kSourceSize ? from.requested : of != nullptr ? of->object_bytes : 0;
  if (from.allocated != wire::kSourceSize) {
    event.allocated = from.allocated;
  } else if (of == nullptr || (of->arena && is_free)) {
    event.allocated = 0;
  } else if (!of->arena) {
    event.allocated = of->allocated_bytes;
  } else {
    event.allocated = wire::segment_bytes(event.requested, of->object_bytes, of->allocated_bytes);
  }
}

}  // namespace

void StreamMerge::grow_to(std::uint32_t harts) {
  if (harts_.size() >= harts) return;
  Hart fresh;
  fresh.mode = mode_;
  fresh.sample_bytes = sample_bytes_;
  harts_.resize(harts, fresh);
}

void StreamMerge::set_harts(std::uint32_t harts, std::uint32_t ring_bytes) {
  grow_to(harts);
  // Events of a ring that is drained first may arrive before those of a ring that is drained next, which fills
  // meanwhile.
  window_ = std::clamp(std::size_t{2} * harts * (ring_bytes / kLeastRingBytes), kLeastWindow, kMostWindow);
}

void StreamMerge::set_mode(wire::StreamMode mode, std::uint64_t sample_bytes) {
  mode_ = mode;
  sample_bytes_ = sample_bytes;
  for (Hart& each : harts_) {
    each.mode = mode;
    each.sample_bytes = sample_bytes;
  }
}

StreamMerge::Hart& StreamMerge::hart(std::uint32_t index) {
  grow_to(index + 1);
  return harts_[index];
}

std::uint64_t StreamMerge::unwrapped(std::uint32_t number) noexcept {
  if (!has_highest_) {
    has_highest_ = true;
    highest_ = number;
  }
  const auto ahead = static_cast<std::int32_t>(number - static_cast<std::uint32_t>(highest_));
  const std::uint64_t result = highest_ + static_cast<std::uint64_t>(static_cast<std::int64_t>(ahead));
  highest_ = ahead > 0 ? result : highest_;
  return result;
}

void StreamMerge::put_note(Hart& hart, Item::What what, std::uint32_t index, std::uint64_t count, std::uint64_t number,
                           std::uint64_t ticks) {
  Item& item = hart.queue.emplace_back();
  item.what = what;
  item.event.hart = static_cast<std::uint16_t>(index);
  item.event.number = number;
  item.event.ticks = ticks;
  item.event.requested = count;
  ++waiting_;
}

void StreamMerge::begin_frame(std::uint32_t index, std::uint64_t hart_number) {
  Hart& of = hart(index);
  if (hart_number < of.expected) {
    ++misplaced_;
  } else if (hart_number > of.expected) {
    missing_[index] += hart_number - of.expected;
    put_note(of, Item::What::kMissing, index, hart_number - of.expected, of.last_number, 0);
  }
  of.expected = hart_number;
}

void StreamMerge::put(const wire::Event& from, const Definitions& definitions) {
  Hart& of = hart(from.hart);
  if (from.operation == wire::Operation::kLost) {
    of.expected += from.lost;
    overruns_[from.hart] += from.lost;
    return put_note(of, Item::What::kOverrun, from.hart, from.lost, of.last_number, from.ticks);
  }
  if (from.operation == wire::Operation::kMode) {
    of.mode = from.mode;
    of.sample_bytes = from.sample_bytes;
    put_note(of, Item::What::kMode, from.hart, from.sample_bytes, of.last_number, from.ticks);
    of.queue.back().event.flags = static_cast<std::uint32_t>(from.mode);
    return;
  }
  const std::uint64_t number = unwrapped(from.global_number);
  if (of.has_number && number <= of.last_number) ++misplaced_;
  of.has_number = true;
  of.last_number = number;
  ++of.expected;
  ++of.arrived;
  Item& item = of.queue.emplace_back();
  ++waiting_;
  Event& event = item.event;
  const bool moves = from.operation == wire::Operation::kReallocate;
  const std::uint32_t traceable = moves ? from.new_source : from.source;
  const auto found = definitions.traceables.find(traceable);
  const Traceable* known = found != definitions.traceables.end() ? &found->second : nullptr;
  event.number = number;
  event.ticks = from.ticks;
  event.address = moves ? from.new_address : from.address;
  event.old_address = moves ? from.address : 0;
  fill_sizes(from, known, event);
  event.traceable = traceable;
  event.old_traceable = moves ? from.source : 0;
  event.stack = from.stack;
  event.call_site = from.call_site;
  event.context = from.context;
  event.flags = from.flags;
  event.hart = static_cast<std::uint16_t>(from.hart);
  event.operation = static_cast<Operation>(from.operation);
  event.kind = known != nullptr ? known->kind : EventKind::kCache;
  if (of.mode == wire::StreamMode::kSampled) {
    const bool of_cache = known != nullptr && !known->arena;
    event.weight = wire::sample_weight(of_cache ? known->object_bytes : event.allocated, of.sample_bytes);
  }
}

StreamMerge::Hart* StreamMerge::least() noexcept {
  Hart* found = nullptr;
  for (Hart& each : harts_) {
    if (each.queue.empty()) continue;
    if (found == nullptr || each.queue.front().event.number < found->queue.front().event.number) found = &each;
  }
  return found;
}

void StreamMerge::deliver() {
  for (;;) {
    Hart* const first = least();
    if (first == nullptr) return;
    const bool follows = has_next_ && first->queue.front().event.number <= next_;
    if (!follows && waiting_ <= window_ &&
        std::any_of(harts_.begin(), harts_.end(), [](const Hart& each) { return each.queue.empty(); })) {
      return;
    }
    deliver_first_of(*first);
  }
}

void StreamMerge::flush() {
  while (Hart* const first = least()) deliver_first_of(*first);
}

void StreamMerge::deliver_first_of(Hart& of) {
  const Item item = of.queue.front();
  of.queue.pop_front();
  --waiting_;
  const Event& event = item.event;
  switch (item.what) {
    case Item::What::kEvent:
      if (has_next_ && event.number <= last_delivered_) ++misplaced_;
      next_ = event.number + 1;
      has_next_ = true;
      last_delivered_ = event.number;
      handler_.on_event(event);
      return;
    case Item::What::kOverrun:
    case Item::What::kMissing:
      handler_.on_gap({item.what == Item::What::kOverrun ? Missing::kOverrun : Missing::kLine, event.hart,
                       event.requested, event.number});
      return;
    case Item::What::kMode:
      handler_.on_mode({static_cast<StreamMode>(event.flags), event.requested, event.hart, event.ticks, event.number});
      return;
  }
}

void StreamMerge::settle(const Statistics& final) {
  flush();
  for (const auto& [index, counters] : final.harts) {
    if (index >= kMostHarts) continue;
    Hart& of = hart(index);
    const std::uint64_t noted = overruns_.contains(index) ? overruns_[index] : 0;
    if (counters.overruns > noted) {
      overruns_[index] = counters.overruns;
      of.expected += counters.overruns - noted;
      handler_.on_gap(
          {Missing::kOverrun, static_cast<std::uint16_t>(index), counters.overruns - noted, of.last_number});
    }
    const std::uint64_t all = counters.events + counters.overruns;
    if (all > of.expected) {
      missing_[index] += all - of.expected;
      handler_.on_gap({Missing::kLine, static_cast<std::uint16_t>(index), all - of.expected, of.last_number});
      of.expected = all;
    }
  }
}

}  // namespace qm::host
