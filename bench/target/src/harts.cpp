#include <qm/bench/harts.hpp>

#include <atomic>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/port.hpp>

namespace qm::bench {
namespace {

struct Work {
  void (*function)(unsigned hart, void* argument) = nullptr;
  void* argument = nullptr;
  std::atomic<std::uint32_t> running{0};
  firmware::Event finished;
};
constinit Work work;

void work_here(void*) {
  work.function(hal::Port::hart_index(), work.argument);
  // release: pairs with the acquire in on_harts().
  if (work.running.fetch_sub(1, std::memory_order_release) == 1) work.finished.signal();
}

}  // namespace

unsigned harts() noexcept { return firmware::boot_info().hart_count; }

void on_harts(unsigned first, unsigned last, void (*function)(unsigned hart, void* argument), void* argument) noexcept {
  work.function = function;
  work.argument = argument;
  const unsigned others = first == 0 ? last : last - first + 1;
  work.running.store(others, std::memory_order_relaxed);
  for (unsigned hart = first == 0 ? 1 : first; hart <= last; ++hart) {
    if (!firmware::spawn(hart, "bench", &work_here, nullptr)) firmware::panic("bench: a hart takes no task");
  }
  if (first == 0) function(0, argument);
  for (;;) {
    const std::uint32_t seen = work.finished.sequence();
    if (work.running.load(std::memory_order_acquire) == 0) return;
    firmware::wait_event(work.finished, seen);
  }
}

}  // namespace qm::bench
