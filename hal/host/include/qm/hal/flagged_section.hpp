#pragma once
/// A section of the fast path on Linux: two plain stores and a load, no lock, no atomic read-modify-write.
///
///     the thread that has claimed the hart      another thread that holds the hart's mutex, mostly to serve its box
///
///     flag = 1                                  hart_caches = kShut                      shut_sections()
///     the compiler moves nothing across         membarrier(2): each running thread has passed a full barrier
///     read `hart_caches`: the place of the hart's     wait until flag == 0
///       per-hart caches, for pop or push,       ... change the hart's per-hart caches ...
///       or kShut: the slow half                 hart_caches = the hart (release)         open_sections()
///     flag = 0 (release)
///
/// Invariants
/// - F1 Between shut_sections() and open_sections() no section uses a per-hart cache of the hart. A section whose flag
///      was not seen raised began after the barrier, so it reads kShut; a section whose flag was seen is waited for,
///      and it waits for nothing itself.
/// - F2 The next section sees the changes to the per-hart caches: its acquire of `hart_caches` pairs with the release.
/// - F3 At most one thread has a hart's flag. For a thread without a flag, and for all threads if the kernel has no
///      membarrier, the sections are always shut: each operation takes the slow half, which masks.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace qm::hal {

struct alignas(64) FlaggedHart {
  /// `hart_caches` is the hart's index times this, the size of a per-hart cache in bytes, so that the fast path needs no
  /// multiplication.
  static constexpr std::ptrdiff_t kStep = 8 * sizeof(void*);
  static constexpr std::ptrdiff_t kShut = -kStep;
  std::atomic<bool> flag{false};  ///< a byte: the code that raises and lowers it is half as long as for a word
  std::atomic<std::ptrdiff_t> hart_caches{kShut};
  std::atomic<bool> claimed{false};
};

namespace internal {
/// The flag of the running thread. It lies at a fixed distance from the thread pointer, which is known when a program
/// is linked or a shared library is loaded.
extern constinit thread_local FlaggedHart* own_flag [[gnu::tls_model("initial-exec")]];
}  // namespace internal

/// Raises the flag for a scope. Context: the hart's thread; never inside another section.
class FlaggedSection {
 public:
  static constexpr bool kShuts = true;
  static constexpr std::ptrdiff_t kStep = FlaggedHart::kStep;
  FlaggedSection() noexcept : own_(*internal::own_flag) {
    own_.flag.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the membarrier is the processor's half of this fence
  }
  ~FlaggedSection() { own_.flag.store(false, std::memory_order_release); }  // pairs with the wait in shut_sections()
  FlaggedSection(const FlaggedSection&) = delete;
  FlaggedSection& operator=(const FlaggedSection&) = delete;
  [[nodiscard]] std::ptrdiff_t place() const noexcept { return own_.hart_caches.load(std::memory_order_acquire); }

 private:
  FlaggedHart& own_;
};

/// Gives a hart's flag to the calling thread for a scope, unless another thread has it.
class HartClaim {
 public:
  explicit HartClaim(unsigned hart) noexcept;
  ~HartClaim();
  HartClaim(const HartClaim&) = delete;
  HartClaim& operator=(const HartClaim&) = delete;

 private:
  FlaggedHart* previous_;
  bool claimed_;
};

/// Whether the calling thread has hart @p hart's flag.
[[nodiscard]] bool has_claimed(unsigned hart) noexcept;

/// Keeps hart @p hart's sections away from its per-hart caches until open_sections(). Complexity: a membarrier, and the
/// wait for one section.
/// Context: the caller holds the hart's mutex and is not in a section.
void shut_sections(unsigned hart) noexcept;
void open_sections(unsigned hart) noexcept;

}  // namespace qm::hal
