// Memory taken to the end on every hart: the console hears of it once, with who holds it, and the system goes on.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <string>

namespace {

using qm::test::Machine;

std::string run(Machine& machine, std::string_view line) {
  const Machine::Answer answer = machine.request(line);
  EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
  return answer.text;
}

TEST(Exhaustion, is_told_with_who_holds_the_memory_and_is_over_when_it_is_given_back) {
  Machine machine;
  const std::string report = run(machine, "workload run exhaust");
  EXPECT_NE(report.find("exhaust: survived, "), std::string::npos) << report;
  ASSERT_TRUE(machine.wait_for_text("\r\n  held: ")) << machine.text();
  machine.settle();
  const std::string& text = machine.text();
  const qm::test::Match match = qm::test::find(text,
      "warning: out of memory: (cache|arena) [a-z0-9_]+, [0-9]+ bytes \\((atomic|reclaim)\\), failure ([0-9]+)\r\n"
      "  reap would recover ([0-9]+): magazines [0-9]+, depots [0-9]+, slabs [0-9]+, spans [0-9]+; fragments [0-9]+\r\n"
      "(  magazines:[^\r]*\r\n)?"
      "  held: kheap ([0-9]+), ");
  ASSERT_FALSE(match.empty()) << text;
  EXPECT_GT(std::stoull(match[6]), 100U << 20) << "the workload's blocks";
  if (match[2] == "reclaim") {
    EXPECT_LT(std::stoull(match[4]), 64U << 10) << "what could be had was had";
  }
  EXPECT_EQ(text.find("has not answered"), std::string::npos) << text;
  // Once a second at most, whatever the number of failures.
  EXPECT_LE(qm::test::find_all(text, "warning: out of memory").size(), 30U);
  machine.clear();
  EXPECT_NE(run(machine, "workload run churn 1000").find("outstanding 0"), std::string::npos);
  machine.settle();
  EXPECT_EQ(machine.text().find("out of memory"), std::string::npos) << machine.text();
}

}  // namespace
