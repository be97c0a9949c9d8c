#include <array>
#include <utility>

#include <qm/firmware/app.hpp>
#include <qm/system.hpp>

namespace qm::firmware {

[[gnu::weak]] void open_trace() noexcept {}  // app_trace.cpp overrides it

void start_allocator(const BootInfo& info, void (*open)() noexcept) noexcept {
  // The largest memory region first: the allocator's own first pages come from it.
  std::array<MemoryRange, hal::MemoryMap::kMaxRanges> memory;
  std::size_t count = 0;
  for (const hal::MemoryRange& range : info.memory) {
    memory[count] = {range.low, range.bytes()};
    if (memory[count].size > memory[0].size) std::swap(memory[count], memory[0]);
    ++count;
  }
  if (initialize({memory.data(), count}, info.hart_count, open) != Status::kOk) panic("the allocator cannot start");
  attach_hart(0);
  set_hart_start([](unsigned hart) noexcept { attach_hart(hart); });
}

}  // namespace qm::firmware
