#pragma once
/// Timed work on one thread, or on two threads at once.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <thread>

#include "subjects.hpp"

namespace qm::bench {

using Clock = std::chrono::steady_clock;

/// Runs `Clock::duration work(thread)` on @p threads threads, 1 or 2; the caller is thread 0. All threads have begun
/// before any is timed.
/// @returns the longest time.
template <class Work>
Clock::duration on_threads(unsigned threads, Work work) {
  std::atomic<unsigned> ready{0};
  std::array<Clock::duration, kThreads> times{};
  const auto run = [&](unsigned thread) {
    const ThreadScope scope(thread);
    ready.fetch_add(1);
    while (ready.load() != threads) std::this_thread::yield();
    times[thread] = work(thread);
  };
  std::thread other;
  if (threads == kThreads) other = std::thread(run, 1);
  run(0);
  if (other.joinable()) other.join();
  return *std::max_element(times.begin(), times.end());
}

}  // namespace qm::bench
