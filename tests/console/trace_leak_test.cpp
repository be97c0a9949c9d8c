// The main purpose: the trace shows exactly the objects that a workload forgot, each with the function that forgot it;
// a workload that forgets nothing leaves nothing.

#include "machine.hpp"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace trace_leak_test {

using qm::host::ReportRow;
using qm::test::addresses;
using qm::test::Machine;
using qm::test::MachineTest;

class Leak : public MachineTest {
 protected:
  static std::string run(std::string_view line) {
    const Machine::Answer answer = machine().request(line);
    EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
    return answer.text;
  }
};

std::vector<std::uint64_t> sorted(std::vector<std::uint64_t> addresses) {
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

TEST_F(Leak, the_trace_shows_exactly_what_was_forgotten_for_any_seed) {
  for (const char* seed : {"1", "7", "4711"}) {
    run("slab_trace reset packet");
    run("slab_trace start packet");
    const auto leaked = addresses(machine().rows(std::string("workload run leak 500 list seed ") + seed), "leaked");
    run("slab_trace stop packet");
    const std::vector<ReportRow> report = machine().rows("slab_trace print packet");
    EXPECT_GT(leaked.size(), 20U);
    EXPECT_EQ(report.back().text("verdict"), "complete");
    EXPECT_EQ(sorted(addresses(report, "object")), sorted(leaked));
    for (std::size_t at = 0; at + 2 < report.size(); ++at) {
      if (report[at].kind != "object") continue;
      EXPECT_EQ(report[at + 1].text("function"), "packet_alloc");
      EXPECT_EQ(report[at + 2].text("function"), "rx_checksum_error");
      EXPECT_EQ(report[at].text("context"), "task net-rx");
    }
  }
}

TEST_F(Leak, a_neutral_workload_leaves_nothing_outstanding) {
  run("slab_trace reset packet");
  run("slab_trace start packet");
  EXPECT_NE(run("workload run neutral 500").find("outstanding 0\n"), std::string::npos);
  run("slab_trace stop packet");
  const std::string text = run("slab_trace print packet");
  EXPECT_NE(text.find("\noutstanding 0, recorded "), std::string::npos) << text;
  EXPECT_TRUE(text.ends_with(": complete\n")) << text;
  EXPECT_EQ(text.find(", recorded 0,"), std::string::npos) << text;  // the objects did go through the traced cache
}

// The demo's own tasks keep running, and the allocator creates classes and slabs for the workload.
TEST_F(Leak, of_the_whole_live_system_nothing_is_expected_but_what_was_forgotten) {
  run("slab_trace reset *");
  run("slab_trace start *");
  for (int round = 0; round < 10; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    run("mark before");
    run("workload run neutral 500 seed " + std::to_string(round + 1));
    const std::string report = run("expect before");
    EXPECT_TRUE(report.starts_with("PASS\n")) << report;
    EXPECT_NE(report.find("\nnote: left out: "), std::string::npos) << report;
  }
  run("mark leaky");
  const std::size_t leaked = addresses(machine().rows("workload run leak 300 list"), "leaked").size();
  const Machine::Answer failed = machine().request("expect leaky");
  EXPECT_EQ(failed.status, qm::wire::CommandStatus::kFailed);
  const std::string count = std::to_string(leaked), bytes = std::to_string(leaked * 512);
  EXPECT_TRUE(failed.text.starts_with(" packet_alloc+")) << failed.text;
  EXPECT_NE(failed.text.find("stack_count: " + count + "\n"), std::string::npos) << failed.text;
  EXPECT_NE(failed.text.find("error: expect leaky: " + count + " objects, " + bytes + " bytes more\n"),
            std::string::npos)
      << failed.text;
  run("slab_trace stop *");
}

TEST_F(Leak, counts_survive_pingpong_and_churn) {
  run("slab_trace reset *");
  run("slab_trace start *");
  run("workload run pingpong 300");
  run("workload run churn 500");
  const std::string churned = run("slab_trace print session");
  EXPECT_NE(churned.find("\noutstanding 0, recorded "), std::string::npos) << churned;
  run("slab_trace stop *");
}

}  // namespace trace_leak_test
