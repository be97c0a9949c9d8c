#include <qm/test/harts.hpp>

#include <cstdlib>
#include <thread>
#include <vector>

#include <qm/hal/port.hpp>

namespace qm::test {

unsigned harts() noexcept {
  const char* text = std::getenv("QM_HARTS");
  const unsigned long count = text == nullptr ? 4 : std::strtoul(text, nullptr, 10);
  if (count < 1) return 1;
  return count > hal::Port::kMaxHarts ? hal::Port::kMaxHarts : static_cast<unsigned>(count);
}

void on_each_hart(unsigned count, void (*function)(unsigned hart, void* argument), void* argument) {
  std::vector<std::thread> others;
  for (unsigned hart = 1; hart < count; ++hart) {
    others.emplace_back([=] {
      const hal::HostHart stand_for(hart);
      function(hart, argument);
    });
  }
  {
    const hal::HostHart stand_for(0);
    function(0, argument);
  }
  for (std::thread& other : others) other.join();
}

void Barrier::arrive() noexcept {
  // acquire: pairs with the release of the last hart to arrive: all harts see what was done before the barrier.
  const std::uint32_t phase = phase_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) + 1 == count_) {
    arrived_.store(0, std::memory_order_relaxed);
    phase_.store(phase + 1, std::memory_order_release);
    return;
  }
  while (phase_.load(std::memory_order_acquire) == phase) std::this_thread::yield();
}

}  // namespace qm::test
