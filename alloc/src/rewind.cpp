#include <qm/config.h>
#include <qm/rewind.hpp>

#include <array>
#include <cstddef>

#include <qm/cache.hpp>
#include <qm/page_map.hpp>

#include "inlined_section.hpp"
#include "sections.hpp"

extern "C" {
extern const char qm_sections_start[];
extern const char qm_sections_end[];
// The linker script's. Weak: an image without inlined sections need not have them (one with them must:
// inlined_sections.cpp).
extern const qm::InlinedSection __qm_sections_start[] __attribute__((weak));
extern const qm::InlinedSection __qm_sections_end[] __attribute__((weak));
// The heap's two, in the order of the text. Weak: it may not be linked.
extern const qm::InlinedSection qm_heap_sections[] __attribute__((weak));
/// This hart's pointers to its cells of the heap's classes, by tag; the first is of no class.
[[gnu::section(".tdata.qm_hot")]] constinit thread_local std::array<qm::Cell*, QM_CLASSES> qm_heap_cells = [] {
  std::array<qm::Cell*, QM_CLASSES> cells{};
  cells.fill(qm::closed_cell());
  return cells;
}();
/// The leaf of the page map that this hart's latest free was in; at first one that has no page.
[[gnu::section(".tdata.qm_hot")]] constinit thread_local const void* qm_heap_leaf = qm::PageMap::no_leaf();
}

namespace {

using qm::InlinedSection;
static_assert(offsetof(qm::Cell, top) == QM_CELL_TOP);
static_assert(offsetof(qm::Cell, limit) == QM_CELL_LIMIT);
static_assert(!qm::kCounted || offsetof(qm::Cell, counts) == QM_CELL_ALLOCS);
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

/// Committed, but not counted: the handler may allocate from this cache, and its count must not be overwritten.
void finish_count(const std::uintptr_t* registers) noexcept {
  *reinterpret_cast<std::uintptr_t*>(registers[kT0] + QM_CELL_ALLOCS) = registers[kT3];
}

/// Where to resume @p inside bytes behind the start of a section that commits at @p commit and ends at @p end.
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

void qm::internal::set_cell_pointer(std::uint16_t offset, Cell* cell) noexcept {
  *reinterpret_cast<Cell**>(reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer()) + offset) = cell;
}

void qm::internal::reset_heap_pointers() noexcept {
  qm_heap_cells.fill(closed_cell());
  qm_heap_leaf = PageMap::no_leaf();
}

std::uint16_t qm::internal::heap_cell_pointer(std::uint8_t tag) noexcept {
  const auto offset =
      reinterpret_cast<std::uintptr_t>(&qm_heap_cells) - reinterpret_cast<std::uintptr_t>(__builtin_thread_pointer());
  return static_cast<std::uint16_t>(offset + tag);
}
