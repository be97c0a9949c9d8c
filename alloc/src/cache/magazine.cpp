#include <qm/detail/magazine.hpp>

namespace qm {

constinit void* const kClosed[2] = {nullptr, nullptr};
constinit const HartCache kClosedHartCache{};

bool Magazine::is_in(const void* object, Magazine* first) noexcept {
  for (Magazine* full = first; full != nullptr; full = full->next) {
    for (unsigned i = 0; i < full->rounds; ++i) {
      if (full->slots()[i] == object) return true;
    }
  }
  return false;
}

Magazine* HartCache::load(Magazine* magazine) noexcept {
  Magazine* old = loaded.load(std::memory_order_relaxed);
  if (old != nullptr) old->rounds = static_cast<std::uint8_t>(saved_top.load(std::memory_order_relaxed) - old->slots());
  store_relaxed(loaded, magazine);
  store_relaxed(saved_top, magazine != nullptr ? magazine->slots() + magazine->rounds : closed_address());
  return old;
}

void HartCache::swap() noexcept { set_prev(load(prev)); }

bool HartCache::take(void*& object) noexcept {
  Magazine* from = loaded.load(std::memory_order_relaxed);
  if (from == nullptr || saved_top.load(std::memory_order_relaxed) == from->slots()) {
    if (prev == nullptr || prev->rounds == 0) return false;
    swap();
  }
  void** top_slot = saved_top.load(std::memory_order_relaxed) - 1;
  store_relaxed(saved_top, top_slot);
  object = *top_slot;
  return true;
}

bool HartCache::put(void* object) noexcept {
  Magazine* to = loaded.load(std::memory_order_relaxed);
  if (to == nullptr || saved_top.load(std::memory_order_relaxed) == to->end()) {
    if (prev == nullptr || prev->rounds == prev->capacity) return false;
    swap();
  }
  void** slot = saved_top.load(std::memory_order_relaxed);
  *slot = object;
  store_relaxed(saved_top, slot + 1);
  return true;
}

unsigned HartCache::put(void* const* objects, unsigned count) noexcept {
  unsigned placed = 0;
  while (placed < count && put(objects[placed])) ++placed;
  return placed;
}

std::size_t HartCache::rounds() const noexcept {
  void** real = top.load(std::memory_order_relaxed);
  if (real == closed_address()) real = saved_top.load(std::memory_order_relaxed);
  Magazine* magazine = loaded.load(std::memory_order_relaxed);
  std::size_t count = magazine != nullptr && real != nullptr ? static_cast<std::size_t>(real - magazine->slots()) : 0;
  if (count > kMaxRounds) count = 0;  // the owner changed magazines between the two loads
  return count + prev_rounds.load(std::memory_order_relaxed);
}

}  // namespace qm
