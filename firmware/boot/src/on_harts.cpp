#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>

namespace qm::firmware {
namespace {

/// The data that the harts of one on_harts() share. It is static because only one call runs at a time.
struct Work {
  void (*function)(unsigned hart, void* argument) = nullptr;
  void* argument = nullptr;
  std::atomic<std::uint32_t> running{0};
  Event finished;
};
constinit Work work;

void work_here(void*) {
  work.function(hal::Port::hart_index(), work.argument);
  // release: pairs with the acquire in on_harts().
  if (work.running.fetch_sub(1, std::memory_order_release) == 1) work.finished.signal();
}

}  // namespace

void on_harts(unsigned first, unsigned last, std::string_view name, void (*function)(unsigned hart, void* argument),
              void* argument) noexcept {
  const unsigned self = hal::Port::hart_index();
  const bool takes_part = first <= self && self <= last;
  work.function = function;
  work.argument = argument;
  work.running.store(last - first + (takes_part ? 0 : 1), std::memory_order_relaxed);
  for (unsigned hart = first; hart <= last; ++hart) {
    if (hart != self && !spawn(hart, name, &work_here, nullptr)) panic("a hart takes no task");
  }
  if (takes_part) function(self, argument);
  for (;;) {
    const std::uint32_t seen = work.finished.sequence();
    if (work.running.load(std::memory_order_acquire) == 0) return;
    wait_event(work.finished, seen);
  }
}

}  // namespace qm::firmware
