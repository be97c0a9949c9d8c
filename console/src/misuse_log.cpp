#include <qm/console/misuse_log.hpp>

#include <qm/cache.hpp>

namespace qm::console {
namespace {

void copy_name(char (&to)[kNameBytes], const Cache* cache) noexcept {
  const char* from = cache != nullptr ? cache->name() : "kheap";
  for (char& c : to) c = *from != 0 ? *from++ : '\0';
}

}  // namespace

bool MisuseLog::add(const MisuseReport& report) noexcept {
  const LockGuard locked(lock_);
  if (head_ - tail_ == kReports) {
    ++lost_;
    return false;
  }
  Entry& entry = ring_[head_++ % kReports];
  entry.report = report;
  copy_name(entry.cache, report.cache);
  copy_name(entry.owner, report.owner);
  return true;
}

bool MisuseLog::take(Entry& entry) noexcept {
  const LockGuard locked(lock_);
  if (tail_ == head_) return false;
  entry = ring_[tail_++ % kReports];
  return true;
}

std::uint32_t MisuseLog::take_lost() noexcept {
  const LockGuard locked(lock_);
  const std::uint32_t lost = lost_;
  lost_ = 0;
  return lost;
}

bool MisuseLog::pending() noexcept {
  const LockGuard locked(lock_);
  return head_ != tail_ || lost_ != 0;
}

}  // namespace qm::console
