/// PMP entries over the pool. Source: the RISC-V privileged architecture, chapter Physical Memory Protection.
///
///     entry 0           the pool's start; off
///           1 + 2i      up to slot i's window: the edge before it. Denied
///           2 + 2i      up to the window's end. Allowed, or empty
///           1 + 2n      up to the pool's end: the last edge. Denied
///           15          everything else: allowed
///
/// An entry ranges from the address of the one before it (TOR). The lowest entry that matches decides.

#include <qm/hal/trap_unit.hpp>

#include <array>

#include <qm/hal/csr.hpp>

namespace qm::hal {
namespace {

constexpr unsigned kEntries = 16;
constexpr std::uint8_t kAllow = 7, kToNext = 1 << 3, kPowerOfTwo = 3 << 3;
constexpr std::uintptr_t kModifyPrivilege = std::uintptr_t{1} << 17, kPreviousMode = std::uintptr_t{3} << 11;
constexpr std::uintptr_t kHasSupervisor = 1 << ('S' - 'A');

/// What the registers of every hart are to be. Each word is written by one hart at a time, and read by any.
struct Plan {
  std::uintptr_t pool = 0;
  unsigned slots = 0;
  std::array<std::uintptr_t, kEntries> address{};
  std::array<std::uint8_t, kEntries> configuration{};
};
constinit Plan plan;

#define QM_PMP_ADDRESS(n) asm volatile("csrw pmpaddr" #n ", %0" : : "r"(plan.address[n]) : "memory")
#define QM_PMP_CONFIGURATION(n) asm volatile("csrw pmpcfg" #n ", %0" : : "r"(configuration((n)*4)) : "memory")

/// The configurations of the entries from @p first on, as many as a register has.
std::uintptr_t configuration(unsigned first) noexcept {
  std::uintptr_t word = 0;
  for (unsigned i = sizeof word; i-- != 0;) word = word << 8 | plan.configuration[first + i];
  return word;
}

void write_configurations() noexcept {
  QM_PMP_CONFIGURATION(0);
  QM_PMP_CONFIGURATION(2);
#if __riscv_xlen == 32
  QM_PMP_CONFIGURATION(1);
  QM_PMP_CONFIGURATION(3);
#endif
}

/// Addresses first: an entry whose address has not been written yet never allows more than the pool.
void write_all() noexcept {
  QM_PMP_ADDRESS(0);
  QM_PMP_ADDRESS(1);
  QM_PMP_ADDRESS(2);
  QM_PMP_ADDRESS(3);
  QM_PMP_ADDRESS(4);
  QM_PMP_ADDRESS(5);
  QM_PMP_ADDRESS(6);
  QM_PMP_ADDRESS(7);
  QM_PMP_ADDRESS(8);
  QM_PMP_ADDRESS(9);
  QM_PMP_ADDRESS(10);
  QM_PMP_ADDRESS(11);
  QM_PMP_ADDRESS(12);
  QM_PMP_ADDRESS(13);
  QM_PMP_ADDRESS(14);
  QM_PMP_ADDRESS(15);
  write_configurations();
  // A hart with S-mode may remember what its PMP allowed.
  if ((QM_CSR_READ(misa) & kHasSupervisor) != 0) asm volatile("sfence.vma" : : : "memory");
}

std::uintptr_t start_of(unsigned slot) noexcept { return plan.pool + slot * PmpTrapUnit::kSlotBytes; }

}  // namespace

bool PmpTrapUnit::prepare(std::uintptr_t pool, unsigned slots, std::uintptr_t) noexcept {
  plan = {.pool = pool, .slots = slots};
  plan.address[0] = pool >> 2;
  for (unsigned slot = 0; slot < slots; ++slot) {
    const std::uintptr_t end = start_of(slot + 1);
    plan.address[1 + 2 * slot] = plan.address[2 + 2 * slot] = end >> 2;
    plan.configuration[1 + 2 * slot] = plan.configuration[2 + 2 * slot] = kToNext;
  }
  const unsigned last = 1 + 2 * slots;
  plan.address[last] = (start_of(slots) + kEdgeBytes) >> 2;
  plan.configuration[last] = kToNext;
  plan.address[kEntries - 1] = ~std::uintptr_t{0};
  plan.configuration[kEntries - 1] = kPowerOfTwo | kAllow;
  // A hart without PMP, or with fewer entries, reads zero; one with a coarser grain reads other low bits.
  write_all();
  std::uintptr_t first, end, rest;
  asm volatile("csrr %0, pmpaddr0\n\tcsrr %1, pmpaddr1\n\tcsrr %2, pmpaddr15"
               : "=&r"(first), "=&r"(end), "=&r"(rest)
               :
               : "memory");
  QM_CSR_SET(mstatus, kModifyPrivilege);
  const bool can_modify = (QM_CSR_READ(mstatus) & kModifyPrivilege) != 0;
  QM_CSR_CLEAR(mstatus, kModifyPrivilege);
  return first == plan.address[0] && end == plan.address[1] && rest != 0 && can_modify;
}

void PmpTrapUnit::arm() noexcept {
  write_all();
  QM_CSR_CLEAR(mstatus, kPreviousMode);
  QM_CSR_SET(mstatus, kModifyPrivilege);
}

void PmpTrapUnit::disarm() noexcept { QM_CSR_CLEAR(mstatus, kModifyPrivilege); }

void PmpTrapUnit::show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept {
  plan.configuration[1 + 2 * slot] = kToNext;
  plan.configuration[3 + 2 * slot] = kToNext;
  plan.address[1 + 2 * slot] = low >> 2;
  plan.address[2 + 2 * slot] = high >> 2;
  plan.configuration[2 + 2 * slot] = low != high ? kToNext | kAllow : kToNext;
  write_all();
}

void PmpTrapUnit::open(std::uintptr_t address) noexcept {
  for (unsigned entry = 1; entry <= 1 + 2 * plan.slots; ++entry) {
    if (address >> 2 < plan.address[entry]) {
      plan.configuration[entry] = kToNext | kAllow;
      break;
    }
  }
  write_all();
}

void PmpTrapUnit::refresh() noexcept { write_all(); }

}  // namespace qm::hal
