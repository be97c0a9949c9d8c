/// SQLite under the console: `sql run` runs the workload and prints its answers, `sql leak` forgets to free some.

#include <algorithm>

#include <qm/console/trace_books.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/symbols.hpp>
#include <qm/firmware/task.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

#include "workload.h"

namespace {

qm::console::CommandStatus run_sql(qm::console::Invocation& call) noexcept {
  const bool leaky = call.words()[1] == "leak";
  if (!leaky && call.words()[1] != "run") return call.usage();
  const auto print = [](void* context, const char* line) {
    static_cast<qm::console::Invocation*>(context)->print("{}\n", std::string_view(line));
  };
  return workload_run(leaky, print, &call) == 0 ? call.ok() : call.fail("the database failed");
}
QM_CONSOLE_COMMAND(sql, {.name = "sql",
                         .usage = "sql run|leak",
                         .summary = "ask a database",
                         .run = run_sql,
                         .min_arguments = 1,
                         .max_arguments = 1});

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

/// One task computes with floating point, so nobody has to keep its registers for it.
void enable_floating_point() noexcept { asm volatile("csrs sstatus, %0" ::"r"(1ul << 13)); }

void talk(const qm::firmware::BootInfo& info) {
  static Line line;
  static qm::console::Console console(
      line, {.version = "1.0", .harts = info.hart_count, .ram_bytes = info.ram_bytes, .resolver = name_of});
  static qm::console::TraceBooks books(console);
  enable_floating_point();
  console.start();
  for (;;) {
    const std::uint32_t seen = qm::firmware::console_input().sequence();
    if (!console.poll()) {
      qm::firmware::wait_event(qm::firmware::console_input(), seen,
                               qm::hal::Port::ticks() + qm::hal::Port::tick_rate() / 10);
    }
  }
}

}  // namespace

namespace qm::firmware {

void early_main(const BootInfo& info) {
  const auto smaller = [](const hal::MemoryRange& a, const hal::MemoryRange& b) { return a.bytes() < b.bytes(); };
  const hal::MemoryRange ram = *std::max_element(info.memory.begin(), info.memory.end(), smaller);
  const MemoryRange memory[] = {{ram.low, ram.bytes()}};
  const auto open_books = []() noexcept { trace::initialize({}); };
  if (initialize(memory, info.hart_count, open_books) != Status::kOk) panic("the allocator cannot start");
  attach_hart(0);
}

void hart_main(unsigned hart) { attach_hart(hart); }

void main(const BootInfo& info) { talk(info); }

}  // namespace qm::firmware
