#pragma once
/// The tools for tests of costs: the counter of retired instructions, costs of operations, and lines that print them.
/// Under icount the counter is exact. In the other modes it counts something else, and the tests check only the results
/// of the operations.

#include <algorithm>
#include <cstddef>
#include <string_view>

#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/hal/port.hpp>

namespace qm::test {

inline bool counter_is_exact() { return firmware::boot_info().bootargs.find("mode=icount") != std::string_view::npos; }

inline unsigned long instructions() {
  unsigned long count = 0;
  asm volatile("rdinstret %0" : "=r"(count)::"memory");
  return count;
}

inline void put(std::string_view text) { firmware::console_write(text); }
inline void put(unsigned long number) {
  char digits[24];
  char* at = digits + sizeof digits;
  do *--at = static_cast<char>('0' + number % 10);
  while ((number /= 10) != 0);
  put(std::string_view(at, static_cast<std::size_t>(digits + sizeof digits - at)));
}

/// Costs of one kind of operation, in instructions.
class Cost {
 public:
  /// Runs @p operation with interrupts masked; its cost includes the call. @returns its result.
  template <class Operation>
  auto measure(Operation operation) {
    const hal::InterruptGuard masked;
    const unsigned long before = instructions();
    const auto result = operation();
    const unsigned long cost = instructions() - before;
    ++count_;
    sum_ += cost;
    worst_ = std::max(worst_, cost);
    return result;
  }
  [[nodiscard]] unsigned long mean() const { return count_ == 0 ? 0 : sum_ / count_; }
  [[nodiscard]] unsigned long worst() const { return worst_; }

  /// Prints a line with the mean and the worst cost.
  void print(std::string_view name) const {
    put(name);
    put(": mean ");
    put(mean());
    put(" worst ");
    put(worst());
    put("\n");
  }

 private:
  unsigned long count_ = 0;
  unsigned long sum_ = 0;
  unsigned long worst_ = 0;
};

/// Counts ticks of this hart, and the longest time without one: an operation masks interrupts for less than that.
class Ticks {
 public:
  /// A tick each @p period of the timer, which is 100 instructions under icount. In real time this would be an
  /// interrupt storm, so the period stays as it is.
  explicit Ticks(std::uint32_t period) {
    firmware::set_tick_handler(tick, this);
    if (counter_is_exact()) set_period(period);
    restart();
  }
  ~Ticks() { stop(); }
  Ticks(const Ticks&) = delete;
  Ticks& operator=(const Ticks&) = delete;

  /// Forgets all earlier ticks.
  void restart() {
    const hal::InterruptGuard masked;
    count_ = 0;
    longest_gap_ = 0;
  }
  void stop() {
    firmware::set_tick_handler(nullptr, nullptr);
    set_period(kNormalPeriod);
  }
  [[nodiscard]] unsigned count() const { return count_; }
  /// Unit: instructions. @pre count() > 1
  [[nodiscard]] unsigned long longest_gap() const { return longest_gap_; }

 private:
  static constexpr std::uint32_t kNormalPeriod = 10000;
  static void set_period(std::uint32_t period) { firmware::set_tick_period(hal::Port::hart_index(), period); }
  static void tick(void* self) {
    auto& ticks = *static_cast<Ticks*>(self);
    const unsigned long now = instructions();
    if (ticks.count_++ != 0) ticks.longest_gap_ = std::max(ticks.longest_gap_, now - ticks.last_);
    ticks.last_ = now;
  }

  unsigned count_ = 0;
  unsigned long last_ = 0;
  unsigned long longest_gap_ = 0;
};

}  // namespace qm::test
