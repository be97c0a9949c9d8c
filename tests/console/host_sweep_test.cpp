// qm sweep on the demo: it finds code that cannot handle a failing allocation, and prints a command to reproduce it.

#include "machine.hpp"

#include <gtest/gtest.h>

#include <string>

#include <qm/host/target.hpp>
#include <qm/test/command.hpp>
#include <qm/test/pattern.hpp>

namespace host_sweep_test {

namespace host = qm::host;
using qm::test::Outcome;

std::string image() { return qm::test::demo().image.string(); }

Outcome sweep(const std::string& arguments) {
  return qm::test::run_command(std::string(QM_TOOL) + " sweep --timeout 3 --image " + image() + " " + arguments +
                               " 2>&1");
}

/// Runs the line that was printed for the failure @p fault.
Outcome reproduce(const std::string& text, const std::string& fault) {
  const qm::test::Match line = qm::test::find(text, "\n  qm (run --image [^\n]*'fault " + fault + "'[^\n]*)\n");
  if (line.empty()) return {};
  return qm::test::run_command(std::string(QM_TOOL) + " " + line[1] + " --timeout 3 2>&1");
}

TEST(Sweep, of_a_workload_that_expects_failures_ends_well) {
  const Outcome all = sweep("--most 20 'workload run neutral 5'");
  EXPECT_EQ(all.status, 0) << all.text;
  EXPECT_FALSE(qm::test::find(all.text, "\npacket nth: [0-9]+ runs, [0-9]+ ok").empty()) << all.text;
  EXPECT_FALSE(qm::test::find(all.text, "\npacket from: [0-9]+ runs, [0-9]+ ok").empty()) << all.text;
  EXPECT_FALSE(qm::test::find(all.text, "\nsweep: [0-9]+ sources, [0-9]+ ok\n$").empty()) << all.text;
}

// Caches of size classes are created when they are needed.
TEST(Sweep, takes_a_pattern_of_caches_that_the_commands_make) {
  const Outcome some = sweep("--most 2 --caches 'kmalloc_6?' 'workload run churn 50'");
  EXPECT_EQ(some.status, 0) << some.text;
  EXPECT_FALSE(qm::test::find(some.text, "^kmalloc_64 nth: [12] runs?, [12] ok[^\n]*\nkmalloc_64 from: ").empty())
      << some.text;
}

TEST(Sweep, reaches_each_acquisition_of_an_arena_and_of_the_allocator_itself) {
  const Outcome all = sweep("--arenas kheap --internal 'workload run churn 5'");
  EXPECT_EQ(all.status, 0) << all.text;
  for (const char* const source : {"kheap", "internal"}) {
    for (const char* const mode : {"nth", "from"}) {
      const std::string line = std::string("(^|\n)") + source + " " + mode + ": ([0-9]+) runs?[^;\n]*\n";
      const qm::test::Match runs = qm::test::find(all.text, line.c_str());
      ASSERT_FALSE(runs.empty()) << line << all.text;  // a `;` stands before what --most has cut off
      EXPECT_GE(std::stoi(runs[2]), 1) << line << all.text;
    }
  }
  EXPECT_FALSE(qm::test::find(all.text, "\nsweep: 2 sources, [0-9]+ ok").empty()) << all.text;
  const Outcome none = sweep("--arenas nosuch 'workload run churn 40'");
  EXPECT_EQ(none.status, 3) << none.text;
  EXPECT_NE(none.text.find("no arena is called nosuch"), std::string::npos) << none.text;
}

TEST(Sweep, finds_the_leak_on_an_error_path_and_reproduces_it) {
  const Outcome found = sweep("--caches packet 'workload run careless leak'");
  EXPECT_EQ(found.status, 1);
  // Three rounds of two allocations: if the second of a round fails, the first one leaks.
  EXPECT_NE(found.text.find("\npacket nth: 6 runs, 3 ok, 3 leak\n"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("\npacket from: 6 runs, 3 ok, 3 leak\n"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("fault packet nth 4: leak: expect sweep: 1 object, 512 bytes more, from qm::demo::take\n"),
            std::string::npos)
      << found.text;
  const Outcome again = reproduce(found.text, "packet nth 4");
  EXPECT_EQ(again.status, 1) << again.text;
  EXPECT_NE(again.text.find("error: expect sweep: 1 object, 512 bytes more"), std::string::npos) << again.text;
}

TEST(Sweep, finds_the_unchecked_allocation_and_boots_again_after_each_crash) {
  const Outcome found = sweep("--caches packet 'workload run careless null'");
  EXPECT_EQ(found.status, 1);
  EXPECT_NE(found.text.find("\npacket nth: 3 runs, 3 crash\n"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("\npacket from: 3 runs, 3 crash\n"), std::string::npos) << found.text;
  EXPECT_FALSE(
      qm::test::find(found.text, "\n *\\*\\*\\* exception: store access fault [^\n]* from task careless\n").empty())
      << found.text;
  EXPECT_FALSE(qm::test::find(found.text, "\n *#01 [^\n]* in qm::demo::work\n").empty()) << found.text;
  EXPECT_EQ(reproduce(found.text, "packet nth 2").status, 3);
}

TEST(Sweep, finds_the_lock_that_an_error_path_holds) {
  const Outcome found = sweep("--caches packet --most 1 'workload run careless lock'");
  EXPECT_EQ(found.status, 1);
  EXPECT_NE(found.text.find("\npacket nth: 1 run, 1 hang; there are more (--most)\n"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("\npacket from: 1 run, 1 hang; there are more (--most)\n"), std::string::npos)
      << found.text;
  EXPECT_EQ(reproduce(found.text, "packet nth 1").status, 3);
}

// Not --image: the target runs already, and nothing but its line is known.
TEST(Sweep, goes_over_a_serial_line_as_over_qemu) {
  host::QemuOptions options = qm::test::demo();
  options.board = "virt";  // its line is a socket
  options.append += options.append.empty() ? "panic=1" : " panic=1";
  host::Qemu qemu(options);
  {
    host::Transcript transcript;
    host::Console console(qemu.connect(host::Clock::now() + host::Milliseconds(20'000)), transcript);
    console.wait_for_prompt(host::Milliseconds(60'000));
  }
  const std::string tool = std::string(QM_TOOL) + " ";
  const std::string sweeps = tool + "sweep --timeout 3 --serial unix:" + qemu.socket().string() + " --caches packet ";
  const Outcome found = qm::test::run_command(sweeps + "'workload run careless leak' 2>&1");
  EXPECT_EQ(found.status, 1);
  EXPECT_NE(found.text.find("\npacket nth: 6 runs, 3 ok, 3 leak\n"), std::string::npos) << found.text;
  EXPECT_NE(found.text.find("\npacket from: 6 runs, 3 ok, 3 leak\n"), std::string::npos) << found.text;
  const qm::test::Match line = qm::test::find(found.text, "\n  qm (exec --serial [^\n]*'fault packet nth 4'[^\n]*)\n");
  ASSERT_FALSE(line.empty()) << found.text;
  const Outcome again = qm::test::run_command(tool + line[1] + " --timeout 3 2>&1");
  EXPECT_EQ(again.status, 1) << again.text;
  EXPECT_NE(again.text.find("error: expect sweep: 1 object, 512 bytes more"), std::string::npos) << again.text;
  // Nothing here resets the target after a crash: the sweep reports the crash, and then that nobody answers.
  const Outcome dead = qm::test::run_command(sweeps + "'workload run careless null' 2>&1");
  EXPECT_EQ(dead.status, 3);
  EXPECT_FALSE(qm::test::find(dead.text, "fault packet nth 1: crash: ").empty()) << dead.text;
  EXPECT_FALSE(qm::test::find(dead.text, "\nqm: [^\n]+\n").empty()) << dead.text;
}

TEST(Sweep, prints_each_run_as_json) {
  const Outcome found = sweep("--json --most 2 --caches packet 'workload run careless leak'");
  EXPECT_EQ(found.status, 1);
  EXPECT_NE(found.text.find("{\"row\":\"run\",\"fault\":\"fault packet nth 1\",\"verdict\":\"ok\","), std::string::npos)
      << found.text;
  EXPECT_NE(found.text.find("{\"row\":\"run\",\"fault\":\"fault packet from 2\",\"verdict\":\"leak\","),
            std::string::npos)
      << found.text;
}

TEST(Sweep, says_what_it_cannot_do) {
  const Outcome failing = sweep("'workload run nothing'");
  EXPECT_EQ(failing.status, 3);
  EXPECT_NE(failing.text.find("qm: without any failure: error: workload run nothing: "), std::string::npos)
      << failing.text;
  const Outcome leaking = sweep("'workload run leak 100'");
  EXPECT_EQ(leaking.status, 3);
  EXPECT_NE(leaking.text.find("qm: without any failure: leak: "), std::string::npos) << leaking.text;
  const Outcome idle = sweep("--caches packet version");
  EXPECT_EQ(idle.status, 3);
  EXPECT_NE(idle.text.find("qm: the commands allocate from no cache that can fail\n"), std::string::npos) << idle.text;
  const Outcome nowhere = qm::test::run_command(std::string(QM_TOOL) + " sweep version 2>&1");
  EXPECT_EQ(nowhere.status, 2);
  EXPECT_EQ(nowhere.text, "qm: sweep needs --image or --serial, one of them\n");
}

}  // namespace host_sweep_test
