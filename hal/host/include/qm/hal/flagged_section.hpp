#pragma once
/// A section of the fast path on Linux: two plain stores and a load, no lock, no atomic read-modify-write.
///
///     the thread that has claimed the hart      another one that masks the hart, with its mutex: to serve its box, mostly
///
///     flag = 1                                  cells = kShut                            shut_sections()
///     the compiler moves nothing across         membarrier(2): each running thread has passed a full barrier
///     read `cells`: where the hart's are,       wait until flag == 0
///       whose cell is popped or pushed,         ... change the hart's cells ...
///       or kShut: the slow half                 cells = the hart (release)               open_sections()
///     flag = 0 (release)
///
/// Invariants
/// - F1 Between shut_sections() and open_sections() no section works on a cell of the hart. One whose flag was not seen
///      raised began after the barrier, so it reads kShut; one whose flag was seen is waited for, and waits for nothing
///      itself.
/// - F2 What was done to the cells meanwhile is seen by the next section: its acquire of `cells` pairs with the
///      release.
/// - F3 One thread at most has a hart's flag. The sections of a thread that has none, and of all threads where the
///      kernel has no membarrier, are always shut: each of their operations takes the slow half, which masks.

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace qm::hal {

struct alignas(64) FlaggedHart {
  /// `cells` is the hart's index times this, the bytes of a cell, so that the fast path has nothing to multiply.
  static constexpr std::ptrdiff_t kStep = 8 * sizeof(void*);
  static constexpr std::ptrdiff_t kShut = -kStep;
  std::atomic<bool> flag{false};  ///< a byte: what raises and lowers it is half as long as for a word
  std::atomic<std::ptrdiff_t> cells{kShut};
  std::atomic<bool> claimed{false};
};

namespace internal {
/// The running thread's. At a fixed distance from the thread pointer, which a program knows when it is linked and a
/// shared library when it is loaded.
extern constinit thread_local FlaggedHart* own_flag [[gnu::tls_model("initial-exec")]];
}  // namespace internal

/// Raises the flag for a scope. Context: the hart's thread; never within another section.
class FlaggedSection {
 public:
  static constexpr bool kShuts = true;
  static constexpr std::ptrdiff_t kStep = FlaggedHart::kStep;
  FlaggedSection() noexcept : own_(*internal::own_flag) {
    own_.flag.store(true, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);  // the processor's half of this fence is the membarrier
  }
  ~FlaggedSection() { own_.flag.store(false, std::memory_order_release); }  // pairs with the wait in shut_sections()
  FlaggedSection(const FlaggedSection&) = delete;
  FlaggedSection& operator=(const FlaggedSection&) = delete;
  [[nodiscard]] std::ptrdiff_t place() const noexcept { return own_.cells.load(std::memory_order_acquire); }

 private:
  FlaggedHart& own_;
};

/// Makes a hart's flag the calling thread's for a scope, unless another thread has it.
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

/// Keeps hart @p hart's sections out of its cells until open_sections(). Complexity: a membarrier, and the wait for one
/// section.
/// Context: the caller has the hart's mutex, and is in no section.
void shut_sections(unsigned hart) noexcept;
void open_sections(unsigned hart) noexcept;

}  // namespace qm::hal
