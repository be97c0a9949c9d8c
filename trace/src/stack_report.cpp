#include <qm/trace/stack_report.hpp>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/marks.hpp>

#include "tracer.hpp"
#include "figures.hpp"

namespace qm::trace {
namespace {

constinit std::atomic<std::uint32_t> under_way{0};  // K3

/// The entry that represents the stack of @p entry: the oldest one with its id.
StackEntry& spokesman(const StackEntry& entry) noexcept { return tracer.stacks.oldest(entry.id); }

std::uint32_t objects_in(const StackEntry& entry) noexcept {
  return entry.snapshot_objects.load(std::memory_order_relaxed);
}
std::uint32_t bytes_in(const StackEntry& entry) noexcept {
  return entry.snapshot_bytes.load(std::memory_order_relaxed);
}

/// The arena whose memory @p source hands out: the arena itself, or a quantum cache's source. nullptr for other caches,
/// which hand out no memory for slabs and spans.
const Arena* drawn_upon(Traceable& source) noexcept {
  if (source.kind() == RegistryKind::kArena) return static_cast<Arena*>(&source);
  auto& cache = static_cast<Cache&>(source);
  return (cache.flags() & cache_flags::kQuantumCache) != 0 ? &cache.source() : nullptr;
}

/// Whether a slab of a cache or a span of an arena, with @p arena as its source, begins at @p start.
bool is_drawn_from(const Arena* arena, std::uintptr_t start) noexcept {
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    if (&cache->source() == arena && cache->slabs().find(reinterpret_cast<void*>(start)) != nullptr) return true;
  }
  RegistryCursor<Arena> arenas;
  while (Arena* drawing = arenas.next()) {
    Segment segment;
    if (drawing->source() == arena && drawing->locate(start, segment) == Status::kOk) return true;
  }
  return false;
}

}  // namespace

bool is_own(Traceable& source, std::uintptr_t start) noexcept {
  const Arena* const arena = drawn_upon(source);
  return arena != nullptr && is_drawn_from(arena, start);
}

StackReport::~StackReport() {
  // release: pairs with the acquire in begin(): the next report sees the snapshots as this one left them.
  if (holds_) under_way.store(0, std::memory_order_release);
}

Status StackReport::begin() noexcept {
  // In a panic the holder of the report does not run any more.
  if (!holds_ && under_way.exchange(1, std::memory_order_acquire) != 0 && !hal::in_panic()) return Status::kBusy;
  holds_ = true;
  all_ = false;
  totals_ = {};
  for (unsigned number = 1; number <= tracer.cache_limit(); ++number) {
    TracedSource* one = tracer.source_numbered(number);
    if (one == nullptr) break;  // numbers are given in order
    one->reported = false;
    one->own_of = nullptr;
  }
  return Status::kOk;
}

/// Adds the figures of a selected source.
void StackReport::note(TracedSource& one) noexcept {
  CacheTrace trace;
  if (!look_at(one, trace)) return;
  ++totals_.known;
  totals_.dropped += trace.figures.all_dropped();
  if (trace.state == State::kOff) return;  // it has no live objects either
  totals_.sampled += trace.keeping.every != 1 ? 1 : 0;
  totals_.counting += trace.keeping.counts ? 1 : 0;
}

void StackReport::select(Traceable& source, Own own) noexcept {
  TracedSource* one = traced_source(source);
  if (one == nullptr || one->reported) return;
  one->reported = true;
  one->own_of = own == Own::kLeaveOut ? drawn_upon(source) : nullptr;
  note(*one);
}

void StackReport::select_all() noexcept {
  all_ = true;
  totals_ = {};
  for (unsigned number = 1; number <= tracer.cache_limit(); ++number) {
    TracedSource* one = tracer.source_numbered(number);
    if (one == nullptr) break;
    note(*one);
  }
}

bool StackReport::includes(std::uint32_t owner) const noexcept {
  if (owner == Tracer::kNoOwner) return false;  // a stack of a misuse report
  return all_ || tracer.source_numbered(owner)->reported;
}

