#pragma once
/// The tools for a bench on the target. A bench is a source that defines qm::bench::run() and measures; each
/// measurement is a row:
///
///     void qm::bench::run() {
///       Distribution costs;
///       for (...) costs.add(count([&] { object = cache->allocate(); }));
///       Row("cold fill of 1000").text("allocator", "cache").number("objects", 1000).distribution("malloc", costs);
///     }
///
/// Hart 0's task "main" calls run(). The allocator manages all memory, every hart is attached and sleeps, and no hart
/// has a timer tick. So nothing interrupts: a count has only the instructions of the counted code, and is the same in
/// every run.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace qm::bench {

/// Defined by the bench.
void run();

/// Whether every instruction is logged (`bench/run --profile`); then a bench leaves out its repetitions and its peers.
[[nodiscard]] bool profiling() noexcept;

/// Retired instructions of all harts together; a sleeping hart retires none. Exact only under icount.
[[gnu::always_inline]] inline unsigned long instructions() noexcept {
  unsigned long count;
  asm volatile("rdinstret %0" : "=r"(count) : : "memory");
  return count;
}

/// Instructions between two consecutive reads: the second read itself.
inline constexpr unsigned long kReadCost = 1;

/// @returns the instructions that @p call retires, including arguments, call and return.
template <class Call>
[[gnu::always_inline]] inline unsigned long count(Call&& call) noexcept {
  const unsigned long before = instructions();
  call();
  return instructions() - before - kReadCost;
}

/// Forces the computation of @p value at this point: otherwise the compiler may move the computation of a counted
/// call's arguments behind the first read of the counter.
template <class T>
[[gnu::always_inline]] inline void settle(T& value) noexcept {
  asm volatile("" : "+r"(value));
}

/// The counts of many single operations.
class Distribution {
 public:
  void add(unsigned long count) noexcept;
  [[nodiscard]] std::uint64_t operations() const noexcept { return operations_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_; }
  [[nodiscard]] unsigned long max() const noexcept { return max_; }
  /// @returns the least count that @p percent of the operations do not exceed.
  [[nodiscard]] unsigned long percentile(unsigned percent) const noexcept;

 private:
  static constexpr std::size_t kExact = 8192;  ///< larger counts share one bucket, reported as the maximum
  std::array<std::uint32_t, kExact + 1> histogram_{};
  std::uint64_t operations_ = 0;
  std::uint64_t sum_ = 0;
  unsigned long max_ = 0;
};

/// One line of a result, printed by the destructor. Keys are columns, in the order in which they are added.
class Row {
 public:
  explicit Row(std::string_view name) noexcept;
  ~Row();
  Row(const Row&) = delete;
  Row& operator=(const Row&) = delete;
  Row& text(std::string_view key, std::string_view value) noexcept;
  Row& number(std::string_view key, std::uint64_t value) noexcept;
  /// Adds @p sum / @p operations with two decimals.
  Row& mean(std::string_view key, std::uint64_t sum, std::uint64_t operations) noexcept;
  /// Adds the columns `<key> mean`, `<key> p99`, `<key> max`.
  Row& distribution(std::string_view key, const Distribution& counts) noexcept;

 private:
  void put(std::string_view text) noexcept;
  void key(std::string_view name, std::string_view suffix = {}) noexcept;
  void digits(std::uint64_t value) noexcept;
  std::array<char, 1024> line_;
  std::size_t length_ = 0;
};

/// xorshift64*, with the same seed in every run.
class Random {
 public:
  std::uint64_t next() noexcept {
    state_ ^= state_ >> 12;
    state_ ^= state_ << 25;
    state_ ^= state_ >> 27;
    return state_ * 0x2545f4914f6cdd1dULL;
  }
  /// @returns a number from 0 to @p bound - 1.
  std::size_t below(std::size_t bound) noexcept { return static_cast<std::size_t>((next() >> 32) * bound >> 32); }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15ULL;
};

}  // namespace qm::bench
