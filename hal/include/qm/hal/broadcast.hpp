#pragma once
/// The broadcast: run a function on every hart of a set and wait until each hart has run it.
///
/// Only a hart itself may write its per-hart caches, so code that has to change them asks the hart. Each hart has one
/// box for a request:
///
///     NONE -> PENDING (initiator) -> RUNNING (the hart, by CAS) -> NONE (the hart, release)
///             PENDING -> NONE        (initiator, by CAS, when it gives up, or the hart has gone offline)
///
/// While no other hart is online, the initiator runs the function itself, with interrupts enabled or masked.
///
/// Invariants
/// - R1 One broadcast runs at a time. A second initiator waits with interrupts enabled, so its own hart still serves
///      its box.
/// - R2 The function runs with interrupts masked. All allocator locks mask interrupts, so the function never runs while
///      its hart holds an allocator lock.
/// - R3 When run_on_harts() returns anything but kDone, the function starts on no further hart: pending requests are
///      withdrawn.

#include <cstdint>

#include <qm/hal/hart.hpp>

namespace qm::hal {

enum class BroadcastStatus : std::uint8_t {
  kDone,      ///< every hart of the set has run the function
  kTimedOut,  ///< the deadline passed; harts that answered have run the function
  kAborted,   ///< the caller's abort test returned true
  kUnsafe,    ///< the caller may not broadcast (see may_ask_harts()); nothing was done
};

struct BroadcastResult {
  /// In `hart`: no hart is late. Another broadcast ran all the time, and nothing was done.
  static constexpr unsigned kNobody = Port::kMaxHarts;

  BroadcastStatus status = BroadcastStatus::kDone;
  unsigned hart = 0;  ///< kTimedOut, kAborted: the first hart that had not answered, or kNobody
  [[nodiscard]] bool ok() const noexcept { return status == BroadcastStatus::kDone; }
};

/// The function that runs on each hart, for hart @p hart: O(1), interrupts masked, must not wait.
using BroadcastFunction = void (*)(unsigned hart, void* argument) noexcept;

/// Called during a wait; if it returns true, the broadcast gives up.
using AbortTest = bool (*)() noexcept;

/// Default deadline, in milliseconds. An overloaded host took up to 700 ms.
inline constexpr std::uint32_t kBroadcastDeadlineMs = 5000;

/// Runs @p function on every online hart of @p harts and waits for all of them.
/// @param[in] deadline_ms milliseconds to wait for the slowest hart, including the wait for another broadcast.
/// @param[in] abort       null, or a function that is called now and then during the wait.
/// Complexity: one IPI a hart.
/// Context:    may_ask_harts() must be true; otherwise returns kUnsafe and does nothing.
BroadcastResult run_on_harts(HartMask harts, BroadcastFunction function, void* argument,
                             std::uint32_t deadline_ms = kBroadcastDeadlineMs, AbortTest abort = nullptr) noexcept;

/// The function that runs while the other harts stand still. It runs masked, allocates nothing and waits for nothing.
using StillFunction = void (*)(void* argument) noexcept;

/// Makes every other online hart stand still in its IPI handler, runs @p work on this hart with interrupts masked, and
/// lets the harts continue. A hart that stands still holds no allocator lock and is in no masked section; its registers
/// are saved on its trap stack.
/// @param[in] on_each null, or called as a BroadcastFunction on each hart, including this one, before @p work.
/// @returns kDone. Any other status, as from run_on_harts(), means that @p work has not run.
/// Complexity: one IPI a hart, and the time of @p work, during which all harts wait.
/// Context:    as run_on_harts(). On hal/host, threads continue until they mask interrupts, and @p on_each is called
///             for this hart only.
BroadcastResult run_while_still(BroadcastFunction on_each, StillFunction work, void* argument,
                                std::uint32_t deadline_ms = kBroadcastDeadlineMs, AbortTest abort = nullptr) noexcept;

/// Sets the function that a broadcast's initiator calls before it sends each IPI, with interrupts as the initiator has
/// them; nullptr: none. For tests: it delays the harts' answers, as a hart does that masks its interrupts for long.
void set_ipi_pause(void (*pause)() noexcept) noexcept;

/// The function that a posted hart runs: masked, bounded, must not wait.
using PostFunction = void (*)(unsigned hart) noexcept;

/// What a post asks of a hart.
enum class Post : std::uint8_t {
  kDrain,    ///< give its magazines away
  kRefresh,  ///< refresh its trap unit (port_contract.hpp)
};
inline constexpr unsigned kPosts = 2;

/// Sets the function that post() requests, for each kind one for all harts. nullptr: none.
void set_post_function(PostFunction function, Post kind = Post::kDrain) noexcept;

/// Makes each online hart of @p harts except the running one call the post function soon, and waits for none of them. A
/// hart that has not yet served an earlier post gets no second interrupt. Complexity: one IPI a hart. Context: any.
void post(HartMask harts, Post kind = Post::kDrain) noexcept;

/// Serves hart @p hart's box, then its posts. The port calls it for each IPI, with interrupts masked, after it has
/// cleared the pending bit. A call with an empty box does nothing.
void on_ipi(unsigned hart) noexcept;

}  // namespace qm::hal
