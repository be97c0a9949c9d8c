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

/// Runs a suite with a scheduler. After an error it runs again, to print the history. rl::simulate() does the same, but
/// compiles every scheduler. Prints the number of runs, and ends the program with status 1 if Relacy finds an error.
template <class Suite, class Scheduler>
void search_with(const char* kind, rl::test_params parameters) {
  std::ostream nowhere(nullptr);
  parameters.progress_stream = &nowhere;
  parameters.output_stream = &std::cout;
  parameters.test_name = kind;
  rl::ostringstream state;
  const rl::test_result_e result = rl::run_test<Suite, Scheduler>(parameters, state, false);
  const bool passed = result == rl::test_result_success;
  if (!passed) {
    parameters.collect_history = true;
    parameters.initial_state = parameters.final_state = state.str();
    rl::ostringstream ignored;
    const rl::test_result_e again = rl::run_test<Suite, Scheduler>(parameters, ignored, true);
    RL_VERIFY(again == result);  // else the suite is not deterministic
  }
  std::cout << kind << ", runs " << static_cast<unsigned long long>(parameters.stop_iteration) << ": "
            << (passed ? "no error" : "error") << std::endl;
  if (!passed) std::_Exit(1);  // the variables of that run are not whole
}

/// Runs a suite with random schedules, and then with all schedules that have at most @p switches forced switches. A
/// mutant (QM_MUTANT) must be found by the first.
template <class Suite>
void search(unsigned random_runs, [[maybe_unused]] unsigned switches) {
  constexpr rl::thread_id_t kThreads = Suite::params::thread_count;
  rl::test_params parameters;
  parameters.search_type = rl::sched_random;
  parameters.iteration_count = random_runs;  // the other search ends by itself
  search_with<Suite, rl::random_scheduler<kThreads>>("random", parameters);
#if !defined(QM_MUTANT)
  parameters.search_type = rl::sched_bound;
  parameters.context_bound = switches;
  search_with<Suite, rl::context_bound_scheduler<kThreads>>("few switches", parameters);
#endif
}

}  // namespace qm_relacy
