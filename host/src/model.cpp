#include <qm/host/model.hpp>

#include <algorithm>

namespace qm::host {
namespace {

// Freed objects that are remembered beyond as many as are out.
constexpr std::size_t kFreedKept = 65536;

}  // namespace

const char* name(Misfit misfit) noexcept {
  switch (misfit) {
    case Misfit::kNone: return "none";
    case Misfit::kUnknown: return "free of an unknown object";
    case Misfit::kDoubleFree: return "double free";
    case Misfit::kWrongCache: return "free to another cache";
    case Misfit::kWrongSize: return "free of another size";
    case Misfit::kStillOut: return "allocation of an object that is out";
  }
  return "unknown";
}

bool Model::is_arena(std::uint32_t traceable) const noexcept {
  const auto found = definitions_.traceables.find(traceable);
  return found != definitions_.traceables.end() && found->second.arena;
}

Model::Key Model::key_of(std::uint64_t address, std::uint32_t traceable) const noexcept {
  return {address, is_arena(traceable) ? traceable + 1 : 0};
}

Model::Step Model::apply(const Event& event) {
  Step step;
  ++events_;
  ++harts_[event.hart].events;
  switch (event.operation) {
    case Operation::kAllocate: {
      Counters& counters = traceables_[event.traceable];
      ++counters.allocations;
      counters.requested += event.requested;
      counters.allocated += event.allocated;
      take(event, step);
      break;
    }
    case Operation::kFree: {
      Counters& counters = traceables_[event.traceable];
      ++counters.frees;
      counters.freed += event.allocated;
      give_back(event, event.address, event.traceable, event.allocated, step);
      break;
    }
    case Operation::kReallocate: {
      Counters& left = traceables_[event.old_traceable];
      ++left.reallocations;
      // How many bytes it had is not told: the model knows, if it knows the object.
      give_back(event, event.old_address, event.old_traceable, 0, step);
      if (is_arena(event.old_traceable)) left.freed += step.before.allocated;
      traceables_[event.traceable].requested += event.requested;
      if (is_arena(event.traceable)) traceables_[event.traceable].allocated += event.allocated;
      take(event, step);
      break;
    }
  }
  return step;
}

void Model::take(const Event& event, Step& step) {
  const Key key = key_of(event.address, event.traceable);
  const auto [place, fresh] = live_.try_emplace(key);
  if (!fresh) {
    step.misfit = Misfit::kStillOut;
    live_bytes_ -= place->second.allocated;
  }
  place->second = {event.address, event.requested, event.allocated, event.ticks,   event.number, event.traceable,
                   event.stack,   event.call_site, event.context,   event.hart, event.weight};
  live_bytes_ += event.allocated;
  freed_.erase(key);
}

void Model::give_back(const Event& event, std::uint64_t address, std::uint32_t traceable, std::uint64_t bytes, Step& step) {
  const Key key = key_of(address, traceable);
  const auto found = live_.find(key);
  if (found == live_.end()) {
    const bool twice = freed_.contains(key);
    step.misfit = twice ? Misfit::kDoubleFree : Misfit::kUnknown;
    if (!twice) ++unknown_[traceable];
    freed_[key] = event.number;
    return;
  }
  step.had_object = true;
  step.before = found->second;
  step.crossed = found->second.hart != event.hart;
  if (event.operation == Operation::kFree) crossed_ += step.crossed ? 1 : 0;
  if (found->second.traceable != traceable) {
    step.misfit = Misfit::kWrongCache;
  } else if (bytes != 0 && found->second.allocated != bytes) {
    step.misfit = Misfit::kWrongSize;
  }
  live_bytes_ -= found->second.allocated;
  live_.erase(found);
  freed_[key] = event.number;
  if (freed_.size() > kFreedKept + 2 * live_.size()) forget_old();
}

/// Forgets the older half.
void Model::forget_old() noexcept {
  std::uint64_t oldest = ~std::uint64_t{0}, youngest = 0;
  for (const auto& [key, number] : freed_) {
    oldest = std::min(oldest, number);
    youngest = std::max(youngest, number);
  }
  const std::uint64_t middle = oldest + (youngest - oldest) / 2;
  std::erase_if(freed_, [&](const auto& each) { return each.second <= middle; });
}

}  // namespace qm::host
