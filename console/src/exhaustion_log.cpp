#include <qm/console/exhaustion_log.hpp>

namespace qm::console {
namespace {

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

bool ExhaustionLog::add(const ExhaustionReport& report, TraceBackend& trace) noexcept {
  Entry* entry = claim();
  if (entry == nullptr) return false;
  entry->report = report;
  entry->holders = {};
  trace.find_holders(entry->holders);
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
