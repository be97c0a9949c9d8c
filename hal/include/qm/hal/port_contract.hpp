#pragma once
/// The port: what a platform supplies to Quartermaster, and nothing else.
///
/// A port is a class of static functions named `qm::hal::Port`, defined by the header <qm/hal/selected_port.hpp> of the
/// one port that the build selects (folders hal/host, hal/qemu_virt, hal/template). Selection is by include path, so
/// that every call is resolved at compile time and may be inlined. Six functions are required; `PortDefaults` has the
/// rest.
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

/// What the allocator keeps of a thread. A port whose scheduler takes the hart from a thread between any two
/// instructions has one in each thread, and one for what runs on each hart outside of threads, and supplies
///
///     static ThreadState& thread_state() noexcept;  // the running thread's, whichever hart it is on
///
/// kThreads (<qm/hal/port.hpp>) is true then. See "Threads that migrate" in docs/porting.md.
struct ThreadState {
  bool reclaiming = false;  ///< a reclaim of this thread is under way, so that it does not recurse
};

/// The build's option of this name, the same for the library and for who uses it.
#if !defined(QM_MAX_HARTS)
#define QM_MAX_HARTS 8
#endif

/// What a port may leave out.
struct PortDefaults {
  /// Most harts this image can use, 1 to 32. A compile-time maximum: the arrays of the round and the masks have this
  /// size.
  static constexpr unsigned kMaxHarts = QM_MAX_HARTS;
  static_assert(kMaxHarts >= 1 && kMaxHarts <= 32);

  /// Rate of ticks(), in Hz: from 1 kHz to below 2^32.
  static std::uint64_t tick_rate() noexcept { return 10'000'000; }

  /// The stack that contains frame pointer @p frame, so that a walk over frames cannot leave it.
  /// @returns {0, 0} where the port does not know: the walk then records the first return address only.
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

  /// A number for the running context that no other context of this boot has had or will have, where there are no more
  /// than one hart can remember: whoever knows it knows the label and the stack. 0: none; both are then asked for each
  /// time, as in trap handlers. A port that has tasks numbers them as it makes them.
  static std::uint32_t context_key() noexcept { return 0; }

  /// Waits until an interrupt is pending, also while interrupts are masked; may return at once. Every wait for another
  /// hart calls it, and that hart sends an IPI when there is something to see.
  static void wait_for_interrupt() noexcept {}

  /// A hint inside a spin loop.
  static void relax() noexcept {}
};

/// The contract. `InterruptState` is an enumeration, of what mask_interrupts() needs to undo itself; its value kEnabled
/// says that interrupts were enabled.
template <class P>
concept PortContract = std::derived_from<P, PortDefaults> &&
    requires(unsigned hart, typename P::InterruptState state, const char* reason) {
  P::InterruptState::kEnabled;
  /// Index of the running hart, dense from 0; below kMaxHarts. At most a few instructions: slow paths call it freely.
  { P::hart_index() }
  noexcept->std::same_as<unsigned>;
  /// Masks interrupts on this hart. Nests: the returned state says whether they were masked already.
  { P::mask_interrupts() }
  noexcept->std::same_as<typename P::InterruptState>;
  /// Goes back to @p state.
  { P::restore_interrupts(state) }
  noexcept;
  /// A monotonic time, the same on all harts up to a few ticks.
  { P::ticks() }
  noexcept->std::same_as<std::uint64_t>;
  /// Makes @p hart (another than the running one) call qm::hal::on_ipi() soon, with interrupts masked.
  { P::send_ipi(hart) }
  noexcept;
  /// Stops the system: the allocator found its own state corrupt. Must not return and must not allocate.
  { P::fatal(reason) }
  noexcept;
};

}  // namespace qm::hal
