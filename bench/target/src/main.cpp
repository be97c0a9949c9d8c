/// The main program of every bench image.

#include <array>

#include <qm/bench/path.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/port.hpp>
#include <qm/system.hpp>

bool qm::bench::profiling() noexcept {
  return firmware::boot_info().bootargs.find("profile") != std::string_view::npos;
}

namespace qm::firmware {
namespace {

/// Two consecutive reads show whether this emulator counts instructions.
bool counter_is_exact() noexcept {
  for (int i = 0; i < 100; ++i) {
    if (bench::count([] {}) != 0) return false;
  }
  return true;
}

/// Stops all ticks: an interrupt would be counted.
void silence(unsigned harts) noexcept {
  for (unsigned hart = 0; hart < harts; ++hart) set_tick_period(hart, 0);
  sleep_until(hal::Port::ticks() + hal::Port::tick_rate() / 100);  // a tick may be pending
}

}  // namespace

void early_main(const BootInfo& info) {
  std::array<MemoryRange, 16> memory;
  std::size_t count = 0;
  for (const hal::MemoryRange& range : info.memory) {
    if (count < memory.size()) memory[count++] = {range.low, range.bytes()};
  }
  if (initialize({memory.data(), count}, info.hart_count) != Status::kOk) panic("the allocator cannot start");
  attach_hart(0);
}

void hart_main(unsigned hart) { attach_hart(hart); }

void main(const BootInfo& info) {
  console_write("\r\n");  // the SBI firmware's banner may not end with a line end
  silence(info.hart_count);
  if (!counter_is_exact()) panic("bench: not under icount with shift=0");
  bench::run();
  bench::print_paths();
}

}  // namespace qm::firmware