/// Takes every stack out of the report, then takes the selected ones in, without objects.
void StackReport::clear() noexcept {
  StackDepot::Walk all(tracer.stacks);
  while (StackEntry* entry = tracer.stacks.entry(all.next())) {
    entry->snapshot_objects.store(StackEntry::kUnreported, std::memory_order_relaxed);
  }
  StackDepot::Walk selected(tracer.stacks);
  while (StackEntry* entry = tracer.stacks.entry(selected.next())) {
    if (includes(entry->owner)) add(*entry, 0, 0);
  }
  started_ = false;
  const StackTotals of_sources{
      .known = totals_.known, .sampled = totals_.sampled, .counting = totals_.counting, .dropped = totals_.dropped};
  totals_ = of_sources;
}

void StackReport::add(StackEntry& entry, std::uint32_t objects, std::uint32_t bytes) noexcept {
  StackEntry& one = spokesman(entry);
  const bool fresh = objects_in(one) == StackEntry::kUnreported;
  one.snapshot_objects.store((fresh ? 0 : objects_in(one)) + objects, std::memory_order_relaxed);
  one.snapshot_bytes.store((fresh ? 0 : bytes_in(one)) + bytes, std::memory_order_relaxed);
}

void StackReport::count_live(std::uint32_t threshold) noexcept {
  clear();
  count_records(0);
  count_counted();
  sum_up(threshold);
}

void StackReport::count_since(std::uint64_t sequence, std::uint64_t before) noexcept {
  clear();
  count_records(sequence, before);
  sum_up(1);
}

void StackReport::count_growth(const Mark* mark) noexcept {
  clear();
  count_records(0);
  count_counted();
  for (std::uint32_t i = 0; mark != nullptr && i < mark->stack_count; ++i) {
    const StackThen& then = mark->stacks()[i];
    add(*tracer.stacks.entry(then.handle), 0 - then.objects, 0 - then.bytes);
  }
  StackDepot::Walk stacks(tracer.stacks);
  while (StackEntry* entry = tracer.stacks.entry(stacks.next())) {
    const std::uint32_t objects = objects_in(*entry);
    if (objects == StackEntry::kUnreported) continue;
    const auto more_objects = static_cast<std::int32_t>(objects);
    const auto more_bytes = static_cast<std::int32_t>(bytes_in(*entry));
    const bool grown = more_bytes > 0 || (more_bytes == 0 && more_objects > 0);
    if (!grown) entry->snapshot_objects.store(StackEntry::kUnreported, std::memory_order_relaxed);
  }
  sum_up(0);
}

std::uint32_t StackReport::copy(std::span<StackThen> rows) const noexcept {
  std::uint32_t count = 0;
  StackDepot::Walk stacks(tracer.stacks);
  StackHandle handle = kNoStack;
  while (const StackEntry* entry = tracer.stacks.entry(handle = stacks.next())) {
    if (objects_in(*entry) == StackEntry::kUnreported || objects_in(*entry) < threshold_) continue;
    if (count < rows.size()) rows[count++] = {handle, objects_in(*entry), bytes_in(*entry)};
  }
  return count;
}

void StackReport::count_records(std::uint64_t sequence, std::uint64_t before) noexcept {
  since_ = sequence;
  const std::uint64_t now = tracer.sequence.next();
  window_ = before < now ? before : now;
  Record found;
  for (RecordTable::Cursor cursor = 0; tracer.records.scan(cursor, found);) {
    const std::uint64_t number = found.sequence();
    if (number >= window_ || !includes(found.cache)) continue;
    const TracedSource& one = *tracer.source_numbered(found.cache);
    const std::uint32_t weight = one.keeping().every;
    if (number < sequence) {
      totals_.older_objects += weight;
      totals_.older_bytes += std::uint64_t{weight} * found.size;
    } else if (one.own_of != nullptr && is_drawn_from(one.own_of, tracer.object_of(one, found))) {
      totals_.own_objects += weight;
      totals_.own_bytes += std::uint64_t{weight} * found.size;
    } else if (StackEntry* entry = tracer.stacks.entry(found.stack())) {
      add(*entry, weight, weight * found.size);
    } else {
      totals_.lost_objects += weight;
      totals_.lost_bytes += std::uint64_t{weight} * found.size;
    }
  }
}

/// Adds the objects that are counted without records.
void StackReport::count_counted() noexcept {
  StackDepot::Walk stacks(tracer.stacks);
  while (StackEntry* entry = tracer.stacks.entry(stacks.next())) {
    const std::uint32_t objects = entry->counted.load(std::memory_order_relaxed);
    if (objects == 0 || !includes(entry->owner)) continue;
    add(*entry, objects, static_cast<std::uint32_t>(objects * tracer.source_numbered(entry->owner)->object_size));
  }
  for (unsigned number = 1; number <= tracer.cache_limit(); ++number) {
    const TracedSource* one = tracer.source_numbered(number);
    if (one == nullptr) break;
    const std::uint32_t objects = includes(number) ? one->counted_bare.load(std::memory_order_relaxed) : 0;
    totals_.lost_objects += objects;
    totals_.lost_bytes += std::uint64_t{objects} * one->object_size;
  }
}

