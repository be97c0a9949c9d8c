#include <qm/hal/turn.hpp>

namespace qm::hal {

bool Turn::take_or_wait() noexcept {
  const InterruptGuard masked;
  const HartMask self = HartMask{1} << Port::hart_index();
  waiting_.fetch_or(self, std::memory_order_seq_cst);
  // acquire: pairs with the store in give_back(). The waiting bit is set before the read: a turn that ends in between
  // wakes this hart.
  if (taken_.load(std::memory_order_seq_cst) == 0 && taken_.exchange(1, std::memory_order_acquire) == 0) {
    waiting_.fetch_and(~self, std::memory_order_relaxed);
    return true;
  }
  Port::wait_for_interrupt();
  return false;
}

void Turn::give_back() noexcept {
  taken_.store(0, std::memory_order_seq_cst);
  if constexpr (!kManyHarts) return;
  const HartMask waiting = waiting_.exchange(0, std::memory_order_seq_cst);
  for (unsigned hart = 0; hart < Port::kMaxHarts; ++hart) {
    if ((waiting >> hart & 1) != 0 && hart != Port::hart_index()) Port::send_ipi(hart);
  }
}

}  // namespace qm::hal
