#pragma once
// The state of a hart that the port leaves to the firmware, and the runs of a test. After the project's headers.

namespace qm::hal {

inline HartLocal hart_locals[Port::kMaxHarts];
inline HartLocal& hart_local() noexcept { return hart_locals[Port::hart_index()]; }
inline bool in_panic() noexcept { return false; }
inline bool may_wait() noexcept { return true; }

}  // namespace qm::hal

extern "C" {
char qm_configuration_relacy;
}

namespace qm_relacy {

/// begin(), and touches the port's static objects.
inline void begin_harts() {
  begin();
  for (auto& pending : qm::hal::Port::pending) pending.touch();
}

/// Runs a suite with random schedules, and then with all schedules that have at most @p switches forced switches. Prints
/// the number of runs, and ends the program with status 1 if Relacy finds an error.
template <class Suite>
void search(unsigned random_runs, unsigned switches) {
  for (const rl::scheduler_type_e kind : {rl::sched_random, rl::sched_bound}) {
    rl::test_params parameters;
    parameters.search_type = kind;
    parameters.iteration_count = random_runs;  // the other search ends by itself
    parameters.context_bound = switches;
    std::ostream nowhere(nullptr);
    parameters.progress_stream = &nowhere;
    parameters.output_stream = &std::cout;
    const bool passed = rl::simulate<Suite>(parameters);
    std::cout << (kind == rl::sched_random ? "random" : "few switches") << ", runs "
              << static_cast<unsigned long long>(parameters.stop_iteration) << ": " << (passed ? "no error" : "error")
              << std::endl;
    if (!passed) std::_Exit(1);  // the variables of that run are not whole
  }
}

}  // namespace qm_relacy
