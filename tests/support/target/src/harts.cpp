#include <qm/test/harts.hpp>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>

namespace qm::test {
namespace {

/// What the harts of one on_each_hart() share. Static: only one runs at a time.
struct Work {
  void (*function)(unsigned hart, void* argument) = nullptr;
  void* argument = nullptr;
  std::atomic<std::uint32_t> running{0};
  firmware::Event finished;
};

constinit Work work;
constinit firmware::Event barrier_opened;

void run_on_this_hart(void*) {
  work.function(hal::Port::hart_index(), work.argument);
  hal::hart_online(hal::Port::hart_index());  // a test may have taken it offline; tasks start on harts that are online
  // release: pairs with the acquire in on_each_hart().
  work.running.fetch_sub(1, std::memory_order_release);
  work.finished.signal();
}

}  // namespace

unsigned harts() noexcept { return firmware::boot_info().hart_count; }

void on_each_hart(unsigned count, void (*function)(unsigned hart, void* argument), void* argument) {
  work.function = function;
  work.argument = argument;
  work.running.store(count - 1, std::memory_order_relaxed);
  for (unsigned hart = 1; hart < count; ++hart) {
    if (!firmware::spawn(hart, "test", &run_on_this_hart, nullptr)) firmware::panic("a hart takes no task of a test");
  }
  function(0, argument);
  for (;;) {
    const std::uint32_t seen = work.finished.sequence();
    if (work.running.load(std::memory_order_acquire) == 0) return;
    firmware::wait_event(work.finished, seen);
  }
}

void Barrier::arrive() noexcept {
  // acquire: pairs with the release of the last to arrive, so that what each did before is visible to all after.
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    barrier_opened.signal();
    return;
  }
  for (;;) {
    const std::uint32_t seen = barrier_opened.sequence();
    if (phase_.load(std::memory_order_acquire) != phase) return;
    firmware::wait_event(barrier_opened, seen);
  }
}

}  // namespace qm::test
