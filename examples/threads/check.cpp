/// Checks whether the port and its threads conform, as another image of the same kernel. Ends with status 0 if they do.

#include <array>
#include <atomic>
#include <string_view>

#include <qm/conformance/port_check.hpp>
#include <qm/conformance/thread_check.hpp>
#include <qm/system.hpp>

#include "kernel.hpp"

extern "C" char __heap_start[], __heap_end[];

namespace {

using qm::hal::Port;

constexpr unsigned kThreads = 6;

void print(std::string_view text) {
  std::array<char, 128> line{};
  line[text.copy(line.data(), line.size() - 1)] = 0;
  kernel::print(line.data());
}

const qm::MemoryRange& memory() {
  static const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(__heap_start),
                                     static_cast<std::size_t>(__heap_end - __heap_start)};
  return range;
}

void check_threads(void*) {
  const bool conform = qm::conformance::check_threads({.write = print, .harts = Port::kMaxHarts, .threads = kThreads});
  kernel::finish(conform ? 0 : 1);
}

void start_threads() {
  if (qm::initialize({&memory(), 1}, Port::kMaxHarts) != qm::Status::kOk) Port::fatal("no allocator");
  qm::attach_hart(0);
  for (unsigned i = 1; i < kThreads; ++i) {
    kernel::start(
        "thread", [](void*) { qm::conformance::attend_thread_check(); }, nullptr);
  }
  kernel::start("thread check", check_threads, nullptr);
}

/// Checks the port before there are threads, with interrupts enabled.
void check_port(unsigned hart) {
  Port::restore_interrupts(Port::InterruptState::kEnabled);
  if (hart != 0) qm::conformance::attend_port_check();
  else if (!qm::conformance::check_port(
               {print, {reinterpret_cast<std::byte*>(memory().start), memory().size}, Port::kMaxHarts}))
    kernel::finish(1);
  Port::mask_interrupts();
}

constinit std::atomic<bool> threads_are_started{false};

}  // namespace

extern "C" [[noreturn]] void hart_start(unsigned hart) {
  kernel::open_hart(1);
  check_port(hart);
  if (hart == 0) {
    start_threads();
    threads_are_started.store(true, std::memory_order_release);
    for (unsigned other = 1; other < Port::kMaxHarts; ++other) Port::send_ipi(other);
  } else {
    while (!threads_are_started.load(std::memory_order_acquire)) Port::wait_for_interrupt();
    qm::attach_hart(hart);
  }
  kernel::run_threads();
}
