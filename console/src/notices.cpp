#include <qm/console/notices.hpp>

#include <qm/console/text.hpp>

namespace qm::console {

bool Notices::add(std::string_view text) noexcept {
  text = part(text, 0, kMaxNotice);
  while (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  if (text.empty()) return true;
  const LockGuard locked(lock_);
  if (kBytes - (head_ - tail_) < text.size() + 1) {
    ++lost_;
    return false;
  }
  for (const char c : text) ring_[head_++ % kBytes] = c;
  ring_[head_++ % kBytes] = '\n';
  return true;
}

std::size_t Notices::take(std::span<char, kMaxLine> line) noexcept {
  const LockGuard locked(lock_);
  std::size_t length = 0;
  while (tail_ != head_) {
    const char c = ring_[tail_++ % kBytes];
    if (c == '\n' && length > 0) break;
    if (c != '\n' && c != '\r' && length < line.size()) line[length++] = c;
  }
  return length;
}

std::uint32_t Notices::take_lost() noexcept {
  const LockGuard locked(lock_);
  const std::uint32_t lost = lost_;
  lost_ = 0;
  return lost;
}

bool Notices::pending() noexcept {
  const LockGuard locked(lock_);
  return head_ != tail_ || lost_ != 0;
}

}  // namespace qm::console
