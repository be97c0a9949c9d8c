/// SQLite with the console: `sql run` runs the workload and prints its answers; `sql leak` does not free some strings.

#include <qm/firmware/app.hpp>

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

}  // namespace

void qm::firmware::early_main(const BootInfo& info) { start_allocator(info); }

void qm::firmware::main(const BootInfo&) {
  asm volatile("csrs sstatus, %0" ::"r"(1ul << 13));  // enables floating point; only one task uses it
  serve_console({.version = "1.0"});
}
