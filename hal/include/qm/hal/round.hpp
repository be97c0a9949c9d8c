#pragma once
/// The round: run a function on every hart of a set and wait until each has.
///
/// Only a hart itself may write its cells, so whoever wants them changed asks the hart. A request goes through one box
/// a hart:
///
///     NONE -> PENDING (initiator) -> RUNNING (the hart, by CAS) -> NONE (the hart, release)
///             PENDING -> NONE        (initiator, by CAS, when it gives up, or the hart has gone offline)
///
/// While no other hart is online there is nobody to ask: the initiator runs the function itself, whether its interrupts
/// are masked or not.
///
/// Invariants
/// - R1 One round at a time. A second initiator waits with interrupts enabled, so its own hart still serves its box.
/// - R2 The function runs with interrupts masked; all allocator locks mask interrupts; so it never runs inside a lock
///      of its own hart.
/// - R3 When run_on_harts() returns anything but kDone, the function runs on no further hart: what was pending is
///      withdrawn.

#include <cstdint>

#include <qm/hal/hart.hpp>

namespace qm::hal {

enum class RoundStatus : std::uint8_t {
  kDone,      ///< every hart of the set has run the function
  kTimedOut,  ///< the deadline passed; harts that have answered have run it
  kAborted,   ///< the caller's abort test said so
  kUnsafe,    ///< the caller may not ask (see may_ask_harts()); nothing was done
};

struct RoundResult {
  /// No hart is to blame: another round was under way all the time, and nothing was done.
  static constexpr unsigned kNobody = Port::kMaxHarts;

  RoundStatus status = RoundStatus::kDone;
  unsigned hart = 0;  ///< kTimedOut, kAborted: the first hart that had not answered, or kNobody
  [[nodiscard]] bool ok() const noexcept { return status == RoundStatus::kDone; }
};

/// What runs on each hart: O(1), masked, must not wait. @p hart is the hart it runs for.
using RoundFunction = void (*)(unsigned hart, void* argument) noexcept;

/// Asked while waiting; true makes the round give up.
using AbortTest = bool (*)() noexcept;

/// Default deadline: 0.7 s was seen on an overloaded host.
inline constexpr std::uint32_t kRoundDeadlineMs = 5000;

/// Runs @p function on every online hart of @p harts and waits for all.
/// @param[in] deadline_ms milliseconds to wait for the slowest hart, the wait for another round included.
/// @param[in] abort       null, or asked now and then.
/// Complexity: one IPI a hart.
/// Context:    may_ask_harts() must hold, else kUnsafe and nothing happens.
RoundResult run_on_harts(HartMask harts, RoundFunction function, void* argument,
                         std::uint32_t deadline_ms = kRoundDeadlineMs, AbortTest abort = nullptr) noexcept;

/// Sets what a round's initiator calls before it sends each IPI, interrupts as it has them; nullptr: nothing. For
/// tests: the harts answer one long after the other, as they do where a hart masks its interrupts for long.
void set_ipi_pause(void (*pause)() noexcept) noexcept;

/// What a hart does that was posted to: masked, bounded, must not wait.
using PostFunction = void (*)(unsigned hart) noexcept;

/// Sets what post() asks for; one for all. nullptr: nothing.
void set_post_function(PostFunction function) noexcept;

/// Makes each online hart of @p harts but the running one call the post function soon, and waits for none. A hart that
/// has not yet served an earlier post is not interrupted again. Complexity: one IPI a hart. Context: any.
void post(HartMask harts) noexcept;

/// Serves hart @p hart's box, then what was posted to it. The port calls it for each IPI, after it has cleared the
/// pending bit, with interrupts masked. Calling it with an empty box is harmless.
void on_ipi(unsigned hart) noexcept;

}  // namespace qm::hal
