#pragma once
/// How one object is taken from its slab, with magazines and without.

#include <qm/detail/bits.hpp>
#include <qm/detail/slab.hpp>

namespace qm {

/// Empty slabs that a layer keeps; each further one goes back to the source.
inline constexpr std::size_t kEmptyKept = 2;

/// The word of the bitmap that has the first free object of @p slab. Precondition: lock held, there is one.
inline std::size_t SlabLayer::free_word_locked(Slab& slab) noexcept {
  std::size_t word = slab.first_word;
  if (bits(slab, word) != 0) [[likely]]
    return word;
  do ++word;
  while (bits(slab, word) == 0);
  slab.first_word = static_cast<std::uint16_t>(word);
  return word;
}

/// Counts @p count objects, at least one, that were taken from @p slab, the first of `usable_`. Lock held.
inline void SlabLayer::note_taken_locked(Slab& slab, unsigned count) noexcept {
  const unsigned before = slab.in_use;
  if (before == 0) --empty_slabs_;
  slab.in_use = static_cast<std::uint16_t>(before + count);
  if (before + count != slab.objects) return;
  usable_.pop_front(&slab);
  full_.push_front(&slab);
}

/// Takes one object of the existing slabs. @returns nullptr if there is none, or the limit is reached. Lock held.
[[gnu::always_inline]] inline void* SlabLayer::take_one_locked() noexcept {
  Slab* const slab = usable_.front();
  if (slab == nullptr || room_locked() == 0) return nullptr;
  const std::size_t word = free_word_locked(*slab);
  const unsigned long left = bits(*slab, word);
  store_relaxed(bits(*slab, word), left & (left - 1));  // as in carve()
  note_taken_locked(*slab, 1);
  count_taken_locked(1);
  return reinterpret_cast<void*>(slab->start + (word * kWordBits + lowest_bit(left)) * stride_);
}

}  // namespace qm
