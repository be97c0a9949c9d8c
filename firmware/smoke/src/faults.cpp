#include "faults.hpp"

#include <cstdint>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/task.hpp>

namespace qm::smoke {
namespace {

constexpr unsigned kLine = firmware::kSoftwareLine + 30;

[[gnu::noinline]] std::uint64_t load_from(std::uintptr_t address) {
  std::uint64_t value;
  asm volatile("ld %0, 0(%1)" : "=r"(value) : "r"(address));
  return value;
}

/// Reads an address at which the board has no memory.
[[gnu::noinline]] void load_fault() { load_from(0x200); }
void illegal() { asm volatile(".4byte 0"); }
[[gnu::noinline]] void use_float() { asm volatile("fmv.d.x ft0, zero"); }

volatile std::uint64_t deepest = ~std::uint64_t{0};  // never reached

[[gnu::noinline]] std::uint64_t descend(std::uint64_t depth) {
  volatile char frame[256];
  frame[0] = static_cast<char>(depth);
  firmware::yield();
  if (depth == deepest) return 0;
  return descend(depth + 1) + static_cast<std::uint64_t>(frame[0]);
}
void overflow() { descend(0); }

/// Faults in an interrupt handler. The backtrace shows the handler's frames, then those of the interrupted code.
void in_interrupt() {
  firmware::register_interrupt(
      kLine, [](void*) { load_fault(); }, nullptr);
  firmware::raise_interrupt(0, kLine);
  for (;;) {
  }
}
void on_other_hart() {
  firmware::register_interrupt(
      kLine, [](void*) { illegal(); }, nullptr);
  firmware::raise_interrupt(1, kLine);
  for (;;) firmware::yield();
}
void panic() { firmware::panic("asked for"); }

struct Fault {
  std::string_view name;
  void (*run)();
};
constexpr Fault kFaults[] = {{"load", load_fault},   {"illegal", illegal},  {"float", use_float},
                             {"overflow", overflow}, {"irq", in_interrupt}, {"hart1", on_other_hart},
                             {"panic", panic}};

}  // namespace

void run_fault(std::string_view name) {
  for (const Fault& fault : kFaults) {
    if (fault.name == name) fault.run();
  }
}

}  // namespace qm::smoke
