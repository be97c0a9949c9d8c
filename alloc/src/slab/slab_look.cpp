/// Statistics and checks of a slab layer: for reports, `verify` and tests.

#include <qm/detail/slab.hpp>

namespace qm {

SlabStats SlabLayer::stats() noexcept {
  const LockGuard hold(lock_);
  const std::size_t whole = slabs_ - short_slabs_;
  SlabStats stats;
  stats.slabs = slabs_;
  stats.empty_slabs = empty_slabs_;
  stats.bytes = bytes_locked();
  stats.objects_out = out_;
  stats.objects_out_high = out_high_;
  stats.objects_total = whole * objects_ + short_slabs_;
  const std::uint32_t limit = limit_.load(std::memory_order_relaxed);
  stats.limit = limit != kNoLimit ? limit : 0;
  stats.taken_ever = taken_ever_;
  return stats;
}

bool SlabLayer::locate(std::uintptr_t address, ObjectPlace& place) noexcept {
  const void* const there = reinterpret_cast<const void*>(address);
  Slab* slab = no_touch_ ? find(there) : find_by_mask(there);
  if (slab == nullptr) return false;
  if (!no_touch_) {
    // A short slab ends where a whole one does; the memory before its start is not its own.
    const std::uintptr_t end = reinterpret_cast<std::uintptr_t>(slab + 1);
    if (end - address > bytes_of(slab->objects)) return false;
  }
  place = {};
  place.slab = slab->start;
  place.objects = slab->objects;
  place.in_header = !no_touch_ && address >= reinterpret_cast<std::uintptr_t>(&bits(*slab, words() - 1));
  // Behind the last object, the part of its stride that would hold the next object's tag may be missing.
  if (place.in_header || address < slab->start || (address - slab->start) / stride_ >= slab->objects) return true;
  place.index = static_cast<unsigned>((address - slab->start) / stride_);
  place.object = object(*slab, place.index);
  place.offset = address - reinterpret_cast<std::uintptr_t>(place.object);
  place.is_out = !is_free(*slab, place.index);
  return true;
}

bool SlabLayer::is_sound(Slab& slab) noexcept {
  unsigned free = 0;
  for (unsigned word = 0; word < words(); ++word) {
    if (word < slab.first_word && bits(slab, word) != 0) return false;
    for (unsigned long left = bits(slab, word); left != 0; left &= left - 1) ++free;
  }
  return slab.layer == this && slab.in_use + free == slab.objects &&
         (!no_touch_ || no_touch_support().find(*this, slab.start) == &slab);
}

bool SlabLayer::validate() noexcept {
  const LockGuard hold(lock_);
  std::uint32_t slabs = 0;
  std::uint32_t empty = 0;
  std::uint32_t single = 0;
  std::uint32_t out = 0;
  const auto check = [&](const Ring<Slab>& list, bool full) {
    for (Slab* slab = list.front(); slab != nullptr; slab = list.next(slab)) {
      if (!is_sound(*slab) || (slab->in_use == slab->objects) != full) return false;
      if (empty != 0 && slab->in_use != 0 && !full) return false;  // S2
      ++slabs;
      empty += slab->in_use == 0 ? 1 : 0;
      single += slab->objects != objects_ ? 1 : 0;
      out += slab->in_use;
    }
    return true;
  };
  return check(usable_, false) && check(full_, true) && slabs == slabs_ && empty == empty_slabs_ &&
         single == short_slabs_ && out == out_;
}

}  // namespace qm
