#include "pressure/exhaustion_report.hpp"

#include <cstring>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/lock.hpp>
#include <qm/system.hpp>

namespace qm::exhaustion {
namespace {

/// What a report says of the failure itself; the rest is read when the report is delivered.
struct Failure {
  char name[kNameBytes] = {};
  const Arena* root = nullptr;  // compared, never followed
  std::size_t size = 0;
  WaitPolicy done = WaitPolicy::kAuto;
  bool is_arena = false;
  bool at_limit = false;
  hal::HartMask silent = 0;
};

constinit Lock lock;  // guards what follows; a leaf
constinit Failure noted;
constinit bool is_noted = false;
constinit bool has_reported = false;
constinit std::uint64_t last_report = 0;
constinit std::uint32_t reports = 0;
constinit std::uint32_t unreported = 0;

/// Enters a holder if it is among the largest.
void hold(ExhaustionReport& report, const Registered& who, std::size_t bytes) noexcept {
  unsigned place = ExhaustionReport::kHolders;
  while (place != 0 && report.holders[place - 1].bytes < bytes) --place;
  if (place == ExhaustionReport::kHolders) return;
  for (unsigned i = ExhaustionReport::kHolders - 1; i > place; --i) report.holders[i] = report.holders[i - 1];
  who.copy_name(report.holders[place].name);
  report.holders[place].bytes = bytes;
}

void look_at(Cache& cache, ExhaustionReport& report) noexcept {
  const CacheStats stats = cache.stats();
  const SlabStats slabs = cache.slabs().stats();
  for (unsigned hart = 0; kMagazines && hart < hart_count(); ++hart) {
    const HartCache& hart_cache = cache.hart_cache(hart);
    report.in_magazines[hart] += hart_cache.rounds() * stats.object_size;
    report.in_previous[hart] += hart_cache.prev_rounds.load(std::memory_order_relaxed) * stats.object_size;
  }
  report.in_depots += stats.in_depot * stats.object_size;
  report.in_slabs += slabs.empty_slabs * stats.slab_bytes;
  const std::size_t free_objects = slabs.objects_total - slabs.objects_out;
  const std::size_t in_empty = slabs.empty_slabs * cache.slabs().objects();
  if (free_objects > in_empty) report.in_fragments += (free_objects - in_empty) * stats.object_size;
  // Live objects of a quantum cache belong to the arena's user, and are counted there.
  if ((cache.flags() & cache_flags::kQuantumCache) == 0) hold(report, cache, stats.in_use * stats.object_size);
}

void look_at(Arena& arena, ExhaustionReport& report) noexcept {
  const ArenaStats stats = arena.stats();
  report.in_slabs += stats.in_extents;
  report.in_spans += stats.idle;
  if (!arena.has_importers()) hold(report, arena, stats.allocated);
}

/// Finds where the memory is and reports it to the firmware. No lock is held.
void deliver(const Failure& failure, std::uint32_t failures, std::uint32_t since_last,
             const ExhaustionConfig& settings) noexcept {
  ExhaustionReport report;
  std::memcpy(report.name, failure.name, kNameBytes);
  report.is_arena = failure.is_arena;
  report.at_limit = failure.at_limit;
  report.wait_policy = failure.done;
  report.size = failure.size;
  report.silent = failure.silent;
  report.unreported = since_last;
  report.failures = failures;
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    if (&cache->source().root() == failure.root) look_at(*cache, report);
  }
  RegistryCursor<Arena> arenas;
  while (Arena* arena = arenas.next()) {
    if (&arena->root() == failure.root) look_at(*arena, report);
  }
  report.recoverable = report.in_depots + report.in_slabs + report.in_spans;
  for (const std::size_t bytes : report.in_magazines) report.recoverable += bytes;
  settings.report(report);
}

/// Whether a report is due; if so, counts it as made. Lock held.
bool take_turn_locked(std::uint32_t interval_ms, std::uint32_t& since_last) noexcept {
  const std::uint64_t now = hal::Port::ticks();
  if (has_reported && now - last_report < hal::ticks_of(interval_ms)) return false;
  has_reported = true;
  last_report = now;
  since_last = unreported;
  unreported = 0;
  ++reports;
  return true;
}

void note(const Request& request, WaitPolicy done, hal::HartMask silent, Deliver when, std::uint32_t failures,
          const ExhaustionConfig& settings) noexcept {
  Failure failure;
  request.who.copy_name(failure.name);
  failure.root = &request.from.root();
  failure.size = request.size;
  failure.done = done;
  failure.is_arena = request.is_arena;
  failure.at_limit = request.at_limit;
  failure.silent = silent;
  std::uint32_t since_last = 0;
  {
    const LockGuard guard(lock);
    if (settings.report == nullptr || (when == Deliver::kLater && is_noted) ||
        (when == Deliver::kNow && !take_turn_locked(settings.interval_ms, since_last))) {
      ++unreported;
      return;
    }
    if (when == Deliver::kLater) {
      noted = failure;
      is_noted = true;
      return;
    }
  }
  deliver(failure, failures, since_last, settings);
}

void deliver_noted(std::uint32_t failures, const ExhaustionConfig& settings) noexcept {
  Failure failure;
  std::uint32_t since_last = 0;
  {
    const LockGuard guard(lock);
    if (!is_noted) return;
    is_noted = false;
    if (settings.report == nullptr || !take_turn_locked(settings.interval_ms, since_last)) {
      ++unreported;
      return;
    }
    failure = noted;
  }
  deliver(failure, failures, since_last, settings);
}

std::uint32_t report_count() noexcept {
  const LockGuard guard(lock);
  return reports;
}

void reset() noexcept {
  const LockGuard guard(lock);
  reports = unreported = 0;
  is_noted = has_reported = false;
}

constexpr ReportCalls kCalls{note, deliver_noted, report_count, reset};

}  // namespace

const ReportCalls* report_calls(std::uint32_t failures) noexcept {
  const LockGuard guard(lock);
  unreported = failures;
  return &kCalls;
}

}  // namespace qm::exhaustion
