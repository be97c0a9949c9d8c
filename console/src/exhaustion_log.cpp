#include <qm/console/exhaustion_log.hpp>

#include <qm/arena.hpp>
#include <qm/cache.hpp>

namespace qm::console {
namespace {

/// Whether users hold what is drawn from @p source: what caches and arenas hold is counted at those.
bool has_users(Traceable& source) noexcept {
  if (source.kind() == RegistryKind::kArena) return !static_cast<Arena&>(source).has_importers();
  return (static_cast<Cache&>(source).flags() & cache_flags::kQuantumCache) == 0;
}

/// Counts what is out by stack.
void count_stacks(ExhaustionLog::Entry& entry) noexcept {
  entry.stack_count = 0;
  entry.totals = {};
  trace::StackReport stacks;
  entry.stacks_status = hal::may_wait() ? stacks.begin() : Status::kUnsafe;
  if (entry.stacks_status != Status::kOk) return;
  RegistryCursor<Traceable> sources;
  while (Traceable* source = sources.next()) {
    if (has_users(*source)) stacks.select(*source);
  }
  stacks.count_live(1);
  entry.totals = stacks.totals();
  trace::StackRow row;
  while (entry.stack_count < ExhaustionLog::kStacks && stacks.next(row)) {
    entry.stacks[entry.stack_count++] = {row.handle, row.objects, row.bytes};
  }
}

/// Finds the call sites that hold the most.
inline void rank_sites(ExhaustionLog::Entry& entry) noexcept {
  entry.site_count = 0;
  for (std::size_t number = 0; number < call_sites::count(); ++number) {
    const call_sites::Row row = call_sites::row(number);
    unsigned place = entry.site_count;
    while (place != 0 && entry.sites[place - 1].bytes < row.bytes) --place;
    if (row.bytes == 0 || place == ExhaustionLog::kSites) continue;
    if (entry.site_count < ExhaustionLog::kSites) ++entry.site_count;
    for (unsigned at = entry.site_count - 1; at > place; --at) entry.sites[at] = entry.sites[at - 1];
    entry.sites[place] = row;
  }
}

}  // namespace

ExhaustionLog::Entry* ExhaustionLog::claim() noexcept {
  const LockGuard locked(lock_);
  if (head_ - tail_ == kReports) {
    ++lost_;
    return nullptr;
  }
  return &ring_[head_++ % kReports];
}

bool ExhaustionLog::add(const ExhaustionReport& report) noexcept {
  Entry* entry = claim();
  if (entry == nullptr) return false;
  entry->report = report;
  count_stacks(*entry);
  if constexpr (kCallSites) rank_sites(*entry);
  entry->whole.store(true, std::memory_order_release);  // pairs with the acquire in oldest()
  return true;
}

const ExhaustionLog::Entry* ExhaustionLog::oldest() const noexcept {
  const Entry& entry = ring_[tail_ % kReports];
  return entry.whole.load(std::memory_order_acquire) ? &entry : nullptr;
}

void ExhaustionLog::drop() noexcept {
  const LockGuard locked(lock_);
  ring_[tail_++ % kReports].whole.store(false, std::memory_order_relaxed);
}

std::uint32_t ExhaustionLog::take_lost() noexcept {
  const LockGuard locked(lock_);
  const std::uint32_t lost = lost_;
  lost_ = 0;
  return lost;
}

bool ExhaustionLog::pending() noexcept {
  if (oldest() != nullptr) return true;
  const LockGuard locked(lock_);
  return lost_ != 0;
}

}  // namespace qm::console
