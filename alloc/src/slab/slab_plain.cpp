/// The fast path of a build without magazines: takes one object of an existing slab, and puts it back into its slab.
/// Both functions are inlined completely (flattened), at -Os too.

#include <qm/exhaustion.hpp>

#include "slab/slab_take.hpp"

namespace qm {

[[gnu::flatten]] void* SlabLayer::take_plain() noexcept {
  if constexpr (hal::kManyHarts) {
    const LockGuard hold(lock_);
    return take_one_locked();
  }
  return take_one_locked();
}

[[gnu::always_inline]] inline bool SlabLayer::put_plain_locked(void* object) noexcept {
  if (exhaustion::under_pressure()) return false;  // an allocation waits for the memory
  Slab* const slab = find_by_mask(object);
  if (slab == nullptr) return false;
  const unsigned at = index_by_reciprocal(*slab, object);
  if (at == kNoIndex) return false;
  const unsigned in_word = at / kWordBits;
  unsigned long& word = bits(*slab, in_word);
  const unsigned long free = word;
  const unsigned long bit = 1UL << (at % kWordBits);
  const unsigned before = slab->in_use;
  if ((free & bit) != 0 || (before == 1 && empty_slabs_ == kEmptyKept)) return false;
  store_relaxed(word, free | bit);
  if (in_word < slab->first_word) slab->first_word = static_cast<std::uint16_t>(in_word);
  slab->in_use = static_cast<std::uint16_t>(before - 1);
  --out_;
  if (before == slab->objects) [[unlikely]] {
    full_.remove(slab);
    usable_.push_front(slab);
  }
  if (before == 1) {
    ++empty_slabs_;
    if (usable_.back() != slab) {
      usable_.remove(slab);
      usable_.push_back(slab);
    }
  }
  return true;
}

[[gnu::flatten]] bool SlabLayer::put_plain(void* object) noexcept {
  if constexpr (hal::kManyHarts) {
    const LockGuard hold(lock_);
    return put_plain_locked(object);
  }
  return put_plain_locked(object);
}

}  // namespace qm
