// What the board owes the program: memory, a line, and a console after it has run.

#include <algorithm>

#include <qm/console/trace_books.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/symbols.hpp>
#include <qm/firmware/task.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

#include "board.h"

namespace {

class Line final : public qm::console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override { qm::firmware::console_write_frame(bytes); }
  std::size_t read(std::span<char> bytes) noexcept override { return qm::firmware::console_read(bytes); }
  void yield() noexcept override { qm::firmware::yield(); }
};

bool name_of(std::uintptr_t address, qm::console::Symbol& symbol) noexcept {
  static qm::firmware::SymbolName found;
  if (!qm::firmware::symbol(address, found)) return false;
  symbol = {found.name(), found.offset, found.size};
  return true;
}

}  // namespace

void board_put(const char* text, std::size_t length) { qm::firmware::console_write(std::span(text, length)); }

namespace qm::firmware {

void early_main(const BootInfo& info) {
  const auto smaller = [](const hal::MemoryRange& a, const hal::MemoryRange& b) { return a.bytes() < b.bytes(); };
  const hal::MemoryRange ram = *std::max_element(info.memory.begin(), info.memory.end(), smaller);
  const MemoryRange memory[] = {{ram.low, ram.bytes()}};
  if (initialize(memory, info.hart_count, []() noexcept { trace::initialize({}); }) != Status::kOk)
    panic("no allocator");
  attach_hart(0);
}

void hart_main(unsigned hart) { attach_hart(hart); }

void main(const BootInfo& info) {
  QM_CSR_SET(QM_XSTATUS, 1u << 13);  // one task computes with floating point: nobody has to keep its registers for it
  c_main();
  static Line line;
  static console::Console console(
      line, {.version = "1.0", .harts = info.hart_count, .ram_bytes = info.ram_bytes, .resolver = name_of});
  static console::TraceBooks books(console);
  console.start();
  for (;;) {
    const std::uint32_t seen = console_input().sequence();
    if (!console.poll()) wait_event(console_input(), seen, hal::Port::ticks() + hal::Port::tick_rate() / 10);
  }
}

}  // namespace qm::firmware
