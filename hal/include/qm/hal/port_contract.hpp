#pragma once
/// The port: the functions that a platform supplies to Quartermaster.
///
/// A port is a class of static functions named `qm::hal::Port`, defined by the header <qm/hal/selected_port.hpp> of the
/// one port that the build selects (folders hal/host, hal/qemu_virt, hal/template). The build selects it by include
/// path, so every call is resolved at compile time and may be inlined. Six functions are required; `PortDefaults` has
/// defaults for the others.
///
///     struct Port : PortDefaults { ... };

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/config.h>

namespace qm::hal {

/// A set of harts, bit h for hart index h.
using HartMask = std::uint32_t;

/// A stack, [low, high). Both 0: not known.
struct StackBounds {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
};

/// The state that the allocator keeps for a thread. A port whose scheduler may preempt a thread after any instruction
/// keeps one in each thread and one per hart for the code that runs outside threads, and supplies
///
///     static ThreadState& thread_state() noexcept;  // the running thread's, on any hart
///
/// kThreads (<qm/hal/port.hpp>) is then true. See "Threads that migrate" in docs/porting.md.
struct ThreadState {
  bool reclaiming = false;  ///< this thread is reclaiming; prevents recursion
};

/// The build option of this name, the same for the library and its users.
#if !defined(QM_MAX_HARTS)
#define QM_MAX_HARTS 8
#endif

/// A trap unit makes parts of a piece of memory, the pool of guarded objects (<qm/guards.hpp>), inaccessible. The pool
/// is a row of slots of kSlotBytes. A slot begins with kEdgeBytes that are never an object; so many follow the last
/// slot, too. In the rest of each slot a window of whole kGrainBytes can be made accessible:
///
///     | edge | window | edge |   window  | ... | edge |
///     |<--- slot 0 -->|<---- slot 1 ---->|
///
/// The functions are called on one hart at a time, with interrupts masked, except arm(), disarm() and refresh().
/// This unit is for ports without one: nothing traps.
struct NoTrapUnit {
  static constexpr std::size_t kSlotBytes = 1024;
  static constexpr std::size_t kEdgeBytes = 64;
  static constexpr std::size_t kGrainBytes = 1;
  static constexpr unsigned kMostSlots = 255;
  /// Whether arm() and disarm() concern the running hart only.
  static constexpr bool kOfOneHart = true;
  /// Alignment of the pool. No multiple of kNoCross lies inside the pool and its tables; 0: one may.
  static constexpr std::size_t kAlign = 16;
  static constexpr std::size_t kNoCross = 0;
  /// Bytes of memory, at a multiple of kAlign, that the unit needs for its own tables.
  static constexpr std::size_t kTableBytes = 0;

  /// Builds the tables of a pool at @p pool; no window is accessible. @returns false if the hardware cannot do it: then
  /// no other function is called.
  static bool prepare(std::uintptr_t pool, unsigned slots, std::uintptr_t tables) noexcept {
    (void)pool;
    (void)slots;
    (void)tables;
    return false;
  }
  /// Makes the tables effective on the running hart, and ends that. Interrupts masked.
  static void arm() noexcept {}
  static void disarm() noexcept {}
  /// Makes [low, high) the accessible window of a slot, nothing if both are equal, and closes the edges beside the slot.
  /// The change is effective on the running hart; on each other one at the latest after its refresh().
  static void show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept {
    (void)slot;
    (void)low;
    (void)high;
  }
  /// Makes the memory around @p address, which is in the pool, accessible until the next show() of that slot or of one
  /// beside it.
  static void open(std::uintptr_t address) noexcept { (void)address; }
  /// Makes all earlier changes effective on the running hart. Interrupts masked.
  static void refresh() noexcept {}
};

/// Defaults for the members that a port may leave out.
struct PortDefaults {
  /// The trap unit of the port.
  using TrapUnit = NoTrapUnit;

  /// Most harts that this image can use, 1 to 32. A compile-time maximum: it is the size of the broadcast's arrays and
  /// masks.
  static constexpr unsigned kMaxHarts = QM_MAX_HARTS;
  static_assert(kMaxHarts >= 1 && kMaxHarts <= 32);

  /// Rate of ticks(), in Hz: from 1 kHz to below 2^32.
  static std::uint64_t tick_rate() noexcept { return 10'000'000; }

  /// The bounds of the stack that contains frame pointer @p frame. A stack walk stays between them.
  /// @returns {0, 0} if the port does not know them: the walk then records only the first return address.
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept {
    (void)frame;
    return {};
  }

  /// Writes a label of the running context, "boot", "task NAME", "irq N from task NAME", ... without the hart and
  /// without a final zero. Called with interrupts masked; must not block or allocate.
  /// @returns the number of characters written, at most label.size().
  static std::size_t context_label(std::span<char> label) noexcept {
    (void)label;
    return 0;
  }

  /// A number that identifies the running context among all contexts of this boot. The trace may reuse the label and
  /// the stack bounds that it has stored under this number. 0: the context has no number, and the trace asks for both
  /// each time, as in trap handlers. A port with tasks numbers them when it creates them.
  static std::uint32_t context_key() noexcept { return 0; }

  /// Writes the addresses of objects that only hardware of the running hart refers to, such as a descriptor's address
  /// in a device register. A leak scan treats them as references. Called with interrupts masked while all harts stand
  /// still; must not block or allocate.
  /// @returns the number of addresses written, at most words.size().
  static std::size_t hardware_roots(std::span<std::uintptr_t> words) noexcept {
    (void)words;
    return 0;
  }

  /// Waits until an interrupt is pending, even while interrupts are masked; may return at once. Every wait for another
  /// hart calls it, and that hart sends an IPI when the condition may have changed.
  static void wait_for_interrupt() noexcept {}

  /// A hint inside a spin loop.
  static void relax() noexcept {}
};

/// The contract. `InterruptState` is an enumeration of the states that mask_interrupts() returns and
/// restore_interrupts() restores; its value kEnabled means that interrupts were enabled.
template <class P>
concept PortContract = std::derived_from<P, PortDefaults> &&
    requires(unsigned hart, typename P::InterruptState state, const char* reason) {
  P::InterruptState::kEnabled;
  /// Index of the running hart, dense from 0, below kMaxHarts. At most a few instructions: slow paths call it often.
  { P::hart_index() }
  noexcept->std::same_as<unsigned>;
  /// Masks interrupts on this hart. Calls nest: the returned state says whether interrupts were masked before.
  { P::mask_interrupts() }
  noexcept->std::same_as<typename P::InterruptState>;
  /// Restores @p state, which mask_interrupts() returned.
  { P::restore_interrupts(state) }
  noexcept;
  /// A monotonic time; the clocks of all harts agree to a few ticks.
  { P::ticks() }
  noexcept->std::same_as<std::uint64_t>;
  /// Makes @p hart, which is not the running one, call qm::hal::on_ipi() soon, with interrupts masked.
  { P::send_ipi(hart) }
  noexcept;
  /// Stops the system because the allocator found its own state corrupt. Must not return and must not allocate.
  { P::fatal(reason) }
  noexcept;
};

}  // namespace qm::hal
