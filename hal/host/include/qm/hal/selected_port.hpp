#pragma once
/// The host port: a thread stands for a hart, "interrupts masked" means holding the hart's own mutex, and an IPI takes
/// the other hart's mutex and serves its box on its behalf; if that hart is masked, it is served when it unmasks. With
/// QM_FAST_PATH=masked ThreadSanitizer understands all of it. With QM_FAST_PATH=flagged the fast path does without the
/// mutex.

#include <qm/config.h>
#include <qm/hal/port_contract.hpp>
#if defined(QM_FAST_PATH_FLAGGED)
#include <qm/hal/flagged_section.hpp>
#endif

namespace qm::hal {

#if !defined(QM_FAST_PATH_FLAGGED)
/// The mutex does it all.
struct HartClaim {
  explicit HartClaim(unsigned) noexcept {}
};
inline bool has_claimed(unsigned) noexcept { return true; }
inline void shut_sections(unsigned) noexcept {}
inline void open_sections(unsigned) noexcept {}
#endif

struct Port : PortDefaults {
#if defined(QM_FAST_PATH_FLAGGED)
  using Section = FlaggedSection;
#endif
  enum class InterruptState : bool { kMasked, kEnabled };

  static unsigned hart_index() noexcept;
  static InterruptState mask_interrupts() noexcept;
  static void restore_interrupts(InterruptState state) noexcept;
  static std::uint64_t ticks() noexcept;
  static void send_ipi(unsigned hart) noexcept;
  [[noreturn]] static void fatal(const char* reason) noexcept;

  static std::uint64_t tick_rate() noexcept { return 1'000'000'000; }
  static StackBounds stack_bounds(std::uintptr_t frame) noexcept;
  static std::size_t context_label(std::span<char> label) noexcept;
  static std::uint32_t context_key() noexcept;
  static void wait_for_interrupt() noexcept;
  static void relax() noexcept;
};

/// Makes the calling thread stand for hart @p hart and brings that hart online; the destructor takes it offline,
/// unless it was online before. The thread that loads the library, mostly the program's first, is hart 0 without it.
///
/// A hart is one thread's own. Every further thread that stands for it, and every thread without a HostHart, which
/// stands for hart 0, shares it: they take turns at its mutex, and with QM_FAST_PATH=flagged none of their operations
/// takes the fast path. With more threads than harts somebody shares: see threads_without_hart().
class HostHart {
 public:
  explicit HostHart(unsigned hart) noexcept;
  ~HostHart();
  HostHart(const HostHart&) = delete;
  HostHart& operator=(const HostHart&) = delete;
  /// Whether the hart is this thread's own.
  [[nodiscard]] bool is_own() const noexcept { return own_; }

 private:
  unsigned previous_;
  bool was_online_;
  bool took_;  ///< the hart, which was nobody's
  bool own_;
  bool previous_own_;
  [[no_unique_address]] HartClaim claim_;
};

/// How many threads so far have shared a hart when they allocated or freed: 0 unless there were more of them than harts,
/// or some without a HostHart. Context: any.
[[nodiscard]] std::uint32_t threads_without_hart() noexcept;

/// Replaces what fatal() does: tests catch the report instead of ending the process. Must not return normally.
using FatalHandler = void (*)(const char* reason);
void set_fatal_handler(FatalHandler handler) noexcept;

}  // namespace qm::hal
