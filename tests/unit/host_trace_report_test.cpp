#include <gtest/gtest.h>

#include <qm/host/trace_report.hpp>

namespace {

using namespace qm::host;

constexpr std::string_view kReport =
    "Dumping outstanding allocs from packet\r\n"
    "-------------------------\r\n"
    "Obj 0x0000000080a41280, from hart 2 task net-rx:\r\n"
    "----\r\n"
    "#01 [<0x000000008020c1f2>] in packet_alloc\r\n"
    "#02 [<0x000000008020c8aa>] in (null)\r\n"
    "#03 [<...>] in ... (truncated)\r\n"
    "\r\n"
    "Obj 0x80a41300, from hart 0 irq 10 from task ~: size 512, age 1.204 s, seq 88213\r\n"
    "----\r\n"
    "\r\n"
    "note: draining\r\n"
    "outstanding 2, recorded 1204, dropped 0, truncated stacks 1, from before start 12: complete\r\n";

TEST(TraceReport, is_read_back) {
  const TraceReport report = parse_trace_report(kReport);
  ASSERT_EQ(report.objects.size(), 2u);
  EXPECT_EQ(report.objects[0].address, 0x80a41280u);
  EXPECT_EQ(report.objects[0].context, "hart 2 task net-rx");
  EXPECT_EQ(report.objects[0].frames,
            (std::vector<TraceReport::Frame>{{0x8020c1f2, "packet_alloc"}, {0x8020c8aa, "(null)"}}));
  EXPECT_TRUE(report.objects[0].truncated);
  EXPECT_EQ(report.objects[1].address, 0x80a41300u);
  EXPECT_EQ(report.objects[1].context, "hart 0 irq 10 from task ~");
  EXPECT_FALSE(report.objects[1].truncated);
  EXPECT_EQ(report.unknown_lines, std::vector<std::string>{});
  EXPECT_EQ(report.notes, std::vector<std::string>{"draining"});
  ASSERT_EQ(report.closing_lines.size(), 1u);
  EXPECT_TRUE(report.complete());
}

TEST(TraceReport, without_a_closing_line_or_with_an_incomplete_one_is_not_complete) {
  EXPECT_FALSE(parse_trace_report("").complete());
  EXPECT_FALSE(parse_trace_report(kReport.substr(0, kReport.rfind("outstanding"))).complete());
  EXPECT_FALSE(parse_trace_report("outstanding 2, dropped 1: incomplete\n").complete());
  EXPECT_FALSE(parse_trace_report("outstanding 2: complete\noutstanding 1: aborted\n").complete());
  EXPECT_TRUE(parse_trace_report("outstanding 2: complete\noutstanding 1: complete\n").complete());
}

TEST(TraceReport, keeps_lines_that_are_no_part_of_it) {
  const std::vector<std::string> odd{"Obj 80a41280, from hart 2:", "#01 [<0x1>] at x", "hello",
                                     "outstanding 2, complete"};
  std::string text;
  for (const std::string& line : odd) text += line + "\n";
  EXPECT_EQ(parse_trace_report(text).unknown_lines, odd);
}

TEST(Leaked, takes_the_addresses_in_order) {
  EXPECT_EQ(parse_leaked("leaked 0x0000000080a41280\nother\nleaked 0x10\r\nleaked x\nleaked 0x1 2\nleak: forgot 2\n"),
            (std::vector<std::uint64_t>{0x80a41280, 0x10}));
}

}  // namespace
