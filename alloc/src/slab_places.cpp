/// Whether an address is an object of a layer, for any address.

#include <qm/page_map.hpp>
#include <qm/slab.hpp>

namespace qm {

/// Lets find() look where a new slab lies. Lock held.
void SlabLayer::widen(std::uintptr_t low, std::uintptr_t high) noexcept {
  const PageMap::Bank& bank = page_map.bank_of(low);
  if (kCallSites || &bank == &PageMap::kNoBank) {
    if (low < low_.load(std::memory_order_relaxed)) store_relaxed(low_, low);
    if (high > high_.load(std::memory_order_relaxed)) store_relaxed(high_, high);
  }
  // release: pairs with the load in is_memory()
  if (slabs_ == 1 || bank_.load(std::memory_order_relaxed) != &PageMap::kNoBank)
    bank_.store(&bank, std::memory_order_release);
}

Slab* SlabLayer::find(const void* object) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (!no_touch_) return find_in_memory(address);
  const LockGuard hold(lock_);
  return untouched().find(*this, address);
}

/// The bit of an object that is out does not change, so the lock is not needed to read it; it may be old for one that
/// is not.
bool SlabLayer::is_free(Slab& slab, unsigned index) const noexcept {
  const std::atomic_ref<unsigned long> word(bits(slab, index / kWordBits));
  return (word.load(std::memory_order_relaxed) >> (index % kWordBits) & 1) != 0;
}

/// Of an address that lies in @p slab, or in none.
inline SlabLayer::Standing SlabLayer::standing(Slab* slab, const void* address) const noexcept {
  if (slab == nullptr) return Standing::kOutside;
  const unsigned at = index(*slab, address);
  if (at == kNoIndex) return Standing::kInside;
  return is_free(*slab, at) ? Standing::kFree : Standing::kOut;
}

SlabLayer::Standing SlabLayer::judge_untouched(const void* address) noexcept {
  return standing(find(address), address);
}

SlabLayer::Standing SlabLayer::judge(const void* address) noexcept {
  if (no_touch_) return judge_untouched(address);  // a function of its own, so that others save no registers
  return standing(find_in_memory(reinterpret_cast<std::uintptr_t>(address)), address);
}

}  // namespace qm
