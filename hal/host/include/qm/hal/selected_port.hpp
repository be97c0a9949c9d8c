#pragma once
/// The host port: a thread stands for a hart, and "interrupts masked" means that the thread holds the hart's mutex. The
/// sender of an IPI takes the other hart's mutex and serves its box on its behalf; if that hart is masked, the box is
/// served when it unmasks. With QM_FAST_PATH=masked, ThreadSanitizer understands all of this. With QM_FAST_PATH=flagged
/// the fast path does not take the mutex.

#include <qm/config.h>
#include <qm/hal/port_contract.hpp>
#if defined(QM_FAST_PATH_FLAGGED)
#include <qm/hal/flagged_section.hpp>
#endif

namespace qm::hal {

#if !defined(QM_FAST_PATH_FLAGGED)
/// Empty: the mutex alone protects the hart.
struct HartClaim {
  explicit HartClaim(unsigned) noexcept {}
};
inline bool has_claimed(unsigned) noexcept { return true; }
inline void shut_sections(unsigned) noexcept {}
inline void open_sections(unsigned) noexcept {}
#endif

/// The trap unit of the host: mprotect(). The memory given to qm::initialize() must come from whole pages of a private
/// mapping or of data. A SIGSEGV handler of the program calls qm::guards::on_fault().
struct HostTrapUnit {
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kSlotBytes = 2 * kPage;
  static constexpr std::size_t kEdgeBytes = kPage;
  static constexpr std::size_t kGrainBytes = kPage;
  static constexpr unsigned kMostSlots = 255;
  static constexpr bool kOfOneHart = false;
  static constexpr std::size_t kAlign = kPage;
  static constexpr std::size_t kNoCross = 0;
  static constexpr std::size_t kTableBytes = 0;

  static bool prepare(std::uintptr_t pool, unsigned slots, std::uintptr_t tables) noexcept;
  static void arm() noexcept;
  static void disarm() noexcept;
  static void show(unsigned slot, std::uintptr_t low, std::uintptr_t high) noexcept;
  static void open(std::uintptr_t address) noexcept;
  static void refresh() noexcept {}
};

struct Port : PortDefaults {
  using TrapUnit = HostTrapUnit;
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
  /// Masks @p harts, none of them the caller's own, until let_go_harts(): no thread that stands for one of them
  /// allocates or frees.
  /// Context: the caller masks nothing.
  static void hold_harts(std::uint32_t harts) noexcept;
  static void let_go_harts(std::uint32_t harts) noexcept;
};

/// Makes the calling thread stand for hart @p hart, which is below Port::kMaxHarts, or calls fatal(). Brings that hart
/// online; the destructor takes it offline, unless it was online before. The thread that loads the library, usually the
/// program's first thread, is hart 0 without a HostHart.
///
/// One thread owns a hart. Every further thread that stands for the hart shares it, and so does every thread without a
/// HostHart with hart 0: they take turns with the hart's mutex, and with QM_FAST_PATH=flagged none of their operations
/// takes the fast path. If there are more threads than harts, some share: see threads_without_hart(). A thread that
/// shares a hart must end before the owner's HostHart, and leaves qm_detach_hart() to the owner.
class HostHart {
 public:
  explicit HostHart(unsigned hart) noexcept;
  ~HostHart();
  HostHart(const HostHart&) = delete;
  HostHart& operator=(const HostHart&) = delete;
  /// Whether this thread owns the hart.
  [[nodiscard]] bool is_own() const noexcept { return own_; }

 private:
  unsigned previous_;
  bool was_online_;
  bool took_;  ///< the hart, which no thread owned
  bool own_;
  bool previous_own_;
  [[no_unique_address]] HartClaim claim_;
};

/// The number of threads that have shared a hart in an allocation or a free so far: 0 unless there were more threads
/// than harts, or threads without a HostHart. Context: any.
[[nodiscard]] std::uint32_t threads_without_hart() noexcept;

/// Replaces the action of fatal(): tests catch the report instead of ending the process. Must not return normally.
using FatalHandler = void (*)(const char* reason);
void set_fatal_handler(FatalHandler handler) noexcept;

}  // namespace qm::hal
