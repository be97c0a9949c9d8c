#pragma once
/// The state that Quartermaster keeps per hart outside any cache: a hart-local block, and the set of online harts.
///
/// On the target `thread_local` is hart-local (`tp` points at the hart's own copy), unless the build says that `tp`
/// belongs to a kernel. In that build each kind of block is a table indexed by the hart's index. On the host a thread
/// stands for a hart. Code that a scheduler may move to another hart masks interrupts while it reads a block or the
/// index, or treats the value as a hint.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/config.h>
#include <qm/hal/port.hpp>

namespace qm::hal {

/// A hart's own block. Only the hart itself reads and writes it.
struct HartLocal {
  std::uint32_t lock_depth = 0;  ///< allocator locks held; a broadcast must not start above 0
  std::uint32_t trap_depth = 0;  ///< trap handlers entered and not left; the port's trap entry counts
  ThreadState thread;            ///< used if the port has no threads
};

#if defined(QM_TP)
extern constinit thread_local HartLocal hart_local_block asm("qm_hart_local");
/// Loads the block's address at the place of the call, in one instruction after linking. Without this a compiler may
/// load the address earlier, before interrupts are masked; that would be the block of a hart that the thread has left
/// since.
inline HartLocal& hart_local() noexcept {
  HartLocal* block;
  asm volatile(
      "lui %0, %%tprel_hi(qm_hart_local)\n"
      "add %0, %0, tp, %%tprel_add(qm_hart_local)\n"
      "addi %0, %0, %%tprel_lo(qm_hart_local)"
      : "=r"(block));
  return *block;
}
/// Adds @p Change to the block's `lock_depth`, in three instructions after linking. Context: interrupts masked.
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

/// The state of the running thread; if the port has no threads, that of the hart.
inline ThreadState& thread_state() noexcept { return internal::thread_state<Port>(); }

/// Adds hart @p hart to the set of online harts, so that broadcasts include it. Called on that hart, before it first
/// allocates, and after the port can return its index.
/// Pairs with the read of the set in run_on_harts(): a hart that comes online during a broadcast is either asked, or
/// sees all that the broadcast's initiator had published before (both sides have a full fence between their store and
/// their load).
void hart_online(unsigned hart) noexcept;

/// Removes hart @p hart from the set of online harts, and serves the request that is pending for it. So no broadcast
/// waits for an offline hart. Called on that hart, after its magazines were drained.
void hart_offline(unsigned hart) noexcept;

/// The harts that are online.
[[nodiscard]] HartMask online_harts() noexcept;

/// Announces that the system is going down: every wait in the allocator reads this flag and gives up. Set once, never
/// cleared.
void enter_panic() noexcept;
[[nodiscard]] bool in_panic() noexcept;

/// Whether the caller may wait for another hart: interrupts are enabled, and the hart holds no allocator lock, runs no
/// trap handler and is not in a panic.
[[nodiscard]] bool may_wait() noexcept;

/// Whether the caller may run a broadcast (broadcast.hpp) and reclaim idle memory. True if may_wait() is true, or if masked
/// interrupts are the only obstacle and no other hart is online. In the second case the broadcast waits for no hart,
/// and the caller must not wait either.
[[nodiscard]] bool may_ask_harts() noexcept;

}  // namespace qm::hal
