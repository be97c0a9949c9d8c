/// SQLite with the console: `sql run` runs the workload and prints its answers; `sql leak` does not free some strings;
/// `sql few` has 3 readings instead of 12,000.

#include <qm/console/findleaks.hpp>
#include <qm/firmware/app.hpp>
#include <qm/firmware/scan_roots.hpp>

#include "workload.h"

namespace {

qm::console::CommandStatus run_sql(qm::console::Invocation& call) noexcept {
  const bool leaky = call.words()[1] == "leak", few = call.words()[1] == "few";
  if (!leaky && !few && call.words()[1] != "run") return call.usage();
  const auto print = [](void* context, const char* line) {
    static_cast<qm::console::Invocation*>(context)->print("{}\n", std::string_view(line));
  };
  return workload_run(few ? 3 : WORKLOAD_READINGS, leaky, print, &call) == 0 ? call.ok()
                                                                             : call.fail("the database failed");
}
QM_CONSOLE_COMMAND(sql, {.name = "sql",
                         .usage = "sql run|leak|few",
                         .summary = "ask a database",
                         .run = run_sql,
                         .min_arguments = 1,
                         .max_arguments = 1});

}  // namespace

void qm::firmware::early_main(const BootInfo& info) {
  start_allocator(info);
  name_scan_roots();
  console::add_findleaks();
}

void qm::firmware::main(const BootInfo&) {
  asm volatile("csrs sstatus, %0" ::"r"(1ul << 13));  // enables floating point; only one task uses it
  serve_console({.version = "1.0"});
}
