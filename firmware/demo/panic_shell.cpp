#include "panic_shell.hpp"

#include <array>
#include <new>

#include <qm/console/trace.hpp>
#include <qm/firmware/boot.hpp>

namespace qm::demo {
namespace {

class PanicTerminal final : public console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override { firmware::panic_write(bytes); }
  std::size_t read(std::span<char> bytes) noexcept override { return firmware::panic_read(bytes); }
};

constinit PanicTerminal terminal;
constinit console::Console* former = nullptr;
constinit std::uint32_t patience_seconds = 0;
constinit bool attended = false;  // a user has typed

// Constructed anew each time: the former console may have stopped in any state, and so may this one after a fault.
alignas(console::Console) constinit std::byte shell_storage[sizeof(console::Console)]{};
alignas(console::Trace) constinit std::byte books_storage[sizeof(console::Trace)]{};

void greet() noexcept {
  std::array<char, 96> buffer;
  const auto write = [](void*, std::string_view bytes) noexcept { firmware::panic_write(bytes); };
  console::Output out(buffer, console::Output::Target::kTerminal, write, nullptr);
  out.text("*** panic shell: help lists the commands that work");
  if (patience_seconds != 0) out.print("; without a key within {} s the system ends", patience_seconds);
  out.put('\n');
  out.flush();
}

/// Waits for a user to type. @returns false if nobody types within patience_seconds.
bool wait_for_somebody(console::Console& shell) noexcept {
  const std::uint64_t begun = hal::Port::ticks();
  const std::uint64_t patience = hal::Port::tick_rate() * patience_seconds;
  std::array<char, 64> bytes;
  for (;;) {
    if (const std::size_t count = firmware::panic_read(bytes); count != 0) {
      shell.feed({bytes.data(), count});
      return true;
    }
    if (patience != 0 && hal::Port::ticks() - begun > patience) return false;
    firmware::panic_pause();
  }
}

void run_panic_shell() noexcept {
  console::ConsoleConfig config = former->config();
  config.prompt = "panic> ";
  config.wake = nullptr;
  auto& shell = *new (shell_storage) console::Console(terminal, config);
  new (books_storage) console::Trace(shell);
  if (!attended) greet();
  shell.take_over(attended ? shell : *former);
  attended = attended || wait_for_somebody(shell);
  if (!attended) return firmware::panic_write("\r\n");
  for (;;) {
    if (!shell.poll()) firmware::panic_pause();
  }
}

}  // namespace

void enable_panic_shell(console::Console& console, std::uint32_t seconds) noexcept {
  former = &console;
  patience_seconds = seconds;
  firmware::set_panic_shell(run_panic_shell);
}

}  // namespace qm::demo
