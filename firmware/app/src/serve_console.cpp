#include <array>
#include <atomic>

#include <qm/console/command.hpp>
#include <qm/firmware/app.hpp>
#include <qm/firmware/board_terminal.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/places.hpp>
#include <qm/firmware/symbols.hpp>
#include <qm/firmware/task.hpp>
#include <qm/misuse.hpp>

#include "use_trace.hpp"

namespace qm::firmware {
namespace {

bool resolve(std::uintptr_t address, console::Symbol& found) noexcept {
  static SymbolName name;  // one console, one task
  if (!symbol(address, name)) return false;
  found = {name.name(), name.offset, name.size, name.is_function};
  return true;
}

/// Offers symbols for completion, except names that are too long or have several words, because they cannot be typed.
void offer_symbols(console::Completion& completion) noexcept {
  visit_symbols(
      [](void* context, std::string_view qualifier, std::string_view name, std::uintptr_t) noexcept {
        std::array<char, console::Completion::kMaxCandidate> text;
        std::size_t length = 0;
        for (const std::string_view part : {qualifier, name}) {
          for (const char c : part) {
            if (length == text.size() || c == ' ' || c == ';') return true;
            text[length++] = c;
          }
        }
        static_cast<console::Completion*>(context)->offer({text.data(), length});
        return true;
      },
      &completion);
}

std::string_view build_id_text(std::span<const std::uint8_t> id) noexcept {
  static std::array<char, 40> text;
  std::size_t length = 0;
  for (const std::uint8_t byte : id) {
    if (length + 2 > text.size()) break;
    text[length++] = "0123456789abcdef"[byte >> 4];
    text[length++] = "0123456789abcdef"[byte & 15];
  }
  return {text.data(), length};
}

constinit std::atomic<console::Console*> served{nullptr};

}  // namespace

[[gnu::weak]] void use_trace(console::Console&) noexcept {}  // app_trace.cpp overrides it

console::ConsoleConfig of_this_boot(console::ConsoleConfig config) noexcept {
  const BootInfo& info = boot_info();
  config.harts = info.hart_count;
  if (config.build_id.empty()) config.build_id = build_id_text(info.build_id);
  if (config.ram_bytes == 0) config.ram_bytes = info.ram_bytes;
  if (config.resolver == nullptr) config.resolver = resolve;
  if (config.finder == nullptr) {
    config.finder = find_symbol;
    if (config.symbols == nullptr) config.symbols = offer_symbols;
  }
  if (config.describe == nullptr) config.describe = describe;
  if (config.wake == nullptr) config.wake = []() noexcept { console_input().signal(); };
  return config;
}

console::Console* served_console() noexcept { return served.load(std::memory_order_acquire); }

void serve_console(const console::ConsoleConfig& config) noexcept {
  static BoardTerminal terminal;
  static console::Console console(terminal, of_this_boot(config));
  use_trace(console);
  console.start();
  served.store(&console, std::memory_order_release);  // pairs with the acquire in served_console()
  if (!has_misuse_handler())
    set_misuse_handler([](const MisuseReport& report) noexcept { served_console()->notify(report); });
  const std::uint64_t millisecond = hal::Port::tick_rate() / 1000;
  for (;;) {
    const std::uint32_t seen = console_input().sequence();
    if (console.poll()) continue;
    const std::uint64_t end = console.needs_poll() ? hal::Port::ticks() + console.poll_ms() * millisecond : kForever;
    wait_event(console_input(), seen, console_wait_end(end));
  }
}

}  // namespace qm::firmware
