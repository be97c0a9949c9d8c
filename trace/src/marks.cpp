#include <qm/trace/marks.hpp>

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/call_sites.hpp>
#include <qm/trace/characters.hpp>

#include "tracer.hpp"
#include "figures.hpp"

namespace qm::trace {
namespace {

constinit Mark* first_mark = nullptr;  // M2

/// A number that is new after each start, stop and reset, and for each source.
std::uint32_t changes_of(const TracedSource& one) noexcept { return one.changes.load(std::memory_order_relaxed); }
std::uint32_t adopted_of(const TracedSource& one) noexcept { return one.adopted.load(std::memory_order_relaxed); }

/// Allocations without a record since the source adopted its trace.
std::uint32_t dropped_of(TracedSource& one) noexcept {
  std::uint32_t sum = 0;
  for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
    for (const std::atomic<Word>& count : one.harts()[hart].now.dropped) {
      sum += static_cast<std::uint32_t>(count.load(std::memory_order_relaxed));
    }
  }
  return sum;
}

/// Whether each allocation has a record or is counted as dropped.
bool is_recording(Traceable& source) noexcept {
  return (source.state().load(std::memory_order_relaxed) & (trace_state::kRecord | trace_state::kThin)) ==
         trace_state::kRecord;
}

void fill(SourceThen& row, Traceable& source) noexcept {
  source.copy_name(row.name);
  row.holding = holding_of(source);
  TracedSource* one = traced_source(source);
  row.recording = one != nullptr && is_recording(source);
  row.dropped = one != nullptr ? dropped_of(*one) : 0;
  row.adopted = one != nullptr ? adopted_of(*one) : 0;
  row.changes = one != nullptr ? changes_of(*one) : 0;
}

std::size_t count_sites() noexcept {
  if constexpr (kCallSites) return call_sites::count();
  return 0;
}

void fill_sites(Mark& mark) noexcept {
  if constexpr (kCallSites) {
    for (std::uint32_t i = 0; i < mark.site_count; ++i) {
      const call_sites::Row row = call_sites::row(i);
      mark.sites()[i] = {row.bytes, row.calls};
    }
  }
}

unsigned count_sources() noexcept {
  unsigned count = 0;
  RegistryCursor<Traceable> sources;
  while (sources.next() != nullptr) ++count;
  return count;
}

/// The link that points to the mark of that name, or the last link.
Mark** link_of(std::string_view name) noexcept {
  Mark** link = &first_mark;
  while (*link != nullptr && characters((*link)->name) != name) link = &(*link)->next;
  return link;
}

}  // namespace

Holding holding_of(Traceable& source) noexcept {
  if (source.kind() == RegistryKind::kCache) {
    const CacheStats stats = static_cast<Cache&>(source).stats();
    return {stats.in_use, std::uint64_t{stats.in_use} * stats.object_size};
  }
  auto& arena = static_cast<Arena&>(source);
  return {arena.segments_held(), arena.stats().allocated};
}

const SourceThen* Mark::find(const char* source) const noexcept {
  for (std::uint32_t i = 0; i < source_count; ++i) {
    if (characters(sources()[i].name) == characters(source)) return &sources()[i];
  }
  return nullptr;
}

Status set_mark(StackReport& report, std::string_view name) noexcept {
  char text[kNameBytes] = {};
  if (name.size() >= kNameBytes) return Status::kInvalid;
  for (std::size_t i = 0; i < name.size(); ++i) text[i] = name[i];
  if (!is_valid_name(text)) return Status::kInvalid;
  if (!tracer.ready()) return Status::kUnsafe;
  unsigned marks = 0;
  for (const Mark* mark = first_mark; mark != nullptr; mark = mark->next) ++marks;
  Mark** const link = link_of(name);
  if (*link == nullptr && marks == kMaxMarks) return Status::kNoMemory;

  report.select_all();
  report.count_live(1);
  const unsigned sources = count_sources();
  const std::uint32_t stacks = report.totals().stacks;
  const auto sites = static_cast<std::uint32_t>(count_sites());
  const std::size_t bytes =
      (sizeof(Mark) + sites * sizeof(SiteThen) + sources * sizeof(SourceThen) + stacks * sizeof(StackThen) + 7) &
      ~std::size_t{7};
  void* block = tracer.take(bytes);
  if (block == nullptr) return Status::kNoMemory;
  auto* mark = new (block) Mark;
  std::memcpy(mark->name, text, kNameBytes);
  mark->taken = bytes;
  mark->site_count = sites;
  // The moment of the mark. The counts before and after it may differ, because other harts continue.
  mark->ticks = hal::Port::ticks();
  mark->sequence = tracer.sequence.next();
  fill_sites(*mark);
  RegistryCursor<Traceable> cursor;
  while (Traceable* source = mark->source_count < sources ? cursor.next() : nullptr) {
    fill(mark->sources()[mark->source_count++], *source);
  }
  mark->objects = report.totals().objects;
  mark->bytes = report.totals().bytes;
  mark->stack_count = report.copy({mark->stacks(), stacks});
  mark->next = *link != nullptr ? (*link)->next : nullptr;
  if (*link != nullptr) tracer.give(*link, (*link)->taken);
  *link = mark;
  return Status::kOk;
}

Status drop_mark(const StackReport&, std::string_view name) noexcept {
  Mark** const link = link_of(name);
  Mark* const mark = *link;
  if (mark == nullptr) return Status::kNotFound;
  *link = mark->next;
  tracer.give(mark, mark->taken);
  return Status::kOk;
}

const Mark* find_mark(const StackReport&, std::string_view name) noexcept { return *link_of(name); }
const Mark* next_mark(const StackReport&, const Mark* mark) noexcept {
  return mark != nullptr ? mark->next : first_mark;
}
void forget_marks() noexcept { first_mark = nullptr; }

Coverage coverage_since(const Mark* mark, SourceTest is_meant, const void* context) noexcept {
  Coverage coverage;
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    ++coverage.all;
    TracedSource* one = traced_source(*source);
    if (one == nullptr || !one->traced.load(std::memory_order_relaxed)) continue;
    if (is_meant != nullptr && !is_meant(context, *source)) continue;
    const bool recording = is_recording(*source);
    const bool thin = (source->state().load(std::memory_order_relaxed) & trace_state::kThin) != 0;
    coverage.thin += thin ? 1 : 0;
    if (mark == nullptr) {
      coverage.whole += recording ? 1 : 0;
      coverage.dropped += cache_trace(*source).figures.all_dropped();
      continue;
    }
    const SourceThen* then = mark->find(source->name());
    // A source younger than the mark was either recorded from its creation on or not. A source without a trace at the
    // mark, or with the name of a destroyed source, counts as started since the mark, or not.
    const bool unchanged = changes_of(*one) == (then != nullptr ? then->changes : adopted_of(*one));
    const bool same = then != nullptr && then->adopted == adopted_of(*one);
    if (recording && unchanged) {
      ++coverage.whole;
    } else if (recording || !unchanged) {
      ++coverage.partial;
    }
    if (recording || thin || !unchanged) coverage.dropped += dropped_of(*one) - (same ? then->dropped : 0);
  }
  return coverage;
}

}  // namespace qm::trace
