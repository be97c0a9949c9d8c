#pragma once
/// Paths: operations of one kind, whose worst is wanted, and where its instructions go.
///
///     Path miss("cache free, depot"), hit("cache free, hit");
///     const unsigned long cost = measure([&] { cache->free(object); });
///     (was_miss ? miss : hit).add(cost);         // which path it was may be known only afterwards
///
/// makes a row a path, printed after run(). `bench/run --profile NAME` boots the image with a plugin in QEMU, to which
/// measure() and add() mark each operation, and shows the instructions of each path's longest by function.

#include <qm/bench/bench.hpp>

extern "C" {
/// Markers, one behind the other, each a return. The plugin sees which was called.
void qm_bench_marks() noexcept;       // an operation begins
void qm_bench_mark_stop() noexcept;   // it is over
void qm_bench_mark_paths() noexcept;  // its path: four bytes each
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
  /// @p name and @p allocator are kept by reference. At most 64 in an image. Without a row it is for the profile only.
  explicit Path(std::string_view name, std::string_view allocator, Rows rows = Rows::kOne) noexcept;
  /// @param[in] cost what measure() has just returned.
  void add(unsigned long cost) noexcept;

 private:
  unsigned id_;
};

/// Prints a row for each path that had an operation, in the order of their construction.
void print_paths() noexcept;

}  // namespace qm::bench
