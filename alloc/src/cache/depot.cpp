/// The depot of a cache: its magazines that no hart owns.

#include <qm/detail/magazine.hpp>

namespace qm {
namespace {

/// A magazine holds at most this many bytes of objects; the second limit holds where harts wait for each other.
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostBytesContended = 16384;
constexpr std::uint32_t kStartRounds = 13;

}  // namespace

void Depot::initialize(std::size_t object_size, std::uint32_t rounds) noexcept {
  unsigned start = 0;
  unsigned most = 0;
  unsigned contended = 0;
  for (unsigned step = 1; step < kMagazineSteps; ++step) {
    const std::uint32_t size = kMagazineRounds[step];
    if (size <= kMostBytes / object_size) most = step;
    if (size <= kMostBytesContended / object_size) contended = step;
    if (rounds != 0 ? kMagazineRounds[step - 1] < rounds : size <= kStartRounds && most == step) start = step;
  }
  store_relaxed(step_, static_cast<std::uint8_t>(start));
  least_step_ = start & 7;
  most_step_ = most & 7;
  more_contended_ = (contended - most) & 3;
  store_relaxed(working_set_, static_cast<std::uint16_t>(least_working_set()));
}

inline void Depot::push_locked(Magazine* magazine) noexcept {
  const unsigned rounds = magazine->rounds;
  const std::size_t shelf = rounds != 0 ? kFull : kEmpty;
  magazine->next = first_[shelf].load(std::memory_order_relaxed);
  store_relaxed(first_[shelf], magazine);
  ++count_[shelf].now;
  if (rounds != 0)
    store_relaxed(full_rounds_, static_cast<std::uint16_t>(full_rounds_.load(std::memory_order_relaxed) + rounds));
}

/// @param[in] magazine the first one of @p shelf.
inline void Depot::pop_locked(Shelf shelf, Magazine& magazine) noexcept {
  store_relaxed(first_[shelf], magazine.next);
  Count& count = count_[shelf];
  --count.now;
  if (count.now < count.least) count.least = count.now;
  store_relaxed(full_rounds_,
                static_cast<std::uint16_t>(full_rounds_.load(std::memory_order_relaxed) - magazine.rounds));
}

Magazine* Depot::take(Shelf shelf) noexcept {
  const LockGuard hold(lock_);
  Magazine* first = first_[shelf].load(std::memory_order_relaxed);
  if (first != nullptr) pop_locked(shelf, *first);
  return first;
}

void Depot::change_step(unsigned step) noexcept {
  store_relaxed(step_, static_cast<std::uint8_t>(step));
  store_relaxed(changes_, static_cast<std::uint16_t>(changes_.load(std::memory_order_relaxed) + 1));
}

void Depot::grow(bool waited) noexcept {
  const unsigned step = step_.load(std::memory_order_relaxed);
  const unsigned more = waited ? more_contended_ : 0;
  if (step < most_step_ + more) change_step(step + 1);
}

void Depot::grow_working_set() noexcept {
  const std::uint32_t missed = rounds();
  const std::uint32_t overflow = overflow_.load(std::memory_order_relaxed);
  const std::uint32_t working_set = working_set_.load(std::memory_order_relaxed) + missed;
  store_relaxed(overflow_, static_cast<std::uint16_t>(overflow > missed ? overflow - missed : 0));
  store_relaxed(working_set_,
                static_cast<std::uint16_t>(working_set < most_working_set() ? working_set : most_working_set()));
}

Magazine* Depot::exchange(Shelf shelf, Magazine* surplus) noexcept {
  const LockGuard hold(lock_);
  count_exchange(hold.waited());
  Magazine* first = first_[shelf].load(std::memory_order_relaxed);
  if (first == nullptr || (shelf == kEmpty && first->capacity != rounds())) return nullptr;
  pop_locked(shelf, *first);
  if (surplus != nullptr) push_locked(surplus);
  return first;
}

void Depot::give(Magazine* magazine) noexcept {
  const LockGuard hold(lock_);
  push_locked(magazine);
}

bool Depot::holds(const void* object) noexcept {
  const LockGuard hold(lock_);
  return Magazine::is_in(object, first_[kFull].load(std::memory_order_relaxed));
}

Depot::Unused Depot::end_interval(bool& quiet) noexcept {
  const LockGuard hold(lock_);
  const Unused unused{count_[kFull].least, count_[kEmpty].least};
  const std::uint32_t working_set = working_set_.load(std::memory_order_relaxed);
  const std::uint32_t idle = unused.full * rounds();
  store_relaxed(working_set_, static_cast<std::uint16_t>(
                                  working_set > least_working_set() + idle ? working_set - idle : least_working_set()));
  store_relaxed(overflow_, 0);
  for (Count& count : count_) count.least = count.now;
  quiet = exchanges_.load(std::memory_order_relaxed) < kQuietExchanges;
  const unsigned step = step_.load(std::memory_order_relaxed);
  if (quiet && step > least_step_) change_step(step - 1);
  store_relaxed(exchanges_, 0);
  return unused;
}

Depot::Stats Depot::stats() noexcept {
  const LockGuard hold(lock_);
  return {count_[kFull].now, count_[kEmpty].now, full_rounds_.load(std::memory_order_relaxed),
          changes_.load(std::memory_order_relaxed)};
}

}  // namespace qm
