/// The depot and the reserve of a cache: what of its magazines no hart owns.

#include <qm/magazine.hpp>

namespace qm {
namespace {

/// A magazine holds at most so many bytes of objects, and where harts wait for each other.
constexpr std::size_t kMostBytes = 4096;
constexpr std::size_t kMostBytesContended = 16384;
constexpr std::uint32_t kStartRounds = 13;

}  // namespace

// ---- the depot ------------------------------------------------------------------------------------------------------

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
  least_step_ = static_cast<std::uint8_t>(start);
  most_step_ = static_cast<std::uint8_t>(most);
  contended_step_ = static_cast<std::uint8_t>(contended);
  store_relaxed(kept_, least_kept());
}

inline void Depot::push_locked(Magazine* magazine) noexcept {
  const std::uint32_t rounds = magazine->rounds;
  Shelf& shelf = rounds != 0 ? full_ : empty_;
  magazine->next = shelf.first.load(std::memory_order_relaxed);
  store_relaxed(shelf.first, magazine);
  ++shelf.count;
  store_relaxed(full_rounds_, full_rounds_.load(std::memory_order_relaxed) + rounds);
}

inline Magazine* Depot::pop_locked(Shelf& shelf) noexcept {
  Magazine* magazine = shelf.first.load(std::memory_order_relaxed);
  if (magazine == nullptr) return nullptr;
  store_relaxed(shelf.first, magazine->next);
  if (--shelf.count < shelf.least) shelf.least = shelf.count;
  store_relaxed(full_rounds_, full_rounds_.load(std::memory_order_relaxed) - magazine->rounds);
  return magazine;
}

void Depot::change_step(unsigned step) noexcept {
  store_relaxed(step_, static_cast<std::uint8_t>(step));
  store_relaxed(changes_, static_cast<std::uint16_t>(changes_.load(std::memory_order_relaxed) + 1));
}

void Depot::grow(bool waited) noexcept {
  const unsigned step = step_.load(std::memory_order_relaxed);
  if (step < (waited ? contended_step_ : most_step_)) change_step(step + 1);
}

void Depot::keep_more() noexcept {
  const std::uint32_t missed = rounds();
  const std::uint32_t passed = passed_.load(std::memory_order_relaxed);
  const std::uint32_t kept = kept_.load(std::memory_order_relaxed) + missed;
  store_relaxed(passed_, passed > missed ? passed - missed : 0);
  store_relaxed(kept_, kept < most_kept() ? kept : most_kept());
}

Magazine* Depot::exchange_for_full(Magazine* surplus) noexcept {
  const LockGuard hold(lock_);
  count_exchange(hold.waited());
  Magazine* full = pop_locked(full_);
  if (full != nullptr && surplus != nullptr) push_locked(surplus);
  return full;
}

Magazine* Depot::exchange_for_empty(Magazine* surplus) noexcept {
  const LockGuard hold(lock_);
  count_exchange(hold.waited());
  const Magazine* first = empty_.first.load(std::memory_order_relaxed);
  if (first == nullptr || first->capacity != rounds()) return nullptr;
  Magazine* empty = pop_locked(empty_);
  if (surplus != nullptr) push_locked(surplus);
  return empty;
}

void Depot::give(Magazine* magazine) noexcept {
  const LockGuard hold(lock_);
  push_locked(magazine);
}

Magazine* Depot::take_full() noexcept {
  const LockGuard hold(lock_);
  return pop_locked(full_);
}

Magazine* Depot::take_empty() noexcept {
  const LockGuard hold(lock_);
  return pop_locked(empty_);
}

namespace {

bool holds_object(Magazine* first, const void* object) noexcept {
  for (Magazine* full = first; full != nullptr; full = full->next) {
    for (unsigned i = 0; i < full->rounds; ++i) {
      if (full->slots()[i] == object) return true;
    }
  }
  return false;
}

}  // namespace

bool Depot::holds(const void* object) noexcept {
  const LockGuard hold(lock_);
  return holds_object(full_.first.load(std::memory_order_relaxed), object);
}

bool Reserve::holds(const void* object) noexcept {
  const LockGuard hold(lock_);
  return holds_object(stocked_, object);
}

Depot::Unused Depot::end_interval(bool& quiet) noexcept {
  const LockGuard hold(lock_);
  const Unused unused{full_.least, empty_.least};
  const std::uint32_t kept = kept_.load(std::memory_order_relaxed);
  const std::uint32_t idle = unused.full * rounds();
  store_relaxed(kept_, kept > least_kept() + idle ? kept - idle : least_kept());
  store_relaxed(passed_, 0);
  full_.least = full_.count;
  empty_.least = empty_.count;
  quiet = exchanges_.load(std::memory_order_relaxed) < kQuietExchanges;
  const unsigned step = step_.load(std::memory_order_relaxed);
  if (quiet && step > least_step_) change_step(step - 1);
  store_relaxed(exchanges_, 0);
  return unused;
}

Depot::Stats Depot::stats() noexcept {
  const LockGuard hold(lock_);
  return {full_.count, empty_.count, full_rounds_.load(std::memory_order_relaxed), changes_.load(std::memory_order_relaxed)};
}

// ---- the reserve ----------------------------------------------------------------------------------------------------

void* Reserve::take_locked() noexcept {
  Magazine* magazine = stocked_;
  if (magazine == nullptr) return nullptr;
  void* object = magazine->slots()[--magazine->rounds];
  if (magazine->rounds == 0) {
    stocked_ = magazine->next;
    magazine->next = spare_;
    spare_ = magazine;
  }
  set_held_locked(held_.load(std::memory_order_relaxed) - 1);
  return object;
}

void* Reserve::take() noexcept {
  const LockGuard hold(lock_);
  return take_locked();
}

void* Reserve::take_surplus() noexcept {
  const LockGuard hold(lock_);
  const bool surplus = held_.load(std::memory_order_relaxed) > promised_.load(std::memory_order_relaxed);
  return surplus ? take_locked() : nullptr;
}

bool Reserve::put(void* object) noexcept {
  if (missing() == 0) return false;
  const LockGuard hold(lock_);
  if (missing() == 0) return false;
  if (stocked_ == nullptr || stocked_->rounds == stocked_->capacity) {
    Magazine* magazine = spare_;  // there is one: room() is enough for what is promised
    spare_ = magazine->next;
    magazine->next = stocked_;
    stocked_ = magazine;
  }
  stocked_->slots()[stocked_->rounds++] = object;
  set_held_locked(held_.load(std::memory_order_relaxed) + 1);
  return true;
}

void Reserve::add(Magazine* magazine) noexcept {
  const LockGuard hold(lock_);
  magazine->next = spare_;
  spare_ = magazine;
  room_ += magazine->capacity;
}

void Reserve::promise(std::uint32_t objects) noexcept {
  const LockGuard hold(lock_);
  store_relaxed(promised_, objects);
}

Magazine* Reserve::take_spare() noexcept {
  const LockGuard hold(lock_);
  Magazine* magazine = spare_;
  if (magazine == nullptr || room_ - magazine->capacity < promised_.load(std::memory_order_relaxed)) return nullptr;
  spare_ = magazine->next;
  room_ -= magazine->capacity;
  return magazine;
}

Reserve::Stats Reserve::stats() noexcept {
  const LockGuard hold(lock_);
  return {promised_.load(std::memory_order_relaxed), held_.load(std::memory_order_relaxed), room_};
}

}  // namespace qm
