/// The demo firmware: the allocator, its books and its console on a small but living system.

#include <algorithm>
#include <array>
#include <utility>

#include <qm/console/words.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

#include "arenas.hpp"
#include "background.hpp"
#include "caches.hpp"
#include "serial_console.hpp"
#include "version.hpp"
#include "workload.hpp"

namespace qm::firmware {
namespace {

/// Sets the allocator up over all free memory, the largest piece first: its own first pages come from there.
void start_allocator(const BootInfo& info) {
  std::array<MemoryRange, hal::MemoryMap::kMaxRanges> memory;
  std::size_t count = 0;
  for (const hal::MemoryRange& range : info.memory) {
    memory[count] = {range.low, range.bytes()};
    if (memory[count].size > memory[0].size) std::swap(memory[count], memory[0]);
    ++count;
  }
  if (initialize({memory.data(), count}, info.hart_count) != Status::kOk) panic("the allocator cannot start");
  attach_hart(0);
}

/// Opens the books, as large as the boot options say; what they name is traced from its first allocation on.
void open_books(const BootInfo& info, const console::BootOptions& options) {
  trace::Config config;
  if (options.records != 0) config.record_bytes = options.records * trace::kBytesPerRecord;
  if (options.stack_bytes != 0) config.stack_bytes = options.stack_bytes;
  // From 0 on, where that reaches all memory, so that objects in device windows have records too.
  std::uintptr_t low = UINTPTR_MAX, high = 0;
  for (const hal::MemoryRange& range : info.memory) {
    low = std::min(low, range.low);
    high = std::max(high, range.high);
  }
  config.object_base = high <= trace::kRecordedBytes ? 0 : low;
  if (trace::initialize(config) != Status::kOk) panic("the books cannot be opened");
  std::string_view list = options.trace;
  while (!list.empty()) trace::trace_from_creation(console::next_item(list));
}

}  // namespace

void early_main(const BootInfo& info) {
  const console::BootOptions options = console::parse_boot_options(info.bootargs);
  start_allocator(info);
  open_books(info, options);
  if (!demo::create_arenas() || !demo::create_caches()) panic("no memory for the demo's caches");
}

void hart_main(unsigned hart) { attach_hart(hart); }

void main(const BootInfo& info) {
  demo::start_background();
  demo::run_console(info);  // does not return
}

}  // namespace qm::firmware
