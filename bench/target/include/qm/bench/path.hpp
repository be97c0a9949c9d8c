#pragma once
/// Paths: a path is one kind of operation. A bench finds the longest operation of each path, and the distribution of
/// its instructions.
///
///     Path miss("cache free, depot"), hit("cache free, hit");
///     const unsigned long cost = measure([&] { cache->free(object); });
///     (was_miss ? miss : hit).add(cost);         // the path may be known only after the operation
///
/// makes one row for each path, printed after run(). `bench/run --profile NAME` boots the image with a plugin in QEMU.
/// measure() and add() mark each operation for the plugin, and the instructions of each path's longest operation are
/// printed by function.

#include <qm/bench/bench.hpp>

extern "C" {
/// Markers: consecutive functions, each only a return. The plugin sees which one was called.
void qm_bench_marks() noexcept;       // an operation begins
void qm_bench_mark_stop() noexcept;   // the operation ends
void qm_bench_mark_paths() noexcept;  // the operation's path: four bytes for each path
}

namespace qm::bench {

template <class Call>
[[gnu::always_inline]] inline unsigned long measure(Call&& call) noexcept {
  qm_bench_marks();
  const unsigned long cost = count(call);
  qm_bench_mark_stop();
  return cost;
}

class Path {
 public:
  enum class Rows : std::uint8_t { kOne, kNone };
  /// Keeps references to @p name and @p allocator. At most 64 in an image. Without a row, the path is only for the
  /// profile.
  explicit Path(std::string_view name, std::string_view allocator, Rows rows = Rows::kOne) noexcept;
  /// @param[in] cost the last result of measure().
  void add(unsigned long cost) noexcept;

 private:
  unsigned id_;
};

/// Prints a row for each path that had operations, in the order of construction.
void print_paths() noexcept;

}  // namespace qm::bench
