#include <qm/config.h>
#include <qm/rewind.hpp>

#include <array>
#include <cstddef>

#include <qm/cache.hpp>
#include <qm/detail/page_map.hpp>

#include "fastpath/inlined_section.hpp"
#include "fastpath/sections.hpp"

extern "C" {
extern const char qm_sections_start[];
extern const char qm_sections_end[];
// Defined by the linker script. Weak: an image without inlined sections need not have them. An image with inlined
// sections must: inlined_sections.cpp.
extern const qm::InlinedSection __qm_sections_start[] __attribute__((weak));
extern const qm::InlinedSection __qm_sections_end[] __attribute__((weak));
// The heap's two sections, in the order of the text. Weak: the heap may not be linked.
extern const qm::InlinedSection qm_heap_sections[] __attribute__((weak));
/// This hart's pointers to its per-hart caches of the heap's classes, by tag; the first belongs to no class.
[[gnu::section(".tdata.qm_hot")]] constinit thread_local std::array<qm::HartCache*, QM_CLASSES> qm_heap_hart_caches =
    [] {
      std::array<qm::HartCache*, QM_CLASSES> hart_caches{};
      hart_caches.fill(qm::closed_hart_cache());
      return hart_caches;
    }();
/// The page-map leaf of this hart's latest free; at first one that has no page.
[[gnu::section(".tdata.qm_hot")]] constinit thread_local const void* qm_heap_leaf = qm::PageMap::no_leaf();
}

namespace {

using qm::InlinedSection;
static_assert(offsetof(qm::HartCache, top) == QM_HART_CACHE_TOP);
static_assert(offsetof(qm::HartCache, limit) == QM_HART_CACHE_LIMIT);
static_assert(!qm::kCounted || offsetof(qm::HartCache, counts) == QM_HART_CACHE_ALLOCS);
static_assert(sizeof(void*) == QM_WORD_BYTES);

}  // namespace

#if defined(QM_CALL_SITES)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Winvalid-offsetof"  // GCC knows them all the same
/// What the sections read of a cache.
namespace qm {
struct CacheLayout {
  static constexpr std::size_t kSlabs = offsetof(Cache, slabs_);
  static_assert(kSlabs + offsetof(SlabLayer, low_) == QM_CACHE_LOW);
  static_assert(kSlabs + offsetof(SlabLayer, high_) == QM_CACHE_HIGH);
  static_assert(offsetof(Cache, charge_) == QM_CACHE_AMOUNT, "an ObjectCharge begins with its amount");
  static_assert(offsetof(SiteView, words) == QM_VIEW_WORDS && offsetof(SiteView, limit) == QM_VIEW_LIMIT);
  static_assert(int{offsetof(ChargeHead, waste)} - int{sizeof(ChargeHead)} == QM_HEAD_WASTE);
  static_assert(int{offsetof(ChargeHead, tag)} - int{sizeof(ChargeHead)} == QM_HEAD_TAG);
  static_assert(offsetof(SiteCounts, wastes) == QM_WASTE_BEHIND_WORD && sizeof(SiteCounts::Waste) == sizeof(SiteWord));
};
}  // namespace qm
#pragma GCC diagnostic pop
#endif

namespace {

constexpr std::uintptr_t kBlock = QM_SECTION_BLOCK;
constexpr std::uintptr_t kCommit = QM_SECTION_COMMIT;
constexpr std::uintptr_t kPopBlocks = 2;  // the push, which counts nothing, is the block after them
constexpr unsigned kT0 = 5;               // register numbers
constexpr unsigned kT3 = 28;

/// The pop is committed, but not counted. Counts it now: the handler may allocate from this cache, and its count must
/// not be overwritten.
void finish_count(const std::uintptr_t* registers) noexcept {
  *reinterpret_cast<std::uintptr_t*>(registers[kT0] + QM_HART_CACHE_ALLOCS) = registers[kT3];
}

/// Where to resume a section that is interrupted at @p pc, @p inside bytes behind its start. It commits at @p commit
/// and ends at @p end.
std::uintptr_t resume(std::uintptr_t pc, std::uintptr_t inside, std::uintptr_t commit, std::uintptr_t end,
                      const std::uintptr_t* registers) noexcept {
  if (inside <= commit) return pc - inside;
  if (inside >= end) return pc;
  finish_count(registers);
  return pc - inside + end;
}

std::size_t inlined_sections() noexcept { return static_cast<std::size_t>(__qm_sections_end - __qm_sections_start); }

std::uintptr_t rewind_inlined(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
  const InlinedSection* low =
      __qm_sections_start;  // the last section that starts at or before pc is in [low, low + count)
  for (std::size_t count = inlined_sections(); count > 1;) {
    const std::size_t half = count / 2;
    if (low[half].start() <= pc) low += half;
    count -= half;
  }
  return resume(pc, pc - low->start(), low->commit, low->end, registers);
}

}  // namespace

std::uintptr_t qm_rewind_from(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
  const std::uintptr_t offset = pc - reinterpret_cast<std::uintptr_t>(qm_sections_start);
  if (offset < static_cast<std::uintptr_t>(qm_sections_end - qm_sections_start)) {
    const bool counts = qm::kCounted && offset / kBlock < kPopBlocks;
    return resume(pc, offset & (kBlock - 1), kCommit, kCommit + (counts ? 8 : 4), registers);
  }
  if (qm_heap_sections != nullptr) {
    const InlinedSection& section = qm_heap_sections[pc >= qm_heap_sections[1].start() ? 1 : 0];
    const std::uintptr_t inside = pc - section.start();
    if (inside < section.end) return resume(pc, inside, section.commit, section.end, registers);
  }
  return inlined_sections() != 0 ? rewind_inlined(pc, registers) : pc;
}

void qm::internal::set_hart_cache_pointer(std::uint16_t offset, HartCache* hart_cache) noexcept {
  *reinterpret_cast<HartCache**>(reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer()) + offset) = hart_cache;
}

void qm::internal::reset_heap_pointers() noexcept {
  qm_heap_hart_caches.fill(closed_hart_cache());
  qm_heap_leaf = PageMap::no_leaf();
}

std::uint16_t qm::internal::heap_hart_cache_pointer(std::uint8_t tag) noexcept {
  const auto offset = reinterpret_cast<std::uintptr_t>(&qm_heap_hart_caches) -
                      reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  return static_cast<std::uint16_t>(offset + tag);
}
