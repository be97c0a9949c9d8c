/// The demo firmware: the allocator, its books and its console on a small but living system.

#include <array>

#include <qm/console/words.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

#include "background.hpp"
#include "caches.hpp"
#include "serial_console.hpp"
#include "version.hpp"
#include "workload.hpp"

namespace qm::firmware {
namespace {

/// Sets the allocator up over all free memory.
void start_allocator(const BootInfo& info) {
  std::array<MemoryRange, 16> memory;
  std::size_t count = 0;
  for (const hal::MemoryRange& range : info.memory) {
    if (count < memory.size()) memory[count++] = {range.low, range.bytes()};
  }
  if (initialize({memory.data(), count}, info.hart_count) != Status::kOk) panic("the allocator cannot start");
  attach_hart(0);
}

/// Opens the books, as large as the boot options say; what they name is traced from its first allocation on.
void open_books(const BootInfo& info, const console::BootOptions& options) {
  trace::Config config;
  if (options.records != 0) config.record_bytes = options.records * trace::kBytesPerRecord;
  if (options.stack_bytes != 0) config.stack_bytes = options.stack_bytes;
  config.object_base = info.memory.front().low & ~std::uintptr_t{0xffffff};
  if (trace::initialize(config) != Status::kOk) panic("the books cannot be opened");
  std::string_view list = options.trace;
  while (!list.empty()) trace::trace_from_creation(console::next_item(list));
}

}  // namespace

void early_main(const BootInfo& info) {
  const console::BootOptions options = console::parse_boot_options(info.bootargs);
  start_allocator(info);
  open_books(info, options);
  if (!demo::create_caches()) panic("no memory for the demo's caches");
}

void hart_main(unsigned hart) { attach_hart(hart); }

void main(const BootInfo& info) {
  demo::start_background();
  demo::run_console(info);  // does not return
}

}  // namespace qm::firmware
