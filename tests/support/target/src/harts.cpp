#include <qm/test/harts.hpp>

#include <gtest/gtest.h>

#include <array>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>
#include <qm/hal/port.hpp>

namespace qm::test {
namespace {

struct Call {
  void (*function)(unsigned hart, void* argument);
  void* argument;
};

constinit firmware::Event barrier_opened;
std::array<testing::internal::Texts, hal::Port::kMaxHarts> texts;

}  // namespace

unsigned harts() noexcept { return firmware::boot_info().hart_count; }

void on_each_hart(unsigned count, void (*function)(unsigned hart, void* argument), void* argument) {
  Call call{function, argument};
  const auto run = [](unsigned hart, void* of) {
    const Call& called = *static_cast<Call*>(of);
    called.function(hart, called.argument);
    hal::hart_online(hart);  // a test may have taken it offline, and tasks start only on harts that are online
  };
  firmware::on_harts(0, count - 1, "test", run, &call);
}

void Barrier::arrive() noexcept {
  // acquire: pairs with the release of the last hart to arrive: all harts see what was done before the barrier.
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

namespace testing::internal {

Texts& own_texts() noexcept { return qm::test::texts[qm::hal::Port::hart_index()]; }
void call(void (*run)()) { run(); }

}  // namespace testing::internal
