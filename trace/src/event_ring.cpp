#include <qm/trace/event_ring.hpp>

#include <qm/detail/bits.hpp>

namespace qm::trace {

void EventRing::put_note(wire::Operation operation, std::uint32_t value) noexcept {
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  RingEntry& entry = entries_[head & mask_];
  entry = RingEntry{};
  entry.what = RingEntry::pack(0, operation);
  entry.stack_context = value;
  head_.store(head + 1, std::memory_order_release);  // as in put()
}

/// Puts the notes that have to precede the next event, if there is room for them and for @p entries more. @returns
/// false if there is not.
bool EventRing::say(std::uint32_t entries) noexcept {
  // acquire: pairs with the release in drop().
  const std::uint32_t tail = tail_.load(std::memory_order_acquire);
  const std::uint32_t room = mask_ + 1 - (head_.load(std::memory_order_relaxed) - tail);
  const std::uint32_t notes = (lost_unsaid_ != 0 ? 1u : 0u) + (mode_unsaid_ ? 1u : 0u);
  if (room < entries + notes) return false;
  if (lost_unsaid_ != 0) put_note(wire::Operation::kLost, lost_unsaid_);
  if (mode_unsaid_) put_note(wire::Operation::kMode, static_cast<std::uint32_t>(mode_));
  lost_unsaid_ = 0;
  mode_unsaid_ = false;
  limit_ = tail + mask_ + 1;
  return true;
}

/// As say(); if there is no room, it counts the event as dropped.
bool EventRing::make_room(std::uint32_t entries, std::atomic<std::uint32_t>& numbers) noexcept {
  if (say(entries)) return true;
  ++lost_unsaid_;
  store_relaxed(lost_, lost_.load(std::memory_order_relaxed) + 1);
  numbers.fetch_add(1, std::memory_order_relaxed);
  limit_ = head_.load(std::memory_order_relaxed);
  return false;
}

void EventRing::put_slow(std::uint32_t what, std::uint64_t address, std::uint32_t stack_context,
                         std::uint32_t requested, std::uint32_t beside, std::atomic<std::uint32_t>& numbers,
                         std::uint32_t ticks) noexcept {
  if (!make_room(1, numbers)) return;
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  write(head, what, address, stack_context, requested, beside, numbers, ticks);
  head_.store(head + 1, std::memory_order_release);  // as in put()
}

void EventRing::put_move(const RingEntry& from, const RingEntry& to, std::atomic<std::uint32_t>& numbers) noexcept {
  if (!make_room(2, numbers)) return;
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  entries_[(head + 1) & mask_] = to;
  write(head, from.what, from.address, from.stack_context, from.requested, from.beside, numbers, from.ticks);
  head_.store(head + 2, std::memory_order_release);  // as in put()
}

void EventRing::change_mode(wire::StreamMode mode) noexcept {
  mode_ = mode;
  mode_unsaid_ = true;
  if (say(0)) return;
  // The next event that finds room puts the note first; if there is none, the reader notes it at the end.
  limit_ = head_.load(std::memory_order_relaxed);
}

}  // namespace qm::trace
