// The allocator's start before main(), and its console.
#include "quartermaster.hpp"

extern "C" {
#include "board.h"
extern char __heap_start[], __heap_end[];
}

namespace {

// Runs before other constructors, which may allocate.
[[gnu::constructor(101)]] void start_allocator() {
  const qm::MemoryRange memory[] = {
      {reinterpret_cast<std::uintptr_t>(__heap_start), static_cast<std::size_t>(__heap_end - __heap_start)}};
  const auto open_trace = []() noexcept { qm::trace::initialize({.object_base = 0x80000000}); };
  if (qm::initialize(memory, 1, open_trace) != qm::Status::kOk) board_stop("the allocator cannot start");
  qm::attach_hart(0);
}

class Line final : public qm::console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override {
    for (const char byte : bytes) board_put(byte);
  }
  std::size_t read(std::span<char> bytes) noexcept override {
    std::size_t count = 0;
    for (int byte; count < bytes.size() && (byte = board_get()) >= 0;) bytes[count++] = static_cast<char>(byte);
    return count;
  }
};

qm::console::CommandStatus run(qm::console::Invocation& call) noexcept {
  on_command();
  return call.ok();
}
QM_CONSOLE_COMMAND(words, {.name = "words", .usage = "words", .summary = "copy four words", .run = run});

}  // namespace

extern "C" void run_console() {
  static Line line;
  static qm::console::Console console(line, {.version = "1.0"});
  static qm::console::Trace trace(console);
  console.start();
  for (;;) console.poll();
}
