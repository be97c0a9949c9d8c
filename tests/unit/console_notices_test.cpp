#include "console_fixture.hpp"

#include <atomic>

#include <qm/console/notices.hpp>
#include <qm/test/harts.hpp>

namespace console_notices_test {

using qm::console::Notices;
using qm::test::Bench;

TEST(Notices, from_all_harts_arrive_whole_or_are_counted_as_lost) {
  constexpr unsigned kEach = 2000;
  static Notices notices;
  const unsigned count = qm::test::harts();
  static std::atomic<unsigned> done;
  done = 0;
  unsigned taken = 0;
  unsigned lost = 0;
  qm::test::on_each_hart(count, [&](unsigned hart) {
    if (hart != 0) {
      const std::string text =
          "warning from hart " + std::to_string(hart) + std::string(20, static_cast<char>('a' + hart));
      for (unsigned i = 0; i < kEach; ++i) (void)notices.add(text);
      done.fetch_add(1);
      return;
    }
    char line[Notices::kMaxLine];
    bool all_done = false;
    while (true) {
      const std::size_t length = notices.take(line);
      lost += notices.take_lost();
      if (length == 0) {
        if (all_done) break;
        all_done = done.load() == count - 1;
        continue;
      }
      ++taken;
      const std::string_view text(line, length);
      EXPECT_EQ(length, 39u);
      const char from = text[18];
      EXPECT_EQ(text.substr(19), std::string(20, static_cast<char>('a' + (from - '0'))));
    }
  });
  EXPECT_EQ(taken + lost, (count - 1) * kEach);
  EXPECT_GT(taken, 0u);
}

TEST(Notices, of_several_lines_come_a_line_at_a_time_and_long_ones_are_cut) {
  static Notices notices;
  char line[Notices::kMaxLine];
  EXPECT_TRUE(notices.add("one\ntwo\r\n\n" + std::string(200, 'x') + "\n"));
  EXPECT_EQ(std::string_view(line, notices.take(line)), "one");
  EXPECT_EQ(std::string_view(line, notices.take(line)), "two");
  EXPECT_EQ(std::string_view(line, notices.take(line)), std::string(Notices::kMaxLine, 'x'));
  EXPECT_EQ(notices.take(line), 0u);
  EXPECT_TRUE(notices.add(std::string(1000, 'y'))) << "cut to what one notice may have";
  EXPECT_EQ(notices.take(line), Notices::kMaxLine);
  EXPECT_EQ(notices.take(line), 0u);
  EXPECT_FALSE(notices.pending());
}

TEST(Notices, that_do_not_fit_are_counted) {
  Bench bench;
  const std::string notice(200, 'n');
  for (int i = 0; i < 7; ++i) EXPECT_EQ(bench.console.notify(notice), i < 5);
  const std::string text = bench.type("");
  EXPECT_NE(text.find("\r\n2 notices lost\r\nqm> "), std::string::npos) << text;
  EXPECT_EQ(text.find(std::string(161, 'n')), std::string::npos);
  EXPECT_EQ(bench.type(""), "");
  EXPECT_TRUE(bench.console.notify(""));
  EXPECT_EQ(bench.type(""), "");
}

}  // namespace console_notices_test
