#include <qm/hal/flagged_section.hpp>

#include <linux/membarrier.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include <qm/hal/port.hpp>

namespace qm::hal {
namespace {

constinit std::array<FlaggedHart, Port::kMaxHarts> harts;
constinit FlaggedHart nobodys;  // always shut; no thread reads its flag

long membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0); }

/// Set before main() by the program's first thread; false before that, and if the kernel refuses.
bool has_membarrier = false;

/// The program's first thread is hart 0.
[[gnu::constructor]] void begin() noexcept {
  has_membarrier = membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) == 0;
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) open_sections(hart);
  harts[0].claimed.store(true, std::memory_order_relaxed);
  internal::own_flag = &harts[0];
}

}  // namespace

constinit thread_local FlaggedHart* internal::own_flag = &nobodys;

HartClaim::HartClaim(unsigned hart) noexcept : previous_(internal::own_flag) {
  claimed_ = !harts[hart].claimed.exchange(true, std::memory_order_acq_rel);  // pairs with the next claimant's
  if (claimed_) {
    internal::own_flag = &harts[hart];
  } else if (previous_ != &harts[hart]) {
    internal::own_flag = &nobodys;
  }
}

HartClaim::~HartClaim() {
  if (claimed_) internal::own_flag->claimed.store(false, std::memory_order_release);
  internal::own_flag = previous_;
}

bool has_claimed(unsigned hart) noexcept { return internal::own_flag == &harts[hart]; }

void shut_sections(unsigned hart) noexcept {
  if (!has_membarrier) return;  // the sections are always shut
  harts[hart].hart_caches.store(FlaggedHart::kShut, std::memory_order_relaxed);
  if (membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0) Port::fatal("membarrier fails after it was registered");
  // acquire: pairs with the release at a section's end: its changes of the per-hart cache are visible here.
  while (harts[hart].flag.load(std::memory_order_acquire)) sched_yield();
}

void open_sections(unsigned hart) noexcept {
  // release: F2
  if (has_membarrier) harts[hart].hart_caches.store(FlaggedHart::kStep * hart, std::memory_order_release);
}

}  // namespace qm::hal
