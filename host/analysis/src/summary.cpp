#include <qm/analysis/summary.hpp>

#include <algorithm>
#include <bit>

namespace qm::analysis {
namespace {

using host::Event;
using host::EventKind;
using host::Operation;

// LiveObject::traceable can hold every traceable's number.
static_assert(host::kMostTraceables - 1 <= std::numeric_limits<decltype(LiveObject::traceable)>::max());

void count_allocation(Figures& figures, const Event& event) {
  figures.allocations += event.weight;
  figures.requested += event.weight * static_cast<double>(event.requested);
  figures.allocated += event.weight * static_cast<double>(event.allocated);
}

void put_on(Figures& figures, const LiveObject& object) {
  const double weight = object.weight;
  figures.live_objects += weight;
  figures.live_requested += weight * static_cast<double>(object.requested);
  figures.live_bytes += weight * static_cast<double>(object.allocated);
  figures.peak_bytes = std::max(figures.peak_bytes, figures.live_bytes);
}

void take_off(Figures& figures, const LiveObject& object) {
  const double weight = object.weight;
  figures.live_objects -= weight;
  figures.live_requested -= weight * static_cast<double>(object.requested);
  figures.live_bytes -= weight * static_cast<double>(object.allocated);
}

/// @returns the time @p seconds after @p start; the last tick if that is beyond the range of ticks.
std::uint64_t ticks_after(std::uint64_t start, double seconds, std::uint64_t ticks_per_second) {
  constexpr std::uint64_t kLast = ~std::uint64_t{0};
  const double ticks = seconds * static_cast<double>(ticks_per_second);
  return ticks < static_cast<double>(kLast - start) ? start + static_cast<std::uint64_t>(ticks) : kLast;
}

void count_life(Lifetimes& lifetimes, std::uint64_t ticks, double weight) {
  lifetimes.objects[std::min<std::size_t>(static_cast<std::size_t>(std::bit_width(ticks)), Lifetimes::kBuckets - 1)] +=
      weight;
  lifetimes.ticks += weight * static_cast<double>(ticks);
  lifetimes.longest = std::max(lifetimes.longest, ticks);
}

}  // namespace

Figures& Figures::operator+=(const Figures& other) noexcept {
  for (double Figures::*const each : {&Figures::allocations, &Figures::frees, &Figures::requested, &Figures::allocated,
                                      &Figures::freed, &Figures::cross_hart_frees, &Figures::live_objects,
                                      &Figures::live_requested, &Figures::live_bytes, &Figures::peak_bytes}) {
    this->*each += other.*each;
  }
  return *this;
}

Lifetimes& Lifetimes::operator+=(const Lifetimes& other) noexcept {
  for (std::size_t bucket = 0; bucket < kBuckets; ++bucket) objects[bucket] += other.objects[bucket];
  ticks += other.ticks;
  longest = std::max(longest, other.longest);
  return *this;
}

Suspects& Suspects::operator+=(const Suspects& other) noexcept {
  objects += other.objects;
  bytes += other.bytes;
  oldest_ticks = std::max(oldest_ticks, other.oldest_ticks);
  return *this;
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
  // Greedy matching, with one position to return to: the last star.
  std::size_t p = 0, n = 0, star = std::string_view::npos, after = 0;
  while (n < name.size()) {
    if (p < pattern.size() && (pattern[p] == '?' || pattern[p] == name[n]) && pattern[p] != '*') {
      ++p, ++n;
    } else if (p < pattern.size() && pattern[p] == '*') {
      star = p++;
      after = n;
    } else if (star != std::string_view::npos) {
      p = star + 1;
      n = ++after;
    } else {
      return false;
    }
  }
  while (p < pattern.size() && pattern[p] == '*') ++p;
  return p == pattern.size();
}

Summary::Summary(SummaryOptions options) : options_(std::move(options)) {}

void Summary::on_header(const host::Definitions& definitions) {
  ++streams_;
  ignoring_ = options_.stream != 0 && options_.stream != streams_;
  if (ignoring_) return;
  source_ = &definitions;
  stream_ = streams_;
  begin_stream();
}

void Summary::begin_stream() {
  const host::StreamHeader& header = source_->header;
  totals_ = {};
  lifetimes_ = {};
  live_.clear();
  rows_.clear();
  row_numbers_.clear();
  traceables_.clear();
  traceable_numbers_.clear();
  harts_.clear();
  modes_.clear();
  events_ = 0;
  reallocations_ = unknown_frees_ = replaced_ = 0;
  last_ticks_ = header.start_ticks;
  peak_ticks_ = header.start_ticks;
  since_ticks_ = ticks_after(header.start_ticks, options_.since_seconds, header.ticks_per_second);
  sampled_ = header.mode == host::StreamMode::kSampled;
  counters_only_ = header.mode == host::StreamMode::kCounters;
  timeline_ = Timeline(header.start_ticks);
  for (const Timeline::Kind kind : {Timeline::Kind::kLevel, Timeline::Kind::kPeak, Timeline::Kind::kSum})
    timeline_.add_series(kind);
  for (std::uint16_t index = 0; index < header.harts; ++index) (void)hart(index);
}

Summary::HartRow& Summary::hart(std::uint16_t index) {
  while (harts_.size() <= index) {
    harts_.push_back({});
    harts_.back().series = timeline_.add_series(Timeline::Kind::kLevel);
  }
  return harts_[index];
}

std::uint32_t Summary::row_of(std::uint32_t stack, std::uint32_t call_site) {
  const auto [entry, is_new] =
      row_numbers_.try_emplace(std::uint64_t{stack} << 32 | call_site, static_cast<std::uint32_t>(rows_.size()));
  if (is_new) rows_.push_back({stack, call_site, {}, {}, {}, {}, {}});
  return entry->second;
}

std::uint32_t Summary::traceable_of(std::uint32_t number) {
  const auto [entry, is_new] = traceable_numbers_.try_emplace(number, static_cast<std::uint32_t>(traceables_.size()));
  if (is_new) {
    const auto definition = source_->traceables.find(number);
    const bool known = definition != source_->traceables.end();
    const bool arena = known && definition->second.kind == EventKind::kArena;
    const bool wanted = options_.cache.empty() ? !arena : known && matches(options_.cache, definition->second.name);
    const std::uint32_t space = known && definition->second.arena ? number + 1 : 0;
    traceables_.push_back({number, wanted, space, {}, {}, timeline_.add_series(Timeline::Kind::kLevel)});
  }
  return entry->second;
}

void Summary::on_event(const Event& event) {
  if (ignoring_) return;
  ++events_;
  last_ticks_ = std::max(last_ticks_, event.ticks);
  in_window_ = event.ticks >= since_ticks_;
  timeline_.advance(event.ticks);
  if (event.weight != 1) sampled_ = true;
  switch (event.operation) {
    case Operation::kAllocate: allocated(event); break;
    case Operation::kFree: freed(event, event.address, event.traceable, event.allocated); break;
    case Operation::kReallocate:
      freed(event, event.old_address, event.old_traceable, 0);
      allocated(event);
      if (in_window_ && traceables_[traceable_of(event.traceable)].counted) reallocations_ += event.weight;
      break;
  }
}

void Summary::allocated(const Event& event) {
  const std::uint32_t traceable = traceable_of(event.traceable);
  const std::uint32_t space = traceables_[traceable].space;
  if (LiveObject* const there = live_.find(space, event.address); there != nullptr) {
    replaced_ += there->weight;
    const LiveObject old = *there;
    live_.erase(there);
    take_off(old);
  }
  if (!in_window_) return;
  TraceableRow& of = traceables_[traceable];
  const LiveObject object{event.address,
                          event.ticks,
                          event.requested,
                          event.allocated,
                          of.counted ? row_of(event.stack, event.call_site) : 0,
                          space,
                          static_cast<std::uint16_t>(traceable),
                          event.hart,
                          static_cast<float>(event.weight)};
  live_.insert(object);
  const double bytes = object.weight * static_cast<double>(object.allocated);
  count_allocation(of.figures, event);
  put_on(of.figures, object);
  timeline_.add(of.series, bytes);
  if (!of.counted) return;
  HartRow& by = hart(event.hart);
  Row& row = rows_[object.row];
  for (Figures* const figures : {&totals_, &row.figures, &row.of(traceable), &by.figures}) {
    count_allocation(*figures, event);
    const double before = figures->peak_bytes;
    put_on(*figures, object);
    if (figures == &totals_ && figures->peak_bytes > before) peak_ticks_ = event.ticks;
  }
  timeline_.add(by.series, bytes);
  timeline_.add(kTotalSeries, bytes);
  timeline_.add(kPeakSeries, bytes);
  timeline_.add(kRateSeries, bytes);
}

void Summary::take_off(const LiveObject& object) {
  const double bytes = object.weight * static_cast<double>(object.allocated);
  TraceableRow& of = traceables_[object.traceable];
  analysis::take_off(of.figures, object);
  timeline_.add(of.series, -bytes);
  if (!of.counted) return;
  HartRow& by = hart(object.hart);
  Row& row = rows_[object.row];
  for (Figures* const figures : {&totals_, &row.figures, &row.of(object.traceable), &by.figures})
    analysis::take_off(*figures, object);
  timeline_.add(by.series, -bytes);
  timeline_.add(kTotalSeries, -bytes);
  timeline_.add(kPeakSeries, -bytes);
}

void Summary::freed(const Event& event, std::uint64_t address, std::uint32_t traceable, std::uint64_t bytes) {
  const std::uint32_t from = traceable_of(traceable);
  LiveObject* const found = live_.find(traceables_[from].space, address);
  TraceableRow& of = traceables_[found != nullptr ? found->traceable : from];
  const double weight = found != nullptr ? found->weight : event.weight;
  const double given_back = weight * static_cast<double>(found != nullptr ? found->allocated : bytes);
  if (in_window_) {
    of.figures.frees += weight;
    of.figures.freed += given_back;
    if (of.counted) {
      for (Figures* const figures : {&totals_, &hart(event.hart).figures}) {
        figures->frees += weight;
        figures->freed += given_back;
      }
    }
  }
  if (found == nullptr) {
    if (in_window_ && of.counted) unknown_frees_ += weight;
    return;
  }
  const LiveObject object = *found;
  live_.erase(found);
  const bool crossed = object.hart != event.hart;
  const std::uint64_t age = event.ticks > object.ticks ? event.ticks - object.ticks : 0;
  count_life(of.lifetimes, age, weight);
  if (crossed) of.figures.cross_hart_frees += weight;
  if (of.counted) {
    Row& row = rows_[object.row];
    row.figures.frees += weight;
    row.figures.freed += given_back;
    count_life(row.lifetimes, age, weight);
    count_life(lifetimes_, age, weight);
    if (crossed) {
      for (Figures* const figures : {&totals_, &row.figures, &hart(event.hart).figures})
        figures->cross_hart_frees += weight;
    }
  }
  take_off(object);
}

void Summary::on_gap(const host::Gap& gap) {
  if (ignoring_) return;
  HartRow& of = hart(gap.hart);
  (gap.why == host::Missing::kOverrun ? of.lost_on_target : of.lost_on_line) += static_cast<double>(gap.events);
}

void Summary::on_stream_end(std::uint64_t stop_ticks) {
  if (!ignoring_) last_ticks_ = std::max(last_ticks_, stop_ticks);
}

void Summary::on_mode(const host::ModeChange& change) {
  if (ignoring_) return;
  modes_.push_back(change);
  sampled_ = sampled_ || change.mode == host::StreamMode::kSampled;
  counters_only_ = counters_only_ || change.mode == host::StreamMode::kCounters;
}

Figures& Summary::Row::of(std::uint32_t traceable) {
  for (auto& [source, its] : by_source) {
    if (source == traceable) return its;
  }
  return by_source.emplace_back(traceable, Figures{}).second;
}

/// Merges the rows that have the same origin: the device gives a stack a new number in each cache.
/// @returns the new index of each former row.
std::vector<std::uint32_t> Summary::merge_rows() {
  std::map<Origin, std::uint32_t> origins;
  std::vector<std::uint32_t> places;
  std::vector<Row> merged;
  for (Row& row : rows_) {
    row.origin = origin_of(*source_, row.stack, row.call_site);
    const auto [place, is_new] = origins.try_emplace(row.origin, static_cast<std::uint32_t>(merged.size()));
    places.push_back(place->second);
    if (is_new) {
      merged.push_back(std::move(row));
    } else {
      merged[place->second].figures += row.figures;
      merged[place->second].lifetimes += row.lifetimes;
      for (const auto& [source, figures] : row.by_source) merged[place->second].of(source) += figures;
    }
  }
  rows_ = std::move(merged);
  return places;
}

/// An object is a suspect if it is live for more than twice the longest lifetime among the freed objects of its origin,
/// and for longer than a tenth of the recording: the youngest objects are live only because the recording ended.
void Summary::find_suspects(const std::vector<std::uint32_t>& row_places) {
  const std::uint64_t least =
      (last_ticks_ - std::min(last_ticks_, std::max(since_ticks_, source_->header.start_ticks))) / 10;
  live_.for_each([&](const LiveObject& object) {
    if (!traceables_[object.traceable].counted) return;
    Row& row = rows_[row_places[object.row]];
    const std::uint64_t age = last_ticks_ > object.ticks ? last_ticks_ - object.ticks : 0;
    if (age <= 2 * row.lifetimes.longest || age < least) return;
    row.suspects.objects += object.weight;
    row.suspects.bytes += object.weight * static_cast<double>(object.allocated);
    row.suspects.oldest_ticks = std::max(row.suspects.oldest_ticks, age);
  });
}

void Summary::on_end(const host::CaptureEnd& end) {
  end_ = end;
  if (source_ == nullptr) return;
  timeline_.advance(last_ticks_);
  timeline_.finish();
  find_suspects(merge_rows());
  definitions_ = *source_;
}

double Summary::lost() const noexcept {
  double sum = 0;
  for (const HartRow& row : harts_) sum += row.lost_on_target + row.lost_on_line;
  return sum;
}

bool Summary::complete() const noexcept {
  return stream_ != 0 && end_.whole(stream_) && lost() == 0 && !sampled_ && !counters_only_;
}

double Summary::seconds(std::uint64_t ticks) const noexcept {
  const std::uint64_t start = definitions_.header.start_ticks;
  return seconds_long(ticks >= start ? static_cast<double>(ticks - start) : -static_cast<double>(start - ticks));
}

double Summary::seconds_long(double ticks) const noexcept {
  const auto rate = static_cast<double>(definitions_.header.ticks_per_second);
  return rate > 0 ? ticks / rate : 0;
}

}  // namespace qm::analysis