void StackReport::sum_up(std::uint32_t threshold) noexcept {
  threshold_ = threshold;
  totals_.objects = totals_.lost_objects;
  totals_.bytes = totals_.lost_bytes;
  StackDepot::Walk stacks(tracer.stacks);
  while (const StackEntry* entry = tracer.stacks.entry(stacks.next())) {
    const std::uint32_t objects = objects_in(*entry);
    if (objects == StackEntry::kUnreported) continue;
    totals_.objects += objects;
    totals_.bytes += bytes_in(*entry);
    if (objects != 0 && entry->truncated()) ++totals_.truncated;
    if ((entry->flags & StackEntry::kCollided) != 0) ++totals_.collided;
    if (objects >= threshold) {
      ++totals_.stacks;
    } else {
      ++totals_.hidden;
      totals_.hidden_objects += objects;
      totals_.hidden_bytes += bytes_in(*entry);
    }
  }
}

bool StackReport::next(StackRow& row) noexcept {
  Rank best;
  StackDepot::Walk stacks(tracer.stacks);
  StackHandle handle = kNoStack;
  while (const StackEntry* entry = tracer.stacks.entry(handle = stacks.next())) {
    if (objects_in(*entry) == StackEntry::kUnreported || objects_in(*entry) < threshold_) continue;
    const Rank rank{std::uint64_t{bytes_in(*entry)} << 32 | objects_in(*entry), handle};
    if ((!started_ || last_.before(rank)) && (best.handle == kNoStack || rank.before(best))) best = rank;
  }
  const StackEntry* entry = tracer.stacks.entry(best.handle);
  if (entry == nullptr) return false;
  started_ = true;
  last_ = best;
  row.handle = best.handle;
  row.objects = objects_in(*entry);
  row.bytes = bytes_in(*entry);
  row.collided = (entry->flags & StackEntry::kCollided) != 0;
  return stack_of(best.handle, row.stack, row.id);
}

std::string_view context_label(std::uint32_t id) noexcept { return tracer.contexts.text(id); }

std::uint64_t next_record() noexcept { return tracer.sequence.next(); }

std::size_t sum_contexts(std::uint32_t first, std::uint64_t before, std::span<ContextSum> sums) noexcept {
  std::size_t count = 0;
  for (std::uint32_t id = first; id <= tracer.contexts.capacity() && count < sums.size(); ++id) {
    if (!tracer.contexts.text(id).empty()) sums[count++] = {.id = id};
  }
  Record found;
  for (RecordTable::Cursor cursor = 0; count != 0 && tracer.records.scan(cursor, found);) {
    if (found.sequence() >= before) continue;
    for (ContextSum& sum : sums.first(count)) {
      if (sum.id != found.context()) continue;
      const std::uint32_t weight = tracer.source_numbered(found.cache)->keeping().every;
      sum.objects += weight;
      sum.bytes += std::uint64_t{weight} * found.size;
    }
  }
  return count;
}

StackDetails StackReport::details(const StackRow& row) const noexcept {
  StackDetails details;
  std::uint64_t ages = 0;
  Record found;
  for (RecordTable::Cursor cursor = 0; tracer.records.scan(cursor, found);) {
    // One id belongs to one stack (D2).
    if (tracer.stacks.id(found.stack()) != row.id || !includes(found.cache)) continue;
    if (found.sequence() < since_ || found.sequence() >= window_) continue;
    const TracedSource& one = *tracer.source_numbered(found.cache);
    const std::uint64_t age = tracer.age_ticks(found);
    ++details.records;
    details.held_bytes += one.held_bytes(found.size);
    ages += age;
    if (age > details.oldest_ticks) details.oldest_ticks = age;
    details.harts |= hal::HartMask{1} << found.hart();
    details.contexts[found.context() / 32] |= 1U << found.context() % 32;
  }
  if (details.records != 0) details.mean_ticks = ages / details.records;
  return details;
}

}  // namespace qm::trace
