#pragma once
/// Figures over time in a fixed number of buckets. When time passes the end of the last bucket, each two buckets become
/// one, and all buckets are twice as wide. Memory does not depend on the duration.

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
    kSum,    ///< a bucket holds the sum of the values added in it
  };

  /// Begins at @p ticks, with buckets of one tick.
  explicit Timeline(std::uint64_t ticks = 0) : origin_(ticks) {}

  /// @returns the number of a new series, whose value is 0 up to now.
  std::size_t add_series(Kind kind);

  /// Moves on to @p ticks. A time before the latest counts as the latest. A time of 2^63 ticks or more after the
  /// beginning counts as the last tick before that.
  void advance(std::uint64_t ticks) {
    if (ticks > origin_ && ticks - origin_ >= end_) advance_slow(std::min(ticks - origin_, kMostTicks));
  }

  /// Changes @p series at the current time.
  void add(std::size_t series, double by) {
    Series& changed = series_[series];
    changed.now += by;
    if (changed.now > changed.peak) changed.peak = changed.now;
  }

  /// Ends the last bucket. Nothing may be added afterwards.
  void finish();

  /// @returns the values of @p series, one for each bucket; all series have the same length. Call after finish().
  [[nodiscard]] const std::vector<double>& values(std::size_t series) const { return series_[series].values; }
  [[nodiscard]] std::uint64_t origin_ticks() const noexcept { return origin_; }
  [[nodiscard]] std::uint64_t bucket_ticks() const noexcept { return width_; }

 private:
  struct Series {
    Kind kind = Kind::kLevel;
    double now = 0, peak = 0;
    std::vector<double> values;  // of the closed buckets
  };

  // Twice this time, the end of the last bucket, must be representable too.
  static constexpr std::uint64_t kMostTicks = (std::uint64_t{1} << 63) - 1;

  void advance_slow(std::uint64_t since);
  void close_bucket();
  void merge();

  std::uint64_t origin_;
  std::uint64_t width_ = 1;
  std::uint64_t end_ = 1;  // end of the open bucket, in ticks since the origin
  std::size_t closed_ = 0;
  std::vector<Series> series_;
};

}  // namespace qm::analysis
