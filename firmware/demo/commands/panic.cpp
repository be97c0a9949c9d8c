/// panic: panics on purpose, in several places.
///
/// The functions on the path have C linkage, so that a backtrace prints plain names.

#include <qm/cache.hpp>
#include <qm/console/command.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>
#include <qm/detail/slab_pass.hpp>

#include "../caches.hpp"

namespace {

constexpr unsigned kLine = qm::firmware::kSoftwareLine + qm::firmware::kSoftwareLines - 1;

constinit std::atomic<bool> held{false};

}  // namespace

extern "C" {

/// Reads an address without memory.
[[gnu::noinline]] static void read_nothing(void*) { asm volatile("lb zero, 0(%0)" : : "r"(8)); }

/// Called with the slab layer's lock held and interrupts masked. Never returns, so it never unlocks.
[[gnu::noinline]] static void keep_lock(qm::SlabLayer&, qm::Slab&, void*) noexcept {
  held.store(true, std::memory_order_release);  // pairs with the acquire in panic_beside_lock()
  if (qm::hal::Port::hart_index() == 0) qm::firmware::panic("asked for, with a lock held");
  for (;;) qm::hal::Port::relax();
}

[[gnu::noinline]] static void hold_lock(void*) {
  qm::SlabPass pass(qm::demo::caches().packet->slabs());
  pass.step(keep_lock, nullptr);
}

/// Panics while another hart holds the slab lock of `packet` for ever. Without another hart, this hart holds it.
[[gnu::noinline]] static void panic_beside_lock() {
  (void)qm::demo::caches().packet->allocate();  // makes sure that there is a slab
  if (!qm::firmware::spawn(1, "holder", hold_lock, nullptr)) hold_lock(nullptr);
  while (!held.load(std::memory_order_acquire)) qm::firmware::yield();
  qm::firmware::panic("asked for, beside a held lock");
}

/// Panics while one `session` is held only by this stack, and another only by a register.
[[gnu::noinline]] static void panic_holding() {
  void* volatile on_stack = qm::demo::caches().session->allocate();
  void* const in_register = qm::demo::caches().session->allocate();
  asm volatile(
      "mv s11, %0\n\t"
      "li %0, 0\n\t"
      "mv a0, %1\n\t"
      "jr %2"
      :
      : "r"(in_register), "r"("asked for, with objects in hand"), "r"(&qm::firmware::panic)
      : "s11", "a0", "memory");
  (void)on_stack;
  __builtin_unreachable();
}

}  // extern "C"

namespace qm::demo {
namespace {

console::CommandStatus run_panic(console::Invocation& call) noexcept {
  const std::string_view how = call.words()[1];
  if (how.empty()) firmware::panic("asked for");
  if (how == "fault") read_nothing(nullptr);
  if (hal::in_panic()) return call.fail("not in panic");
  if (how == "interrupt") {
    firmware::register_interrupt(kLine, read_nothing, nullptr);
    firmware::raise_interrupt(hal::Port::hart_index(), kLine);
    for (;;) hal::Port::relax();
  } else if (how == "lock") {
    panic_beside_lock();
  } else if (how == "holding") {
    panic_holding();
  }
  return call.usage();
}

void complete_panic(console::Completion& completion) noexcept {
  if (completion.index() != 1) return;
  for (const std::string_view kind : {"fault", "interrupt", "lock", "holding"}) completion.offer(kind);
}

QM_CONSOLE_COMMAND(panic,
                   {.name = "panic",
                    .usage = "panic [fault|interrupt|lock|holding]",
                    .summary = "stop: at once, by an exception, in a handler, beside a held lock, with objects in hand",
                    .run = run_panic,
                    .min_arguments = 0,
                    .max_arguments = 1,
                    .complete = complete_panic,
                    .example = "panic fault\npanic interrupt\npanic lock\npanic holding",
                    .in_panic = true,
                    .wrap = console::Output::Wrap::kYes});

}  // namespace
}  // namespace qm::demo
