#pragma once
/// Figures over time in a fixed number of buckets: when time runs beyond the last, two buckets become one and all are
/// twice as wide. Memory does not depend on how long it runs.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace qm::analysis {

class Timeline {
 public:
  static constexpr std::size_t kBuckets = 256;

  enum class Kind : std::uint8_t {
    kLevel,  ///< a bucket holds the value at its end
    kPeak,   ///< a bucket holds the highest value in it
    kSum,    ///< a bucket holds what was added in it
  };

  /// Begins at @p ticks, with buckets of one tick.
  explicit Timeline(std::uint64_t ticks = 0) : origin_(ticks) {}

  /// @returns the number of a new series, 0 up to now.
  std::size_t add_series(Kind kind);

  /// Moves on to @p ticks; an earlier time than the latest counts as the latest, one that is 2^63 ticks or more after
  /// the beginning as one less.
  void advance(std::uint64_t ticks) {
    if (ticks > origin_ && ticks - origin_ >= end_) advance_slow(std::min(ticks - origin_, kMostTicks));
  }

  /// Changes @p series now.
  void add(std::size_t series, double by) {
    Series& changed = series_[series];
    changed.now += by;
    if (changed.now > changed.peak) changed.peak = changed.now;
  }

  /// Ends the last bucket. Nothing may be added any more.
  void finish();

  /// @returns the values of @p series, one a bucket, all series alike. After finish().
  [[nodiscard]] const std::vector<double>& values(std::size_t series) const { return series_[series].values; }
  [[nodiscard]] std::uint64_t origin_ticks() const noexcept { return origin_; }
  [[nodiscard]] std::uint64_t bucket_ticks() const noexcept { return width_; }

 private:
  struct Series {
    Kind kind = Kind::kLevel;
    double now = 0, peak = 0;
    std::vector<double> values;  // of the buckets that are over
  };

  // So that twice as long a time can be told as well: that of the last bucket's end.
  static constexpr std::uint64_t kMostTicks = (std::uint64_t{1} << 63) - 1;

  void advance_slow(std::uint64_t since);
  void close_bucket();
  void merge();

  std::uint64_t origin_;
  std::uint64_t width_ = 1;
  std::uint64_t end_ = 1;  // of the open bucket, since the origin
  std::size_t closed_ = 0;
  std::vector<Series> series_;
};

}  // namespace qm::analysis
