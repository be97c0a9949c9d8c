/// The trap unit over mprotect(). All threads share the page tables, so arm() and disarm() concern all of them.

#include <qm/hal/port.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <array>

namespace qm::hal {
namespace {

constinit std::uintptr_t pool = 0;
constinit unsigned slot_count = 0;
constinit std::array<bool, HostTrapUnit::kMostSlots> is_shown{};  // the page of the slot is accessible

bool set_pages(std::uintptr_t start, std::size_t bytes, bool accessible) noexcept {
  return mprotect(reinterpret_cast<void*>(start), bytes, accessible ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
}

bool set_pool(bool accessible) noexcept {
  return set_pages(pool, slot_count * HostTrapUnit::kSlotBytes + HostTrapUnit::kEdgeBytes, accessible);
}

std::uintptr_t start_of(unsigned slot) noexcept { return pool + slot * HostTrapUnit::kSlotBytes; }

}  // namespace

bool HostTrapUnit::prepare(std::uintptr_t start, unsigned slots, std::uintptr_t) noexcept {
  pool = start;
  slot_count = slots;
  is_shown = {};
  return sysconf(_SC_PAGESIZE) == static_cast<long>(kPage) && set_pool(false) && set_pool(true);
}

void HostTrapUnit::arm() noexcept {
  static_cast<void>(set_pool(false));
  for (unsigned slot = 0; slot < slot_count; ++slot) {
    if (is_shown[slot]) static_cast<void>(set_pages(start_of(slot) + kPage, kPage, true));
  }
}

void HostTrapUnit::disarm() noexcept { static_cast<void>(set_pool(true)); }

void HostTrapUnit::show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept {
  is_shown[slot] = low != high;
  const std::uintptr_t start = start_of(slot);
  static_cast<void>(set_pages(start, kPage, false));
  static_cast<void>(set_pages(start + kPage, kPage, low != high));
  static_cast<void>(set_pages(start + 2 * kPage, kPage, false));
}

void HostTrapUnit::open(std::uintptr_t address) noexcept {
  static_cast<void>(set_pages(address & ~(kPage - 1), kPage, true));
}

}  // namespace qm::hal
