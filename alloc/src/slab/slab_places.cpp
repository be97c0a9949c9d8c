/// Look-ups that work for any address: whether it is an object of a layer.

#include <qm/detail/slab.hpp>

namespace qm {

Slab* SlabLayer::find(const void* object) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (!no_touch_) return find_in_memory(address);
  const LockGuard hold(lock_);
  return no_touch_support().find(*this, address);
}

/// Reads the bit without the lock: the bit of an allocated object does not change. The bit of a free object may be
/// outdated.
bool SlabLayer::is_free(Slab& slab, unsigned index) const noexcept {
  const std::atomic_ref<unsigned long> word(bits(slab, index / kWordBits));
  return (word.load(std::memory_order_relaxed) >> (index % kWordBits) & 1) != 0;
}

/// @param[in] slab the slab that contains the address, or nullptr.
inline SlabLayer::ObjectState SlabLayer::object_state(Slab* slab, const void* address) const noexcept {
  if (slab == nullptr) return ObjectState::kOutside;
  const unsigned at = index(*slab, address);
  if (at == kNoIndex) return ObjectState::kInside;
  return is_free(*slab, at) ? ObjectState::kFree : ObjectState::kOut;
}

SlabLayer::ObjectState SlabLayer::classify_no_touch(const void* address) noexcept {
  return object_state(find(address), address);
}

SlabLayer::ObjectState SlabLayer::classify(const void* address) noexcept {
  if (no_touch_) return classify_no_touch(address);  // a separate function, so that others save no registers
  return object_state(find_in_memory(reinterpret_cast<std::uintptr_t>(address)), address);
}

}  // namespace qm
