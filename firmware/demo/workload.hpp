#pragma once
/// Workloads make allocations to trace. A workload runs as one task on each participating hart. The console task starts
/// it, waits for it or continues, and prints its results at the end.
///
///     workload run leak 500 list        WorkloadRun: slot, arguments, seed, harts
///       hart 0: task net-rx  -> Workload::work(run, 0)
///       hart 1: task net-rx  -> Workload::work(run, 1)
///       the last task to end signals; the console task calls Workload::finish(run, out)
///
/// A workload that keeps its objects (`stacks`) frees them in release(), at `workload stop`.

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include <qm/console/row.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>

#include "random.hpp"

namespace qm::demo {

class WorkloadRun;

struct Workload {
  std::string_view name;
  std::string_view usage;    ///< name and arguments
  std::string_view summary;  ///< one line
  std::string_view task;     ///< name of its tasks
  bool counted = true;       ///< has an argument N
  bool named = false;        ///< has an argument NAME
  std::string_view option;   ///< an optional word after N; empty: none
  std::string_view names{};  ///< the values of NAME, separated by commas
  /// Called before the tasks start. @returns nullptr, or an error text.
  const char* (*prepare)(WorkloadRun& run) noexcept;
  void (*work)(WorkloadRun& run, unsigned hart) noexcept;
  void (*finish)(WorkloadRun& run, console::Output& out) noexcept;
  void (*release)(WorkloadRun& run) noexcept;  ///< null: the workload keeps no objects
};

/// The workloads, in the order in which they are listed.
[[nodiscard]] std::span<const Workload* const> workloads() noexcept;
[[nodiscard]] const Workload* find_workload(std::string_view name) noexcept;

/// One run of a workload.
class WorkloadRun {
 public:
  // Set before prepare().
  const Workload* workload = nullptr;
  std::uint32_t count = 0;
  std::string_view text;  ///< the NAME; valid in prepare()
  std::uint32_t seed = 1;
  bool option = false;
  hal::HartMask harts = 0;

  // For the workload; zeroed before prepare().
  std::array<std::atomic<std::uint32_t>, 8> numbers{};

  [[nodiscard]] bool stopping() const noexcept { return stop_.load(std::memory_order_relaxed); }
  void stop() noexcept { stop_.store(true, std::memory_order_relaxed); }
  [[nodiscard]] unsigned participants() const noexcept;
  /// The hart's number among the participants, from 0, and the reverse.
  [[nodiscard]] unsigned place(unsigned hart) const noexcept;
  [[nodiscard]] unsigned hart_at(unsigned place) const noexcept;
  [[nodiscard]] Random random(unsigned hart) const noexcept { return Random(seed * 64 + hart); }

  /// Waits until every participant has called barrier(). Other tasks run meanwhile.
  void barrier() noexcept;

 private:
  friend class WorkloadRunner;
  friend void run_worker(void* run);
  std::atomic<bool> stop_{false};
  std::atomic<std::uint32_t> arrived_{0};
  std::atomic<std::uint32_t> left_{0};
  std::atomic<std::uint32_t> state_{0};
  firmware::Event event_;
};

/// Starts and ends runs. Context: the console task.
class WorkloadRunner {
 public:
  static constexpr unsigned kMaxRuns = 4;
  enum State : std::uint32_t { kFree, kRunning, kDone, kHolding };

  /// @returns a run to fill in; nullptr if all are in use.
  static WorkloadRun* reserve() noexcept;
  static void cancel(WorkloadRun& run) noexcept;
  /// Starts the tasks. @returns nullptr, or an error text; the run is free then.
  static const char* start(WorkloadRun& run) noexcept;
  /// Whether all tasks of the run have ended.
  [[nodiscard]] static bool done(const WorkloadRun& run) noexcept;
  /// Waits until the run is done or @p deadline has passed.
  static void wait(WorkloadRun& run, std::uint64_t deadline) noexcept;
  /// Prints the run's results, and frees the run unless its workload keeps objects.
  static void finish(WorkloadRun& run, console::Output& out) noexcept;
  /// @returns a run that was started in the background and has ended; nullptr if there is none.
  static WorkloadRun* finished() noexcept;
  /// Stops every run, and frees the objects that workloads keep. @returns the number of runs.
  static unsigned stop_all() noexcept;
};

}  // namespace qm::demo
