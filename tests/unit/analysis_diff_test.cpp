// Two states compared: dumps of the console, and what has to be refused.

#include <gtest/gtest.h>

#include <string>

#include <qm/analysis/diff.hpp>
#include <qm/host/error.hpp>

namespace {

using namespace qm::analysis;

std::string stacks(int objects, const std::string& more = "") {
  return "qm> slab_stacks packet\r\n packet_alloc+0x3a/0x9c\r\n rx_deliver+0x12/0x60\r\nstack_count: " +
         std::to_string(objects) + "\r\nstack_bytes: " + std::to_string(objects * 512) +
         "\r\nstack_id: 0x5a31c2e7\r\n\r\n" + more +
         "stacks 1, hidden 0 (threshold 1), objects 1, bytes 1, dropped 0, not traced 30 caches: complete\r\nqm> \r\n";
}

std::string objects(int count) {
  std::string text = "Dumping outstanding allocs from packet\n-------------------------\n";
  for (int index = 0; index < count; ++index) {
    text += "Obj 0x0000000080a4128" + std::to_string(index) + ", from hart 2 task net-rx:\n----\n" +
            "#01 [<0x000000008020c1f2>] in packet_alloc\n#02 [<0x000000008020c8aa>] in rx_deliver\n\n";
  }
  return text + "outstanding " + std::to_string(count) +
         ", recorded 9, dropped 0, truncated stacks 0, from before start 0: complete\n";
}

TEST(Diff, knows_stacks_of_slab_stacks_by_their_ids) {
  const std::string other = " inode_get+0x10/0x20\nstack_count: 3\nstack_bytes: 768\nstack_id: 0x00000007\n\n";
  const Difference of = difference(holdings_of(stacks(10, other), nullptr, "a"), holdings_of(stacks(14), nullptr, "b"));
  ASSERT_EQ(of.changes.size(), 2u);
  EXPECT_EQ(of.changes[0].origin.stack, "0x5a31c2e7");
  EXPECT_EQ(of.changes[0].objects(), 4);
  EXPECT_EQ(of.changes[0].bytes(), 4 * 512);
  EXPECT_EQ(of.changes[0].after.name, "packet_alloc");
  EXPECT_EQ(of.changes[1].objects(), -3);
  const std::string text = difference_text(of, 20);
  EXPECT_NE(text.find("+4 objects          +2048  stack 0x5a31c2e7 packet_alloc"), std::string::npos) << text;
  EXPECT_NE(text.find("-3 objects           -768  stack 0x00000007 inode_get"), std::string::npos) << text;
  EXPECT_NE(text.find("stacks changed 2, hidden 0: complete"), std::string::npos) << text;
}

TEST(Diff, knows_stacks_of_slab_trace_print_by_their_addresses) {
  const Difference of = difference(holdings_of(objects(2), nullptr, "a"), holdings_of(objects(5), nullptr, "b"));
  ASSERT_EQ(of.changes.size(), 1u);
  EXPECT_EQ(of.changes[0].objects(), 3);
  EXPECT_EQ(of.changes[0].origin.stack, "0x8020c1f2 0x8020c8aa");
  EXPECT_NE(difference_json(of).find("\"objects\": 3"), std::string::npos);
}

TEST(Diff, takes_no_figure_that_is_no_number) {
  std::string odd = stacks(10);
  odd.replace(odd.find("stack_bytes: 5120"), 17, "stack_bytes: inf\r\nstack_count: nan");
  const Difference of = difference(holdings_of(odd, nullptr, "a"), holdings_of(odd, nullptr, "b"));
  EXPECT_TRUE(of.changes.empty());
  EXPECT_EQ(of.after.stacks.size(), 1u);
  for (const auto& [key, holding] : of.after.stacks) EXPECT_EQ(holding.bytes, 0);
}

TEST(Diff, of_the_same_is_empty_and_of_incomplete_dumps_says_so) {
  EXPECT_TRUE(difference(holdings_of(stacks(3), nullptr, "a"), holdings_of(stacks(3), nullptr, "b")).changes.empty());
  std::string cut = stacks(4);
  cut.replace(cut.find(": complete"), 10, ": incomplete");
  const Difference of = difference(holdings_of(stacks(3), nullptr, "a"), holdings_of(cut, nullptr, "b"));
  EXPECT_NE(difference_text(of, 20).find(": incomplete"), std::string::npos);
}

TEST(Diff, of_a_dump_that_was_cut_off_behind_a_stack_is_incomplete) {
  const std::string whole =
      stacks(4, " inode_get+0x10/0x20\nstack_count: 3\nstack_bytes: 768\nstack_id: 0x00000007\n\n");
  EXPECT_TRUE(holdings_of(whole, nullptr, "a").complete);
  for (const char* const at : {"stacks 1, hidden", "stack_bytes: 768", " inode_get"}) {
    EXPECT_FALSE(holdings_of(whole.substr(0, whole.find(at)), nullptr, "a").complete) << at;
  }
  const std::string both = objects(1) + "Dumping outstanding allocs from inode\n-------------------------\n";
  EXPECT_FALSE(holdings_of(both, nullptr, "a").complete) << "of two caches the second is cut off";
}

TEST(Diff, refuses_two_reports_in_one_file) {
  EXPECT_THROW((void)holdings_of(stacks(1) + stacks(2), nullptr, "a"), qm::host::Error);
  const std::string second = stacks(2);
  EXPECT_THROW((void)holdings_of(stacks(1) + second.substr(0, second.find("stacks 1, ")), nullptr, "a"),
               qm::host::Error);
  EXPECT_THROW((void)holdings_of(objects(1) + objects(2), nullptr, "a"), qm::host::Error);
  // Of a pattern, slab_trace print has a part for each cache.
  std::string other = objects(2);
  other.replace(other.find("packet"), 6, "inode");
  EXPECT_EQ(holdings_of(objects(1) + other, nullptr, "a").stacks.begin()->second.objects, 3);
}

TEST(Diff, refuses_what_cannot_be_compared) {
  EXPECT_THROW((void)holdings_of("qm> help\n", nullptr, "a"), qm::host::Error);
  EXPECT_THROW((void)holdings_of("", nullptr, "a"), qm::host::Error);
  EXPECT_THROW((void)holdings_of(stacks(1) + objects(1), nullptr, "a"), qm::host::Error);
  EXPECT_THROW((void)difference(holdings_of(stacks(1), nullptr, "a"), holdings_of(objects(1), nullptr, "b")),
               qm::host::Error);
}

}  // namespace
