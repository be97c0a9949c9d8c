// Memory is exhausted on every hart: one report with the holders of memory goes to the console, and the system goes on.

#include "machine.hpp"

#include <qm/test/harts.hpp>
#include <qm/test/pattern.hpp>

#include <string>

namespace console_exhaustion_test {

using qm::test::Machine;

std::string run(Machine& machine, std::string_view line) {
  const Machine::Answer answer = machine.request(line);
  EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
  return answer.text;
}

TEST(Exhaustion, is_reported_with_who_holds_the_memory_and_is_over_when_it_is_given_back) {
  Machine machine;
  const std::string report = run(machine, "workload run exhaust");
  EXPECT_NE(report.find("exhaust: survived, "), std::string::npos) << report;
  ASSERT_TRUE(machine.wait([&] { return !qm::test::find(machine.text(), "caches:\\s+incomplete\r\n").empty(); }))
      << machine.text();
  machine.settle();
  const std::string text = qm::test::replace_all(machine.text(), "\r\n    ", " ");  // joins broken lines
  const qm::test::Match match = qm::test::find(
      text,
      "warning: out of memory: (cache|arena) [a-z0-9_]+, [0-9]+ bytes \\((atomic|reclaim)\\), failure ([0-9]+)\r\n"
      "  reap would recover ([0-9]+): magazines [0-9]+, depots [0-9]+, slabs [0-9]+, spans ([0-9]+); fragments "
      "[0-9]+\r\n"
      "(  hart [0-9] magazines: loaded [0-9]+, previous [0-9]+\r\n)*"
      "  held: kheap ([0-9]+), [^\r]*\r\n"
      "  site [^\r ]*exhaust\\.cpp:[0-9]+ func:take_blocks: bytes [0-9]+, calls [0-9]+\r\n(?:  site [^\r]*\r\n){0,9}"
      "  stacks 0 of 0, objects 0, bytes 0, dropped 0, not traced ([0-9]+) of \\8 caches: incomplete\r\n");
  ASSERT_FALSE(match.empty()) << text;
  EXPECT_GT(std::stoull(match[7]), 100U << 20) << "the workload's blocks";
  if (match[2] == "reclaim") {
    // Another hart, whose own request is about to fail, has joined free memory between spans.
    const std::uint64_t joined = qm::test::harts() == 1 ? 0 : std::stoull(match[5]);
    EXPECT_LT(std::stoull(match[4]) - joined, 64U << 10) << "what could be had was had";
  }
  EXPECT_EQ(text.find("has not answered"), std::string::npos) << text;
  // At most one report a second, whatever the number of failures.
  EXPECT_LE(qm::test::find_all(text, "warning: out of memory").size(), 30U);
  machine.clear();
  EXPECT_NE(run(machine, "workload run churn 1000").find("outstanding 0"), std::string::npos);
  machine.settle();
  EXPECT_EQ(machine.text().find("out of memory"), std::string::npos) << machine.text();
}

TEST(Exhaustion, runs_the_command_of_the_boot_option_after_its_report) {
  auto options = qm::test::demo();
  options.append = "exhausted=findleaks";
  Machine machine(options);
  run(machine, "workload run plant 2");
  machine.send("help");  // a line that is being typed
  EXPECT_NE(run(machine, "workload run exhaust").find("exhaust: survived, "), std::string::npos);
  ASSERT_TRUE(machine.wait_for_text("\r\nfindleaks: leaks ")) << machine.text();
  machine.settle();
  const std::string& text = machine.text();
  const std::size_t report = text.find("warning: out of memory: ");
  const std::size_t leaks = text.find("cache session, ");
  ASSERT_NE(report, std::string::npos) << text;
  ASSERT_NE(leaks, std::string::npos) << text;
  EXPECT_LT(report, leaks) << text;
  EXPECT_FALSE(
      qm::test::find(text, "\r\nfindleaks: leaks [1-9][0-9]*, objects [0-9]+, bytes [0-9]+: complete\r\nqm> help")
          .empty())
      << text;
}

/// @returns the figure in a report's line, by the words before it.
unsigned long number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  EXPECT_NE(at, std::string::npos) << label << " in\n" << text;
  return at == std::string::npos ? 0 : std::stoul(text.substr(at + label.size()));
}

TEST(Exhaustion, with_all_views_on_the_report_is_complete_and_all_memory_is_back) {
  auto options = qm::test::demo();
  options.append = "trace=* records=40000";
  Machine machine(options);
  run(machine, "workload run churn 500");  // now size classes and magazines exist
  run(machine, "reap");
  const unsigned long free_before = number_after(run(machine, "free -v"), "Free Memory  : ");
  machine.clear();
  EXPECT_NE(run(machine, "workload run exhaust").find("exhaust: survived, "), std::string::npos);
  ASSERT_TRUE(machine.wait([&] {
    return !qm::test::find(machine.text(), "  stacks [^\r]*(\r\n    [^\r]*)?plete\r\n").empty();
  })) << machine.text();
  machine.settle();
  const std::string text = qm::test::replace_all(machine.text(), "\r\n    ", " ");  // joins broken lines
  // The stack that allocated the large blocks comes first, each with its functions and the bytes it held at that time.
  const qm::test::Match report = qm::test::find(
      text,
      "warning: out of memory: [^\r]*\r\n  reap would recover [^\r]*\r\n(  hart [0-9] magazines: [^\r]*\r\n)*  held: "
      "[^\r]*\r\n"
      "  stack 0x[0-9a-f]{8}: bytes ([0-9]+), objects [0-9]+: [^\r]*take_blocks[^\r]*\r\n"
      "(  stack 0x[0-9a-f]{8}: bytes [0-9]+, objects [0-9]+: [^\r]*\r\n){9}"
      "  site [^\r ]*exhaust\\.cpp:[0-9]+ func:take_blocks: bytes [0-9]+, calls [0-9]+\r\n(?:  site [^\r]*\r\n){0,9}"
      "  stacks 10 of [0-9]+, objects ([0-9]+), bytes ([0-9]+), dropped 0, not traced ([0-9]+) of ([0-9]+) caches: "
      "complete\r\n");
  ASSERT_FALSE(report.empty()) << text;
  EXPECT_GT(std::stoull(report[2]), 64U << 20);
  EXPECT_LT(std::stoull(report[2]), 128U << 20) << "once, and not for each arena that it went through";
  EXPECT_GE(std::stoull(report[5]), std::stoull(report[2]));
  EXPECT_EQ(report[6], "7");  // base and ktrace, and the sources of caches, slabs and records
  // The system continues, and all memory has been freed.
  EXPECT_NE(run(machine, "workload run neutral 50").find("outstanding 0"), std::string::npos);
  run(machine, "reap");
  const unsigned long free_after = number_after(run(machine, "free -v"), "Free Memory  : ");
  EXPECT_GT(free_after + (512U << 10), free_before) << "but for handles, slabs in use and magazines";
  EXPECT_NE(run(machine, "verify").find("faults 0: complete"), std::string::npos);
}

}  // namespace console_exhaustion_test
