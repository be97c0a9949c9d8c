#pragma once
/// A turn: what one hart at a time may do, and what may take long. Not a Lock: it is held with interrupts enabled, and
/// whoever waits for it goes on serving its box, so that a holder who asks all harts for something gets its answers.
///
///     while (!turn.take_or_wait()) { if (patience is over) return; }
///     ...
///     turn.give_back();

#include <atomic>

#include <qm/hal/hart.hpp>

namespace qm::hal {

class Turn {
 public:
  constexpr Turn() noexcept = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

  /// Takes the turn, or waits for an interrupt, which is served on return.
  /// @returns whether it was taken. Context: may_wait().
  [[nodiscard]] bool take_or_wait() noexcept;

  /// Ends the turn and wakes the harts that wait for it.
  void give_back() noexcept;

 private:
  std::atomic<std::uint32_t> taken_{0};
  std::atomic<HartMask> waiting_{0};
};

}  // namespace qm::hal
