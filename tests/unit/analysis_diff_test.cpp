// The comparison of two states: dumps of the console, and input that must be refused.

#include <gtest/gtest.h>

#include <string>

#include <qm/analysis/diff.hpp>
#include <qm/host/error.hpp>

namespace analysis_diff_test {

using namespace qm::analysis;

const std::string kEnd = R"({"row":"end","stacks":1,"verdict":"complete"})"
                         "\n"
                         R"({"row":"status","number":0})"
                         "\n";
const std::string kOther =
    R"({"row":"stack","objects":3,"bytes":768,"stack":7,"frames":[{"address":"0x80200010","function":"inode_get"}]})"
    "\n";

/// A row of slab_stacks.
std::string stack(int objects) {
  return std::string(R"({"row":"stack","objects":)") + std::to_string(objects) + R"(,"bytes":)" +
         std::to_string(objects * 512) +
         R"(,"stack":1513210599,"truncated":0,"frames":[{"address":"0x8020c1f2","function":"packet_alloc","offset":58},)" +
         R"({"address":"0x8020c8aa","function":"rx_deliver","offset":18}]})" + "\n";
}

std::string stacks(int objects, const std::string& more = "") { return stack(objects) + more + kEnd; }

/// Rows of slab_trace print.
std::string objects(int count) {
  std::string text;
  for (int index = 0; index < count; ++index) {
    text += R"({"row":"object","address":"0x80a4128)" + std::to_string(index) +
            R"(","size_bytes":512,"stack":1513210599,"frames":[{"address":"0x8020c1f2","function":"packet_alloc"}]})" +
            "\n";
  }
  return text + kEnd;
}

Holdings of(const std::string& text, const char* source = "a") {
  return holdings_of(rows_of_json(text), nullptr, source);
}

TEST(Diff, knows_stacks_by_their_ids) {
  const Difference made = difference(of(stacks(10, kOther)), of(stacks(14), "b"));
  ASSERT_EQ(made.changes.size(), 2u);
  EXPECT_EQ(made.changes[0].origin.stack, "0x5a31c2e7");
  EXPECT_EQ(made.changes[0].objects(), 4);
  EXPECT_EQ(made.changes[0].bytes(), 4 * 512);
  EXPECT_EQ(made.changes[0].after.name, "packet_alloc");
  EXPECT_EQ(made.changes[1].objects(), -3);
  const std::string text = difference_text(made, 20);
  EXPECT_NE(text.find("+4 objects          +2048  stack 0x5a31c2e7 packet_alloc"), std::string::npos) << text;
  EXPECT_NE(text.find("-3 objects           -768  stack 0x00000007 inode_get"), std::string::npos) << text;
  EXPECT_NE(text.find("stacks changed 2, hidden 0: complete"), std::string::npos) << text;
}

TEST(Diff, compares_objects_with_stacks) {
  const Difference made = difference(of(objects(2)), of(stacks(5), "b"));
  ASSERT_EQ(made.changes.size(), 1u);
  EXPECT_EQ(made.changes[0].objects(), 3);
  EXPECT_EQ(made.changes[0].bytes(), 3 * 512);
  EXPECT_NE(difference_json(made).find("\"objects\": 3"), std::string::npos);
}

TEST(Diff, takes_no_figure_that_is_no_number) {
  std::string odd = stacks(10);
  odd.replace(odd.find("\"bytes\":5120"), 12, "\"bytes\":\"inf\",\"x\":[1]");
  const Difference made = difference(of(odd), of(odd, "b"));
  EXPECT_TRUE(made.changes.empty());
  ASSERT_EQ(made.after.stacks.size(), 1u);
  EXPECT_EQ(made.after.stacks.begin()->second.bytes, 0);
}

TEST(Diff, of_the_same_is_empty_and_of_incomplete_dumps_says_so) {
  EXPECT_TRUE(difference(of(stacks(3)), of(stacks(3), "b")).changes.empty());
  std::string cut = stacks(4);
  cut.replace(cut.find("complete"), 8, "incomplete");
  EXPECT_NE(difference_text(difference(of(stacks(3)), of(cut, "b")), 20).find(": incomplete"), std::string::npos);
}

TEST(Diff, of_a_dump_that_was_cut_off_behind_a_stack_is_incomplete) {
  const std::string whole = stacks(4, kOther);
  EXPECT_TRUE(of(whole).complete);
  EXPECT_FALSE(of(stack(4) + kOther).complete);
  EXPECT_FALSE(of(whole.substr(0, whole.find("inode_get"))).complete);
}

TEST(Diff, refuses_two_reports_in_one_file) {
  EXPECT_THROW((void)of(stacks(1) + stacks(2)), qm::host::Error);
  // For a pattern, slab_trace print has a part for each cache.
  EXPECT_EQ(of(objects(1).substr(0, objects(1).find("{\"row\":\"status")) + objects(2)).stacks.begin()->second.objects,
            3);
}

TEST(Diff, refuses_what_is_no_report) {
  EXPECT_THROW((void)of("qm> help\n"), qm::host::Error);
  EXPECT_THROW((void)of(""), qm::host::Error);
  EXPECT_THROW((void)of("{\"row\":\"command\",\"usage\":\"help\"}\n[1]\n{\"row\":3}\n"), qm::host::Error);
}

}  // namespace analysis_diff_test
