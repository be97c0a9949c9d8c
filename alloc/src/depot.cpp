/// The depot and the reserve of a cache: what of its magazines no hart owns.

#include <qm/magazine.hpp>

namespace qm {
namespace {

constexpr std::size_t kStartBytes = 4096;
constexpr std::size_t kMostBytes = 16384;
constexpr std::uint32_t kStartRounds = 13;

}  // namespace

// ---- the depot ------------------------------------------------------------------------------------------------------

void Depot::initialize(std::size_t object_size, std::uint32_t rounds) noexcept {
  unsigned start = 0;
  unsigned most = 0;
  for (unsigned step = 1; step < kMagazineSteps; ++step) {
    const bool wanted = rounds != 0 ? kMagazineRounds[step - 1] < rounds
                                    : kMagazineRounds[step] <= kStartRounds && kMagazineRounds[step] <= kStartBytes / object_size;
    if (wanted) start = step;
    if (kMagazineRounds[step] <= kMostBytes / object_size) most = step;
  }
  step_.store(start, std::memory_order_relaxed);
  least_step_ = static_cast<std::uint8_t>(start);
  most_step_ = static_cast<std::uint8_t>(most > start ? most : start);
}

void Depot::push_locked(Magazine* magazine) noexcept {
  Shelf& shelf = magazine->rounds != 0 ? full_ : empty_;
  magazine->next = shelf.first;
  shelf.first = magazine;
  std::atomic_ref(shelf.count).store(shelf.count + 1, std::memory_order_relaxed);  // has_full() looks without the lock
  full_rounds_ += magazine->rounds;
}

Magazine* Depot::pop_locked(Shelf& shelf) noexcept {
  Magazine* magazine = shelf.first;
  if (magazine == nullptr) return nullptr;
  shelf.first = magazine->next;
  std::atomic_ref(shelf.count).store(shelf.count - 1, std::memory_order_relaxed);
  if (shelf.count < shelf.least) shelf.least = shelf.count;
  full_rounds_ -= magazine->rounds;
  return magazine;
}

void Depot::change_step_locked(unsigned step) noexcept {
  step_.store(step, std::memory_order_relaxed);
  ++changes_;
}

void Depot::count_exchange_locked(bool waited) noexcept {
  if (exchanges_++ % kWindow == 0) waits_ = 0;
  if (!waited || ++waits_ < kWaits) return;
  waits_ = 0;
  const unsigned step = step_.load(std::memory_order_relaxed);
  if (step < most_step_) change_step_locked(step + 1);
}

/// An allocation finds nothing here: had more been kept, it would have.
void Depot::count_miss_locked() noexcept {
  if (passed_ == 0) return;
  const std::uint32_t missed = rounds();
  passed_ = static_cast<std::uint16_t>(passed_ > missed ? passed_ - missed : 0);
  if (kept_ < kMostKept) ++kept_;
}

Magazine* Depot::exchange_for_full(Magazine* surplus) noexcept {
  const LockGuard hold(lock_);
  count_exchange_locked(hold.waited());
  Magazine* full = pop_locked(full_);
  if (full == nullptr) count_miss_locked();
  if (full != nullptr && surplus != nullptr) push_locked(surplus);
  return full;
}

Magazine* Depot::exchange_for_empty(Magazine* surplus) noexcept {
  const LockGuard hold(lock_);
  count_exchange_locked(hold.waited());
  if (empty_.first == nullptr || empty_.first->capacity != rounds()) return nullptr;
  Magazine* empty = pop_locked(empty_);
  if (surplus != nullptr) push_locked(surplus);
  return empty;
}

bool Depot::turns_away() noexcept {
  const LockGuard hold(lock_);
  if (full_.count < kept_) return false;
  if (passed_ != UINT16_MAX) ++passed_;
  return true;
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
  return holds_object(full_.first, object);
}

bool Reserve::holds(const void* object) noexcept {
  const LockGuard hold(lock_);
  return holds_object(stocked_, object);
}

Depot::Unused Depot::end_interval(bool& quiet) noexcept {
  const LockGuard hold(lock_);
  const Unused unused{full_.least, empty_.least};
  kept_ = static_cast<std::uint8_t>(kept_ > kLeastKept + unused.full ? kept_ - unused.full : kLeastKept);
  passed_ = 0;
  full_.least = full_.count;
  empty_.least = empty_.count;
  quiet = exchanges_ < kQuietExchanges;
  const unsigned step = step_.load(std::memory_order_relaxed);
  if (quiet && step > least_step_) change_step_locked(step - 1);
  exchanges_ = 0;
  return unused;
}

Depot::Stats Depot::stats() noexcept {
  const LockGuard hold(lock_);
  return {full_.count, empty_.count, full_rounds_, changes_};
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
  promised_.store(objects, std::memory_order_relaxed);
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
