#include "workload.hpp"

#include <span>

#include <qm/firmware/console_io.hpp>

#include "workloads/workloads.hpp"

namespace qm::demo {
namespace {

constinit const Workload* const kAll[] = {&kNeutral, &kLeak,   &kPingpong, &kChurn, &kStacks, &kSites,   &kExhaust,
                                          &kReplay,  &kMisuse, &kStray,    &kPlant, &kHold,   &kCareless};

std::array<WorkloadRun, WorkloadRunner::kMaxRuns> runs;

constexpr hal::HartMask bit(unsigned hart) { return hal::HartMask{1} << hart; }

}  // namespace

std::span<const Workload* const> workloads() noexcept { return kAll; }

const Workload* find_workload(std::string_view name) noexcept {
  for (const Workload* workload : kAll) {
    if (workload->name == name) return workload;
  }
  return nullptr;
}

unsigned WorkloadRun::participants() const noexcept {
  unsigned all = 0;
  for (hal::HartMask rest = harts; rest != 0; rest &= rest - 1) ++all;
  return all;
}

unsigned WorkloadRun::place(unsigned hart) const noexcept {
  unsigned before = 0;
  for (hal::HartMask rest = harts & (bit(hart) - 1); rest != 0; rest &= rest - 1) ++before;
  return before;
}

unsigned WorkloadRun::hart_at(unsigned wanted) const noexcept {
  unsigned hart = 0;
  while ((harts & bit(hart)) == 0 || place(hart) != wanted) ++hart;
  return hart;
}

void WorkloadRun::barrier() noexcept {
  const std::uint32_t seen = event_.sequence();
  const unsigned all = participants();
  const std::uint32_t arrival = arrived_.fetch_add(1, std::memory_order_acq_rel) + 1;
  const std::uint32_t target = (arrival + all - 1) / all * all;
  if (arrival == target) return event_.signal();
  std::uint32_t look = seen;
  while (static_cast<std::int32_t>(arrived_.load(std::memory_order_acquire) - target) < 0) {
    firmware::wait_event(event_, look);
    look = event_.sequence();
  }
}

void run_worker(void* argument) {
  WorkloadRun& run = *static_cast<WorkloadRun*>(argument);
  run.workload->work(run, hal::Port::hart_index());
  if (run.left_.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    run.state_.store(WorkloadRunner::kDone, std::memory_order_release);
    firmware::console_input().signal();  // the console task prints the last lines
  }
  run.event_.signal();
}

WorkloadRun* WorkloadRunner::reserve() noexcept {
  for (WorkloadRun& run : runs) {
    if (run.state_.load(std::memory_order_acquire) != kFree) continue;
    for (auto& number : run.numbers) number.store(0, std::memory_order_relaxed);
    run.stop_.store(false, std::memory_order_relaxed);
    run.arrived_.store(0, std::memory_order_relaxed);
    run.seed = 1;
    run.option = false;
    run.harts = hal::online_harts();
    run.state_.store(kRunning, std::memory_order_relaxed);
    return &run;
  }
  return nullptr;
}

void WorkloadRunner::cancel(WorkloadRun& run) noexcept { run.state_.store(kFree, std::memory_order_release); }

const char* WorkloadRunner::start(WorkloadRun& run) noexcept {
  const char* wrong = run.workload->prepare(run);
  if (wrong != nullptr) {
    cancel(run);
    return wrong;
  }
  run.left_.store(run.participants(), std::memory_order_release);
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((run.harts & bit(hart)) == 0) continue;
    if (!firmware::spawn(hart, run.workload->task, run_worker, &run)) hal::Port::fatal("demo: no task for a workload");
  }
  return nullptr;
}

bool WorkloadRunner::done(const WorkloadRun& run) noexcept {
  // acquire: pairs with the release of the last worker, so that its numbers are visible.
  return run.state_.load(std::memory_order_acquire) == kDone;
}

void WorkloadRunner::wait(WorkloadRun& run, std::uint64_t deadline) noexcept {
  const std::uint32_t seen = run.event_.sequence();
  if (!done(run)) firmware::wait_event(run.event_, seen, deadline);
}

void WorkloadRunner::finish(WorkloadRun& run, console::Output& out) noexcept {
  run.workload->finish(run, out);
  const bool holds = run.workload->release != nullptr;
  if (holds && run.stopping()) run.workload->release(run);
  run.state_.store(holds && !run.stopping() ? kHolding : kFree, std::memory_order_release);
}

WorkloadRun* WorkloadRunner::finished() noexcept {
  for (WorkloadRun& run : runs) {
    if (done(run)) return &run;
  }
  return nullptr;
}

unsigned WorkloadRunner::stop_all() noexcept {
  unsigned count = 0;
  for (WorkloadRun& run : runs) {
    const std::uint32_t state = run.state_.load(std::memory_order_acquire);
    if (state == kFree) continue;
    ++count;
    run.stop();
    if (state == kHolding) {
      run.workload->release(run);
      cancel(run);
    }
  }
  return count;
}

}  // namespace qm::demo
