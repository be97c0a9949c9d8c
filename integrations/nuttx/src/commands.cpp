// Runs the console's commands from another shell.

#include <qm/console/console.hpp>
#include <qm/misuse.hpp>
#include <qm/system.hpp>

#include "bridge.h"
#include "commands.hpp"

namespace qm::nuttx {

[[gnu::weak]] void use_trace(console::Console&) noexcept {}  // trace.cpp overrides it

}  // namespace qm::nuttx

namespace {

using qm::console::Console;

void (*write_out)(const char* bytes, std::size_t count) = nullptr;

class CallersOutput final : public qm::console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override { write_out(bytes.data(), bytes.size()); }
  void yield() noexcept override { qm_nuttx_yield(); }
};

bool name_of(std::uintptr_t address, qm::console::Symbol& symbol) noexcept {
  const char* const name = qm_nuttx_name_of(address, &symbol.offset);
  if (name == nullptr) return false;
  symbol.name = name;
  return true;
}

Console& the_console() noexcept {
  static CallersOutput output;
  static Console console(output, {.version = "for NuttX", .harts = qm::hart_count(), .resolver = name_of});
  return console;
}

/// Reports misuse at once in short form, and with stacks and names at the next command.
void report_misuse(const qm::MisuseReport& report) noexcept {
  qm_nuttx_tell("a wrong free, or a block that was overwritten; the next command has more", report.object);
  the_console().notify(report);
}

}  // namespace

extern "C" {

void qm_nuttx_watch_misuse() noexcept {
  qm::nuttx::use_trace(the_console());
  qm::set_misuse_handler(report_misuse);
}

bool qm_nuttx_run_line(const char* line, void (*write)(const char* bytes, size_t count)) noexcept {
  write_out = write;
  return the_console().run(line) == qm::console::CommandStatus::kOk;
}

}  // extern "C"
