/// Page tables that map every address to itself, except the pool's inaccessible pages. Source: the RISC-V privileged
/// architecture, chapters Sv32 and Sv39.

#include <qm/hal/trap_unit.hpp>

#include <qm/hal/csr.hpp>

namespace qm::hal {
namespace {

using Entry = std::uintptr_t;

#if __riscv_xlen == 64
constexpr unsigned kIndexBits = 9, kRootShift = 30, kMode = 8, kModeShift = 60;
#else
constexpr unsigned kIndexBits = 10, kRootShift = 22, kMode = 1, kModeShift = 31;
#endif
constexpr unsigned kPageShift = 12;
constexpr std::size_t kEntries = std::size_t{1} << kIndexBits;
/// Addresses from here on are not below the middle of the address space, where Sv39 has no page that maps to itself.
constexpr std::size_t kRootEntries = kIndexBits == 9 ? kEntries / 2 : kEntries;
constexpr Entry kValid = 1, kAll = 0xcf;  // readable, writable, executable, accessed, dirty, valid

struct Tables {
  std::uintptr_t pool = 0;
  Entry* leaf = nullptr;
  std::uintptr_t leaf_start = 0;  ///< first address of the leaf table
  std::uintptr_t satp = 0;
};
constinit Tables tables;

constexpr Entry pointer_to(std::uintptr_t table) noexcept { return (table >> kPageShift) << 10 | kValid; }
constexpr Entry page_at(std::uintptr_t address) noexcept { return (address >> kPageShift) << 10 | kAll; }

/// Fills a table whose entries each map 1 << @p shift bytes to themselves, from @p start on.
void fill(Entry* table, std::size_t count, std::uintptr_t start, unsigned shift) noexcept {
  for (std::size_t i = 0; i < count; ++i) table[i] = page_at(start + (std::uintptr_t{i} << shift));
}

void flush() noexcept { asm volatile("sfence.vma" : : : "memory"); }

void set_page(std::uintptr_t page, bool accessible) noexcept {
  Entry& entry = tables.leaf[(page - tables.leaf_start) >> kPageShift];
  const Entry now = accessible ? page_at(page) : 0;
  if (__atomic_load_n(&entry, __ATOMIC_RELAXED) != now) __atomic_store_n(&entry, now, __ATOMIC_RELAXED);
  // Always: another hart may have made the change, and a hart may remember that a page was inaccessible.
  asm volatile("sfence.vma %0" : : "r"(page) : "memory");
}

}  // namespace

bool PageTrapUnit::prepare(std::uintptr_t pool, unsigned slots, std::uintptr_t place) noexcept {
  if (QM_CSR_READ(satp) >> kModeShift != 0) return false;  // the firmware has page tables of its own
  if (pool >> kRootShift >= kRootEntries) return false;
  auto* const root = reinterpret_cast<Entry*>(place);
  fill(root, kRootEntries, 0, kRootShift);
  for (std::size_t i = kRootEntries; i < kEntries; ++i) root[i] = 0;
  Entry* above = &root[pool >> kRootShift];
#if __riscv_xlen == 64
  auto* const middle = reinterpret_cast<Entry*>(place + kPage);
  constexpr unsigned kMiddleShift = kPageShift + kIndexBits;
  fill(middle, kEntries, pool >> kRootShift << kRootShift, kMiddleShift);
  *above = pointer_to(place + kPage);
  above = &middle[pool >> kMiddleShift & (kEntries - 1)];
#endif
  const std::uintptr_t leaf = place + kTableBytes - kPage;
  tables.pool = pool;
  tables.leaf = reinterpret_cast<Entry*>(leaf);
  tables.leaf_start = pool & ~(kNoCross - 1);
  fill(tables.leaf, kEntries, tables.leaf_start, kPageShift);
  *above = pointer_to(leaf);
  const std::size_t pages = std::size_t{slots} * 2 + 1;
  for (std::size_t i = 0; i < pages; ++i) tables.leaf[(pool - tables.leaf_start + i * kPage) >> kPageShift] = 0;
  tables.satp = std::uintptr_t{kMode} << kModeShift | place >> kPageShift;
  arm();
  const bool is_armed = QM_CSR_READ(satp) == tables.satp;  // hardware without this mode ignores the write
  disarm();
  return is_armed;
}

void PageTrapUnit::arm() noexcept {
  flush();
  QM_CSR_WRITE(satp, tables.satp);
  flush();
}

void PageTrapUnit::disarm() noexcept {
  QM_CSR_WRITE(satp, 0);
  flush();
}

void PageTrapUnit::show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept {
  const std::uintptr_t start = tables.pool + slot * kSlotBytes;
  set_page(start, false);
  set_page(start + kPage, low != high);
  set_page(start + 2 * kPage, false);
}

void PageTrapUnit::open(std::uintptr_t address) noexcept { set_page(address & ~(kPage - 1), true); }

void PageTrapUnit::refresh() noexcept { flush(); }

}  // namespace qm::hal
