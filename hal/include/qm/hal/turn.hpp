#pragma once
/// A turn: a right that one hart at a time has, for work that may take long. It is not a Lock: the holder has
/// interrupts enabled, and a hart that waits for the turn still serves its box. So the holder may run a broadcast.
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
  /// @returns whether it took the turn. Context: may_wait().
  [[nodiscard]] bool take_or_wait() noexcept;

  /// Gives the turn back and wakes the harts that wait for it.
  void give_back() noexcept;

 private:
  std::atomic<std::uint32_t> taken_{0};
  std::atomic<HartMask> waiting_{0};
};

}  // namespace qm::hal
