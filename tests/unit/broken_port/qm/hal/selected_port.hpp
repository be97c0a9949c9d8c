#pragma once
#pragma GCC system_header  // #include_next
// The port of this build, with one function broken at a time.

#define Port SoundPort
#include_next <qm/hal/selected_port.hpp>
#undef Port

namespace qm::hal {

enum class Broken { kNothing, kTicks, kBackwards, kRestore, kNesting, kMasking, kIndex, kIpi, kRewind };
inline constinit Broken broken = Broken::kNothing;

struct Port : SoundPort {
  static unsigned hart_index() noexcept { return broken == Broken::kIndex ? 0 : SoundPort::hart_index(); }
  static InterruptState mask_interrupts() noexcept {
    if (broken == Broken::kMasking) return InterruptState::kEnabled;
    return SoundPort::mask_interrupts();
  }
  static void restore_interrupts(InterruptState state) noexcept {
    if (broken == Broken::kRestore) return;
    SoundPort::restore_interrupts(broken == Broken::kNesting ? InterruptState::kEnabled : state);
  }
  static std::uint64_t ticks() noexcept {
    if (broken == Broken::kTicks) return 12345;
    return broken == Broken::kBackwards ? ~SoundPort::ticks() : SoundPort::ticks();
  }
  static void send_ipi(unsigned hart) noexcept {
    if (broken != Broken::kIpi) SoundPort::send_ipi(hart);
  }
};

}  // namespace qm::hal
