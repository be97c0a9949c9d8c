// Allocations of real programs, replayed on the target: nothing is lost or overwritten, and all memory is freed.

#include "machine.hpp"

#include <string>

#include <qm/test/harts.hpp>

namespace workload_replay_test {

using qm::test::Machine;
using qm::test::MachineTest;

class Replay : public MachineTest {
 protected:
  static std::string run(std::string_view line) {
    const Machine::Answer answer = machine().request(line);
    EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
    return answer.text;
  }
  static std::string error(std::string_view line) { return machine().request(line).text; }
};

TEST_F(Replay, one_thread_replays_the_recorded_order) {
  EXPECT_EQ(run("workload run replay sqlite"),
            "replay: 88402 operations, peak 1623803 bytes, crossed 0, outstanding 16\n");
  EXPECT_EQ(run("workload run replay jq"), "replay: 69406 operations, peak 2642283 bytes, crossed 0, outstanding 2\n");
  EXPECT_EQ(run("workload run replay redis-threads hart 0"),
            "replay: 160000 operations, peak 1595149 bytes, crossed 0, outstanding 19681\n");
}

TEST_F(Replay, threads_are_harts_and_free_what_others_took) {
  const std::string text = run("workload run replay redis-threads");
  EXPECT_TRUE(text.starts_with("replay: 160000 operations, peak ")) << text;
  const bool all_apart = qm::test::harts() >= 4;
  const bool together = qm::test::harts() == 1;
  EXPECT_EQ(text.find(", crossed 29543,") != std::string::npos, all_apart) << text;
  EXPECT_EQ(text.find(", crossed 0,") != std::string::npos, together) << text;
  EXPECT_TRUE(text.ends_with(", outstanding 19681\n")) << text;
}

TEST_F(Replay, a_replay_that_is_stopped_gives_everything_back) {
  machine().type_line("workload start replay redis-threads");
  EXPECT_NE(error("workload run replay jq").find("error: a replay is under way"), std::string::npos);
  run("workload stop");
  EXPECT_TRUE(machine().wait_for_text("replay: "));
  EXPECT_EQ(run("workload run replay jq"), "replay: 69406 operations, peak 2642283 bytes, crossed 0, outstanding 2\n");
}

TEST_F(Replay, a_workload_whose_mailboxes_are_one_runs_is_not_run_twice_at_a_time) {
  machine().type_line("workload start neutral 4000000000");
  EXPECT_NE(error("workload run neutral 1").find("error: neutral is under way already"), std::string::npos);
  run("workload stop");
  EXPECT_TRUE(machine().wait_for_text("neutral: stopped, of 4000000000 rounds, outstanding 0"));
  EXPECT_NE(run("workload run neutral 10").find("outstanding 0\n"), std::string::npos);
}

TEST_F(Replay, wants_the_name_of_a_recording) {
  EXPECT_EQ(error("workload run replay"), "error: usage: workload run replay NAME [hart H] [seed S]\n");
  EXPECT_EQ(error("workload run replay doom"), "error: no such recording: sqlite, jq or redis-threads\n");
}

}  // namespace workload_replay_test
