#pragma once
/// What Quartermaster keeps per hart outside any cache: a hart-local block, and the set of harts that are online.
///
/// On the target `thread_local` is hart-local (`tp` points at the hart's own copy), unless the build says that tp is a
/// kernel's: then each kind of block is a table, looked into by the hart's index. On the host a thread stands for a
/// hart. Code that a scheduler may move to another hart looks at either with interrupts masked, or takes what it finds
/// for a hint.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/hal/port.hpp>

namespace qm::hal {

/// A hart's own block. Only the hart itself touches it.
struct HartLocal {
  std::uint32_t lock_depth = 0;  ///< allocator locks held; a round must not start above 0
  std::uint32_t trap_depth = 0;  ///< trap handlers entered and not left; the port's trap entry counts
  ThreadState thread;            ///< of a port without threads
};

#if defined(QM_TP)
extern constinit thread_local HartLocal hart_local_block asm("qm_hart_local");
/// Finds the block where it is called, in one instruction when linked. A compiler is free to find it earlier, before
/// interrupts were masked: it would be the block of a hart that the thread has left since.
inline HartLocal& hart_local() noexcept {
  HartLocal* block;
  asm volatile(
      "lui %0, %%tprel_hi(qm_hart_local)\n"
      "add %0, %0, tp, %%tprel_add(qm_hart_local)\n"
      "addi %0, %0, %%tprel_lo(qm_hart_local)"
      : "=r"(block));
  return *block;
}
/// Adds @p Change to the block's `lock_depth`, in three instructions when linked. Masked.
template <int Change>
[[gnu::always_inline]] inline void change_lock_depth() noexcept {
  std::uintptr_t depth, block;
  asm volatile(
      "lui %0, %%tprel_hi(qm_hart_local)\n"
      "add %0, %0, tp, %%tprel_add(qm_hart_local)\n"
      "lw %0, %%tprel_lo(qm_hart_local)(%0)\n"
      "addi %0, %0, %2\n"
      "lui %1, %%tprel_hi(qm_hart_local)\n"
      "add %1, %1, tp, %%tprel_add(qm_hart_local)\n"
      "sw %0, %%tprel_lo(qm_hart_local)(%1)"
      : "=&r"(depth), "=&r"(block)
      : "i"(Change)
      : "memory");
}
#else
#if defined(QM_TARGET)
extern constinit HartLocal hart_local_blocks[Port::kMaxHarts];
inline HartLocal& hart_local() noexcept { return hart_local_blocks[Port::hart_index()]; }
#else
HartLocal& hart_local() noexcept;
#endif
template <int Change>
inline void change_lock_depth() noexcept {
  hart_local().lock_depth += static_cast<std::uint32_t>(Change);
}
#endif
static_assert(offsetof(HartLocal, lock_depth) == 0);

namespace internal {
template <class P>
ThreadState& thread_state() noexcept {
  if constexpr (HasThreads<P>) return P::thread_state();
  else return hart_local().thread;
}
}  // namespace internal

/// What is kept of the running thread, or where the port has none of the hart.
inline ThreadState& thread_state() noexcept { return internal::thread_state<Port>(); }

/// Brings hart @p hart into rounds. Called on that hart, before it first allocates, after the port can tell its index.
/// Pairs with the round's look at the set: a hart that comes up during a round is either visited, or sees what the
/// round's initiator had published before (both sides put a full fence between their store and their load).
void hart_online(unsigned hart) noexcept;

/// Takes hart @p hart out of rounds, and serves what it was asked for before: no round waits for a hart that has gone.
/// Called on that hart, after its magazines were drained.
void hart_offline(unsigned hart) noexcept;

/// The harts that are online.
[[nodiscard]] HartMask online_harts() noexcept;

/// Says that the system is going down: every wait in the allocator looks at this and gives up. Set once, never cleared.
void enter_panic() noexcept;
[[nodiscard]] bool in_panic() noexcept;

/// Whether the caller may wait for another hart: interrupts enabled, no allocator lock held, not in a trap handler, no
/// panic.
[[nodiscard]] bool may_wait() noexcept;

/// Whether the caller may ask the harts for something (round.hpp) and give back idle memory: may_wait() holds, or no
/// other hart is online and masked interrupts are all that is against it. Then there is nobody to wait for, and the
/// caller must not wait.
[[nodiscard]] bool may_ask_harts() noexcept;

}  // namespace qm::hal
