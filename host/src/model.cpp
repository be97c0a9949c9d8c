#include <qm/host/model.hpp>

#include <algorithm>
#include <string>

namespace qm::host {
namespace {

// Number of freed objects that are remembered, in addition to as many as are live.
constexpr std::size_t kFreedKept = 65536;

}  // namespace

const char* name(Misfit misfit) noexcept {
  switch (misfit) {
    case Misfit::kNone: return "none";
    case Misfit::kUnknown: return "free of an unknown object";
    case Misfit::kDoubleFree: return "double free";
    case Misfit::kWrongCache: return "free to another cache";
    case Misfit::kStillOut: return "allocation of an object that is out";
  }
  return "unknown";
}

const Traceable* Model::find(std::uint32_t traceable) const noexcept {
  const auto found = definitions_.traceables.find(traceable);
  return found != definitions_.traceables.end() ? &found->second : nullptr;
}

bool Model::is_arena(std::uint32_t traceable) const noexcept {
  const Traceable* const of = find(traceable);
  return of != nullptr && of->arena;
}

/// @returns the cache, other than a quantum cache, that has a live object at @p address; 0: none.
std::uint32_t Model::cache_that_has(std::uint64_t address) const noexcept {
  for (const auto& [number, of] : definitions_.traceables) {
    const Traceable* const parent = find(of.parent);
    const bool quantum_cache = parent != nullptr && of.name == parent->name + "_" + std::to_string(of.object_bytes);
    if (!of.arena && !quantum_cache && live_.contains({address, number})) return number;
  }
  return 0;
}

Model::Step Model::apply(const Event& event) {
  Step step;
  ++events_;
  ++harts_[event.hart].events;
  Counters& counters = traceables_[event.traceable];
  switch (event.operation) {
    case Operation::kAllocate:
      ++counters.allocations;
      take(event, step);
      break;
    case Operation::kFree:
      ++counters.frees;
      give_back(event, {event.address, event.traceable}, step);
      counters.freed += is_arena(event.traceable) ? step.before.allocated : event.allocated;
      break;
    case Operation::kReallocate:
      ++counters.reallocations;
      give_back(event, {event.old_address, event.old_traceable}, step);
      if (const Traceable* left = find(event.old_traceable); left != nullptr) {
        traceables_[event.old_traceable].freed += left->arena ? step.before.allocated : left->allocated_bytes;
      }
      take(event, step);
      break;
  }
  if (event.operation == Operation::kFree) return step;
  counters.requested += event.requested;
  counters.allocated += event.allocated;
  return step;
}

void Model::take(const Event& event, Step& step) {
  const Key key{event.address, event.traceable};
  const auto [place, fresh] = live_.try_emplace(key);
  if (!fresh) {
    step.misfit = Misfit::kStillOut;
    live_bytes_ -= place->second.allocated;
  }
  place->second = {event.address, event.requested, event.allocated, event.ticks, event.number, event.traceable,
                   event.stack,   event.call_site, event.context,   event.hart,  event.weight};
  live_bytes_ += event.allocated;
  freed_.erase(key);
}

void Model::give_back(const Event& event, Key key, Step& step) {
  auto found = live_.find(key);
  if (found == live_.end()) {
    const std::uint32_t other = is_arena(key.traceable) || freed_.contains(key) ? 0 : cache_that_has(key.address);
    step.misfit = freed_.contains(key) ? Misfit::kDoubleFree : other != 0 ? Misfit::kWrongCache : Misfit::kUnknown;
    if (step.misfit == Misfit::kUnknown) ++unknown_[key.traceable];
    remember_freed(key, event.number);
    if (step.misfit != Misfit::kWrongCache) return;
    found = live_.find({key.address, other});
  }
  step.had_object = true;
  step.before = found->second;
  step.crossed = found->second.hart != event.hart;
  if (event.operation == Operation::kFree) crossed_ += step.crossed ? 1 : 0;
  live_bytes_ -= found->second.allocated;
  const Key left = found->first;
  live_.erase(found);
  remember_freed(left, event.number);
}

/// Remembers a freed object, known or not. If there are too many, forgets the older half.
void Model::remember_freed(Key key, std::uint64_t event_number) {
  freed_[key] = event_number;
  if (freed_.size() <= kFreedKept + 2 * live_.size()) return;
  std::uint64_t oldest = ~std::uint64_t{0}, youngest = 0;
  for (const auto& each : freed_) {
    oldest = std::min(oldest, each.second);
    youngest = std::max(youngest, each.second);
  }
  const std::uint64_t middle = oldest + (youngest - oldest) / 2;
  std::erase_if(freed_, [&](const auto& each) { return each.second <= middle; });
}

}  // namespace qm::host
