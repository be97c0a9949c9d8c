// findleaks on the running demo, while all harts allocate and free: it reports planted leaks by heads, with all objects
// below them, and does not report objects that a register of another hart, a stack or a declared ring refers to.

#include "machine.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <vector>

namespace console_findleaks_test {

using qm::host::ReportRow;
using qm::test::addresses;
using qm::test::Machine;
using qm::test::MachineTest;

class FindLeaks : public MachineTest {
 protected:
  static std::string run(std::string_view line) {
    const Machine::Answer answer = machine().request(line);
    EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
    return answer.text;
  }
  struct Report {
    std::vector<ReportRow> rows;
    std::uint64_t leaks = 0;
    std::uint64_t objects = 0;
    std::uint64_t bytes = 0;
  };
  static Report find(std::string_view line = "findleaks") {
    Report report;
    report.rows = machine().rows(line);
    EXPECT_FALSE(report.rows.empty());
    if (report.rows.empty()) return report;
    const ReportRow& end = report.rows.back();
    EXPECT_EQ(end.kind, "end");
    EXPECT_EQ(end.text("verdict"), "complete");
    report.leaks = end.number("leaks");
    report.objects = end.number("objects");
    report.bytes = end.number("bytes");
    return report;
  }
  /// @returns the examples of reported objects, without the examples of objects that interior pointers hold.
  static std::vector<std::uint64_t> accused(const Report& report) {
    std::vector<std::uint64_t> found;
    for (const ReportRow& row : report.rows) {
      if (row.kind == "inner_only") break;
      if (row.kind == "example") found.push_back(row.find("address")->number);
    }
    return found;
  }
};

TEST_F(FindLeaks, accuses_nothing_of_the_system_itself) {
  for (int round = 0; round < 5; ++round) {
    const Report report = find();
    EXPECT_EQ(report.leaks, 0U);
    const auto scanned = std::find_if(report.rows.begin(), report.rows.end(),
                                      [](const ReportRow& row) { return row.kind == "scanned"; });
    ASSERT_NE(scanned, report.rows.end());
    EXPECT_GT(scanned->number("live"), 0U);
    EXPECT_GT(scanned->number("words"), 10'000U);
  }
}

TEST_F(FindLeaks, finds_what_a_workload_forgot_without_any_trace) {
  const std::vector<std::uint64_t> leaked = addresses(machine().rows("workload run leak 300 list seed 3"), "leaked");
  ASSERT_GT(leaked.size(), 10U);
  const Report report = find();
  EXPECT_EQ(report.leaks, leaked.size());
  EXPECT_EQ(report.bytes, leaked.size() * 512);
  const std::set<std::uint64_t> known(leaked.begin(), leaked.end());
  EXPECT_EQ(accused(report).size(), 3U);
  for (const std::uint64_t one : accused(report)) EXPECT_TRUE(known.contains(one)) << one;
  const std::string text = run("findleaks");
  EXPECT_NE(text.find("cache packet, 512 bytes: heads " + std::to_string(leaked.size()) + ", "), std::string::npos)
      << text;
  EXPECT_NE(text.find("func:packet_alloc\n"), std::string::npos) << text;
  discard();
}

TEST_F(FindLeaks, tells_the_stack_of_what_was_traced) {
  run("slab_trace start packet");
  run("workload run leak 100");
  const std::string text = run("findleaks");
  EXPECT_NE(text.find("  allocated by packet_alloc+0x"), std::string::npos) << text;
  EXPECT_NE(text.find("rx_checksum_error+0x"), std::string::npos) << text;
  run("slab_trace stop packet");
  discard();
}

// QM_STEPS is the number of scans. Each finds all planted objects and accuses no other. After 228 s the board's counter of
// 10 MHz has had the numbers of all addresses of memory: a time that was taken for a pointer would hide an object.
TEST_F(FindLeaks, finds_planted_heads_under_churn_and_never_accuses_what_is_held) {
  constexpr std::uint64_t kEach = 4, kHeads = 6 * kEach, kObjects = 20 * kEach;
  const char* const asked = std::getenv("QM_STEPS");
  const int scans = asked != nullptr ? std::atoi(asked) : 40;
  const std::vector<std::uint64_t> listed = addresses(machine().rows("workload run plant 4 list"), "leaked");
  ASSERT_EQ(listed.size(), kObjects);
  const std::set<std::uint64_t> planted(listed.begin(), listed.end());
  run("workload start hold");
  run("workload start churn 1000000000");
  int exact = 0;
  std::uint64_t bytes = 0;
  for (int scan = 0; scan < scans; ++scan) {
    const Report report = find(scan % 2 == 0 ? "findleaks" : "findleaks sliced");
    EXPECT_EQ(report.leaks, kHeads) << "scan " << scan;
    EXPECT_EQ(report.objects, kObjects) << "scan " << scan;
    EXPECT_TRUE(bytes == 0 || bytes == report.bytes) << "scan " << scan;
    for (const std::uint64_t one : accused(report)) EXPECT_TRUE(planted.contains(one)) << std::hex << one;
    bytes = report.bytes;
    if (report.leaks == kHeads && report.objects == kObjects) ++exact;
  }
  std::printf("%d of %d scans found all planted objects and no other\n", exact, scans);
  run("workload stop");
  // The objects that were held are free again: the scan has lost none of them.
  EXPECT_TRUE(machine().wait_for_text("hold: held "));
  EXPECT_LE(find().objects, kObjects);
  EXPECT_NE(run("verify").find(", faults 0: complete"), std::string::npos);
  discard();
}

TEST_F(FindLeaks, finds_the_same_in_slices_and_stops_between_two_of_them) {
  const std::vector<std::uint64_t> leaked = addresses(machine().rows("workload run leak 300 list seed 3"), "leaked");
  const Report stopped = find(), sliced = find("findleaks sliced");
  EXPECT_EQ(sliced.leaks, leaked.size());
  EXPECT_EQ(accused(sliced), accused(stopped));
  const auto row =
      std::find_if(sliced.rows.begin(), sliced.rows.end(), [](const ReportRow& one) { return one.kind == "sliced"; });
  ASSERT_NE(row, sliced.rows.end());
  EXPECT_GE(row->number("passes"), 17U);
  EXPECT_EQ(machine().request("findleaks slowly").status, qm::wire::CommandStatus::kUsage);
  machine().clear();
  machine().send("findleaks sliced\r\x03");
  EXPECT_TRUE(machine().wait_for_text("findleaks: leaks 0, objects 0, bytes 0: aborted")) << machine().text();
  discard();
}

// The shell works beside tasks that were interrupted anywhere, and the context that panicked holds two objects itself.
TEST_F(FindLeaks, finds_planted_heads_after_a_panic_and_never_accuses_what_is_held) {
  constexpr std::uint64_t kHeads = 6 * 4, kObjects = 20 * 4;
  const std::vector<std::uint64_t> listed = addresses(machine().rows("workload run plant 4 list"), "leaked");
  const std::set<std::uint64_t> planted(listed.begin(), listed.end());
  ASSERT_EQ(planted.size(), kObjects);
  run("workload start hold");
  run("workload start churn 1000000000");
  run("harts");  // the tasks have run meanwhile
  machine().clear();
  machine().send("panic holding\r");
  ASSERT_TRUE(machine().wait_for_text("\r\npanic> ")) << machine().text();
  for (int scan = 0; scan < 3; ++scan) {  // what a scan or its report leaves in memory hides nothing from the next one
    const Report report = find();
    EXPECT_LE(report.objects, kObjects);
    EXPECT_GE(report.objects, kObjects / 4);  // a dead slot of a stack may keep a planted object, and what it leads to
    EXPECT_LE(report.leaks, kHeads);
    EXPECT_FALSE(accused(report).empty());
    for (const std::uint64_t one : accused(report)) EXPECT_TRUE(planted.contains(one)) << std::hex << one;
  }
  discard();
}

}  // namespace console_findleaks_test
