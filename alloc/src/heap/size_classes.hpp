#pragma once
/// The heap's size classes: their sizes, and the table that finds the class of a size.
///
///     to 224         steps of 16; with QM_ALIGNMENT below 16 a class of 24, and steps of 24 from 160 to 232
///     to 1088        at most an eighth above the size before, and such that at most a sixteenth of a slab of 4 to
///                    16 KiB is unused: the slab holds 15, 14, 12, ... objects
///     above          three, of which slabs of 16 and 32 KiB hold 6, 7 and 5: for buffers of 2.5, 4 and 6 KB and their
///                    headers. A class serves a size if at most an eighth is waste; sizes between are large blocks
///
/// Classes are numbered from 1; number 0 stands for sizes that no class serves. The sections know a class by its tag,
/// which is its number in words: the offset of the hart's pointer to its per-hart cache of the class (heap_sections.S).
/// A tag is a byte, so there is no room for a further class. The sections find the classes up to 1088 by a table; the
/// slow half of an allocation finds the others, and a free finds all classes by their pages.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/heap.hpp>
#include <qm/detail/page_map.hpp>

#include "fastpath/sections.hpp"

namespace qm::heap {

/// The part of a large class's stride that lies before the object in a build with call sites.
inline constexpr std::uint16_t kHead = kCallSites ? kAlignment : 0;
/// Sizes of the classes in bytes, rising, by number.
inline constexpr std::uint16_t kClassBytes[] = {
#if QM_ALIGNMENT == 16
    0,   16,  32,  48,  64,  80,  96,  112, 128, 144, 160, 176,  192,  208,          224,          256,
#else
    0,   16,  24,  32,  48,  64,  80,  96,  112, 128, 144, 160,  184,  208,          232,          256,
#endif
    288, 320, 352, 400, 448, 512, 576, 640, 720, 800, 896, 1024, 1088, 2720 - kHead, 4672 - kHead, 6528 - kHead};
inline constexpr unsigned kClasses = sizeof kClassBytes / sizeof kClassBytes[0];  ///< number 0 counted
inline constexpr std::size_t kClassStep = std::size_t{1} << QM_CLASS_STEP_LOG2;
static_assert(kClasses == QM_CLASSES && kClassBytes[kClasses - 1] == kMaxClassBytes);
inline constexpr unsigned kLastInTable = 28;  ///< the last class that the sections know
static_assert(kClassBytes[kLastInTable] == QM_CLASS_STEPS * kClassStep);

static_assert(PageMap::tag_of(kClasses - 1) / sizeof(void*) == kClasses - 1, "a tag is a byte");

}  // namespace qm::heap

/// The tags of the classes, by size less one, in steps. The sections read it.
extern "C" const std::array<std::uint8_t, QM_CLASS_STEPS> qm_heap_class_tags;
/// What a block is charged with, by the class's tag. With call sites; the sections read it.
extern "C" const std::array<std::uintptr_t, QM_CLASSES> qm_heap_class_amounts;

namespace qm::heap {

/// class_of() for sizes that are not in the table.
[[nodiscard]] unsigned class_of_large(std::size_t size) noexcept;

/// The number of the class that serves @p size bytes; 0 if none does. Size 0 counts as 1.
[[gnu::always_inline]] inline unsigned class_of(std::size_t size) {
  const std::size_t step = (size - (size != 0 ? 1 : 0)) >> QM_CLASS_STEP_LOG2;
  return step < QM_CLASS_STEPS ? qm_heap_class_tags[step] / sizeof(void*) : class_of_large(size);
}

/// The same for blocks at multiples of @p alignment, a power of two: slabs begin at pages, and objects lie at multiples
/// of their size. With call sites no class serves more than kAlignment, because a ChargeHead lies between its objects.
inline unsigned class_of(std::size_t size, std::size_t alignment) {
  if (alignment > (kCallSites ? kAlignment : kMaxClassBytes)) return 0;
  unsigned number = class_of(size);
  while (number != 0 && kClassBytes[number] % alignment != 0) number = number < kLastInTable ? number + 1 : 0;
  return number;
}

/// The caches of the classes, by number; nullptr: not made yet. Number 0 has none.
extern std::atomic<Cache*> classes[kClasses];

/// The cache of a class; nullptr if it is not made yet.
[[gnu::always_inline]] inline Cache* cache_of(unsigned number) noexcept {
  return classes[number].load(std::memory_order_acquire);  // pairs with the release in create_class_alone()
}

/// The same by the class's tag.
[[gnu::always_inline]] inline Cache* cache_of_tag(std::uint8_t tag) noexcept {
  const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(classes) + tag;
  return reinterpret_cast<const std::atomic<Cache*>*>(place)->load(std::memory_order_acquire);
}

/// The cache of the heap whose slab has @p block; nullptr if no slab has it.
[[gnu::always_inline]] inline Cache* cache_of(const void* block) noexcept {
  return cache_of_tag(page_map.tag(reinterpret_cast<std::uintptr_t>(block)));
}

}  // namespace qm::heap
