#include <qm/analysis/timeline.hpp>

#include <algorithm>

namespace qm::analysis {

std::size_t Timeline::add_series(Kind kind) {
  series_.push_back({kind, 0, 0, std::vector<double>(closed_)});
  series_.back().values.reserve(kBuckets);
  return series_.size() - 1;
}

void Timeline::close_bucket() {
  for (Series& series : series_) {
    series.values.push_back(series.kind == Kind::kPeak ? series.peak : series.now);
    if (series.kind == Kind::kSum) series.now = 0;
    series.peak = series.now;
  }
  ++closed_;
  end_ += width_;
}

/// Merges each two buckets into one. If the number is odd, the last bucket is open again.
void Timeline::merge() {
  for (Series& series : series_) {
    const std::size_t pairs = closed_ / 2;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      const double first = series.values[2 * pair], second = series.values[2 * pair + 1];
      series.values[pair] = series.kind == Kind::kSum    ? first + second
                            : series.kind == Kind::kPeak ? std::max(first, second)
                                                         : second;
    }
    series.values.resize(pairs);
  }
  closed_ /= 2;
  width_ *= 2;
  end_ = (closed_ + 1) * width_;
}

/// @param[in] since ticks since the origin.
void Timeline::advance_slow(std::uint64_t since) {
  while (since >= end_) {
    // Only an even number of closed buckets is merged, so no bucket is reopened.
    if (closed_ + 1 == kBuckets) {
      close_bucket();
      merge();
    } else {
      close_bucket();
    }
    // A far jump widens the buckets first, instead of closing one bucket after another.
    while (closed_ % 2 == 0 && closed_ != 0 && since >= end_ && since / width_ >= kBuckets) merge();
    while (closed_ == 0 && since >= end_ && since / width_ >= kBuckets) {
      width_ *= 2;
      end_ = width_;
    }
  }
}

void Timeline::finish() { close_bucket(); }

}  // namespace qm::analysis
