/// Benches on the host: the wall clock of Quartermaster and of other allocators, which take turns in one process.
///
/// The machine may be busy with other work. So a sample is the shortest of a few short slices, the samples of all
/// subjects are interleaved, and the result is the ratio of our time to theirs within one turn: its median over the
/// turns, and its spread. Nanoseconds are medians, for orientation.

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <vector>

#include "workloads.hpp"

namespace qm::bench {
namespace {

constexpr unsigned kTurns = 15;
constexpr unsigned kSlices = 5;

struct Workload {
  const char* name;
  double (*run)(const Subject& subject, unsigned pairs);
  unsigned pairs;  ///< pairs in a slice, which takes some milliseconds; a recording has a fixed length
  bool mixed_sizes = false;
  bool shared = false;
  bool reallocates = false;

  [[nodiscard]] bool suits(const Subject& subject) const {
    return (subject.mixed_sizes || !mixed_sizes) && (subject.shared || !shared) &&
           (subject.reallocate != nullptr || !reallocates);
  }
};

constexpr Workload kWorkloads[] = {
    {"pair, hot", lifo, 100'000},
    {"1000 live, 64 bytes", replace_fixed, 100'000},
    {"1000 live, 16 to 1024 bytes", replace_mixed, 100'000, true},
    {"pair, hot, 2 threads", lifo_two_threads, 100'000},
    {"1000 live, 64 bytes, 2 threads", replace_two_threads, 100'000},
    {"producer and consumer", producer_consumer, 50'000, false, true},
    {"sqlite", replay_sqlite, 0, true, false, true},
    {"jq", replay_jq, 0, true, false, true},
    {"redis-threads", replay_redis, 0, true, false, true},
    {"redis-threads, 2 threads", replay_redis_two_threads, 0, true, true, true},
};

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double sample(const Workload& workload, const Subject& subject) {
  double least = workload.run(subject, workload.pairs);
  for (unsigned slice = 1; slice < kSlices; ++slice) least = std::min(least, workload.run(subject, workload.pairs));
  return least;
}

/// Prints the columns of our time divided by theirs.
void print_ratios(const std::vector<double>& mine, const std::vector<double>& theirs) {
  std::vector<double> ratios;
  for (unsigned turn = 0; turn < kTurns; ++turn) ratios.push_back(mine[turn] / theirs[turn]);
  const auto [least, most] = std::minmax_element(ratios.begin(), ratios.end());
  std::printf(",\"ratio\":%.2f,\"least\":%.2f,\"most\":%.2f", median(ratios), *least, *most);
}

/// The strictest comparison: with the fastest malloc of each turn, among those that are made to be fast.
constexpr Subject kBest{.name = "best of the three"};

void add_best(std::vector<const Subject*>& chosen, std::vector<std::vector<double>>& times) {
  std::vector<double> best;
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    double least = 0;
    for (std::size_t i = 0; i < chosen.size(); ++i) {
      const std::string_view name = chosen[i]->name;
      if (name != "jemalloc" && name != "mimalloc" && name != "tcmalloc") continue;
      if (least == 0 || times[i][turn] < least) least = times[i][turn];
    }
    best.push_back(least);
  }
  chosen.push_back(&kBest);
  times.push_back(std::move(best));
}

void run(const Workload& workload) {
  std::vector<const Subject*> chosen;
  for (const Subject& subject : subjects()) {
    if (workload.suits(subject)) chosen.push_back(&subject);
  }
  std::vector<std::vector<double>> times(chosen.size());
  for (const Subject* subject : chosen) workload.run(*subject, workload.pairs);  // warm-up
  for (unsigned turn = 0; turn < kTurns; ++turn) {
    for (std::size_t i = 0; i < chosen.size(); ++i) times[i].push_back(sample(workload, *chosen[i]));
  }
  const std::size_t first_peer = workload.mixed_sizes ? 1 : 2;  // a cache has one size, so it does not take part
  add_best(chosen, times);
  for (std::size_t ours = 0; ours < first_peer; ++ours) {
    for (std::size_t i = first_peer; i < chosen.size(); ++i) {
      std::printf("@bench {\"case\":\"%s\",\"ours\":\"%s\",\"theirs\":\"%s\"", workload.name, chosen[ours]->name.data(),
                  chosen[i]->name.data());
      std::printf(",\"ours ns\":%.2f,\"theirs ns\":%.2f", median(times[ours]), median(times[i]));
      print_ratios(times[ours], times[i]);
      std::printf("}\n");
    }
  }
  std::fflush(stdout);
}

}  // namespace
}  // namespace qm::bench

int main() try {
  for (const auto& workload : qm::bench::kWorkloads) qm::bench::run(workload);
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "qm_bench_host: %s\n", error.what());
  return 1;
}
