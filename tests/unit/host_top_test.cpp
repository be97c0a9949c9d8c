// The output of `qm top`, for statistics made here.

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "top_table.hpp"

namespace host_top_test {

using qm::host::Counters;
using qm::tool::sparkline;
using qm::tool::TopTable;
using qm::tool::TopView;

class Top : public testing::Test {
 protected:
  static constexpr std::uint64_t kSecond = 1000;  // ticks

  Top() {
    definitions_.header.ticks_per_second = kSecond;
    definitions_.header.start_ticks = 5000;
    define(1, "packet", 512, 10, false);
    define(2, "session", 192, 0, false);
    define(3, "kheap", 16, 3, true);
    define(4, "a_name_of_thirty_one_characters", 64, 0, false);
    table_.on_header(definitions_);
  }
  void define(std::uint32_t number, const char* name, std::uint64_t bytes, std::uint64_t outstanding, bool arena) {
    qm::host::Traceable& one = definitions_.traceables[number];
    one.number = number;
    one.name = name;
    one.object_bytes = one.allocated_bytes = bytes;
    one.outstanding = outstanding;
    one.arena = arena;
  }
  static Counters counted(std::uint64_t allocations, std::uint64_t frees, std::uint64_t bytes) {
    Counters counters;
    counters.allocations = allocations;
    counters.frees = frees;
    counters.allocated = allocations * bytes;
    counters.freed = frees * bytes;
    return counters;
  }
  /// Delivers the target's counters at @p at seconds.
  void tell(double at, std::map<std::uint32_t, Counters> counters, std::uint64_t events = 0) {
    qm::host::Statistics statistics;
    statistics.ticks = definitions_.header.start_ticks + static_cast<std::uint64_t>(at * kSecond);
    statistics.traceables = std::move(counters);
    statistics.harts[0].events = events;
    table_.on_statistics(statistics);
    table_.look();
  }
  [[nodiscard]] std::vector<std::string> lines(std::size_t rows = 20) const { return table_.lines(view_, rows); }
  /// @returns the shown names, in their order.
  [[nodiscard]] std::string names(std::size_t rows = 20) const {
    std::string all;
    const std::vector<std::string> shown = lines(rows);
    for (std::size_t i = 3; i < shown.size(); ++i) all += shown[i].substr(0, shown[i].find(' ')) + ' ';
    return all;
  }
  void tell_three() {
    tell(1, {{1, counted(5, 0, 512)}, {2, counted(100, 90, 192)}, {3, counted(1, 0, 4096)}});
    tell(3, {{1, counted(7, 4, 512)}, {2, counted(300, 100, 192)}, {3, counted(1, 0, 4096)}});
  }

  qm::host::Definitions definitions_;
  TopTable table_;
  TopView view_;
};

TEST_F(Top, says_what_it_waits_for) {
  TopTable nothing;
  EXPECT_EQ(nothing.lines(view_, 5), std::vector<std::string>{"no event stream yet (kmemtrace start)"});
  EXPECT_EQ(lines(), std::vector<std::string>{"no counters yet: they come once a second"});
}

TEST_F(Top, shows_what_is_held_what_it_grew_and_the_rates_between_two_looks) {
  tell_three();
  const std::vector<std::string> shown = lines();
  ASSERT_EQ(shown.size(), 6u);
  EXPECT_EQ(shown[0], "after 3.0 s: 0 events, dropped 0, lost on the line 0");
  EXPECT_EQ(shown[1], "49152 bytes held, +44032 since the stream began; lag 0.0 s; by bytes");
  EXPECT_EQ(shown[2], "rows 3              objects      bytes     growth allocs/s  frees/s bytes then");
  // 200 of them at 192 bytes; 100 allocated and 5 freed a second.
  EXPECT_EQ(shown[3].substr(0, 67), "session                 200      38400     +38400      100        5");
  // 10 were live when the stream began.
  EXPECT_EQ(shown[4].substr(0, 67), "packet                   13       6656      +1536        1        2");
  // The bytes in an arena at that time are not known.
  EXPECT_EQ(shown[5].substr(0, 67), "kheap                     4      ~4096      +4096        0        0");
  for (const std::string& line : shown) EXPECT_LE(line.size(), 79u) << line;
}

TEST_F(Top, keeps_to_the_width_whatever_is_shown) {
  tell(1, {{4, counted(5, 0, 64)}});
  EXPECT_EQ(lines()[3].substr(0, 18), "a_name_of~aracters");
  for (int i = 0; i < 200; ++i) tell(2 + i, {{4, counted(5 + static_cast<unsigned>(i), 0, 64)}});
  EXPECT_EQ(lines()[3].size(), 79u);
  view_.columns = 120;
  EXPECT_EQ(lines()[3].size(), 119u) << "a wider screen has longer bars";
  view_.columns = 40;
  EXPECT_EQ(lines()[3].size(), 68u) << "a narrow one none";
}

TEST_F(Top, sorts_by_each_key_and_the_other_way_round) {
  tell_three();
  EXPECT_EQ(names(), "session packet kheap ");
  for (const auto& [key, order] : std::vector<std::pair<const char*, const char*>>{{"n", "kheap packet session "},
                                                                                   {"o", "session packet kheap "},
                                                                                   {"g", "session kheap packet "},
                                                                                   {"a", "session packet kheap "},
                                                                                   {"f", "session packet kheap "},
                                                                                   {"b", "session packet kheap "}}) {
    EXPECT_FALSE(view_.type(key));
    EXPECT_EQ(names(), order) << key;
  }
  view_.type("nr");
  EXPECT_EQ(names(), "session packet kheap ");
  EXPECT_NE(lines()[1].find("; by name, reversed"), std::string::npos);
  EXPECT_TRUE(view_.sort_by("growth"));
  EXPECT_FALSE(view_.sort_by("weight"));
}

TEST_F(Top, filters_while_it_is_typed_and_keeps_or_drops_that) {
  tell_three();
  EXPECT_FALSE(view_.type("/seq")) << "a letter of the filter is no key";
  EXPECT_EQ(view_.prompt(), "filter: seq");
  EXPECT_EQ(names(), "");
  view_.type("\x7fs");
  EXPECT_EQ(names(), "session ");
  view_.type("\r");
  EXPECT_EQ(view_.prompt(), "q ends, h helps, / filters: ses");
  view_.type("/k*");
  EXPECT_EQ(names(), "kheap ") << "a pattern is of the whole name";
  view_.type("\x1b");
  EXPECT_EQ(names(), "session ") << "as it was";
  view_.type("/\r");
  EXPECT_EQ(names(), "session packet kheap ");
  EXPECT_NE(lines()[1].find("49152 bytes held"), std::string::npos) << "the total is of all";
}

TEST_F(Top, scrolls_pauses_helps_and_ends) {
  tell_three();
  view_.type("\x1b[B");
  EXPECT_EQ(names(1), "packet ");
  view_.type("\x1b[A\x1b[A");
  EXPECT_EQ(names(1), "session ");
  view_.type("\x1b[6~");
  EXPECT_EQ(names(), "kheap ") << "the last row stays";
  view_.type("\x1b[H");
  EXPECT_EQ(names(1), "session ");
  view_.type("p");
  EXPECT_TRUE(view_.paused);
  view_.type(" h");
  EXPECT_FALSE(view_.paused);
  EXPECT_EQ(lines(), TopView::help());
  for (const std::string& line : lines()) EXPECT_LE(line.size(), 79u) << line;
  view_.type("h");
  EXPECT_EQ(lines().size(), 6u);
  EXPECT_TRUE(view_.type("q"));
  EXPECT_TRUE(view_.type("\x03"));
}

TEST_F(Top, says_how_far_the_line_lags) {
  tell(1, {{1, counted(500, 0, 512)}}, 500);
  EXPECT_NE(lines()[1].find("lag 1.0 s"), std::string::npos) << "none of 500 events has arrived: " << lines()[1];
  qm::host::Event event;
  event.ticks = 5000 + 1900;
  for (int i = 0; i < 450; ++i) table_.on_event(event);
  tell(2, {{1, counted(500, 0, 512)}}, 500);
  EXPECT_NE(lines()[1].find("lag 0.0 s"), std::string::npos) << "the rest is gathered: " << lines()[1];
  const auto later = TopTable::Clock::now() + std::chrono::seconds(60);
  EXPECT_NE(table_.lines(view_, 5, later)[0].find("; no counters for 60 s"), std::string::npos);
}

TEST_F(Top, forgets_all_with_a_new_stream) {
  tell_three();
  table_.on_header(definitions_);
  EXPECT_EQ(lines(), std::vector<std::string>{"no counters yet: they come once a second"});
}

TEST(Sparkline, has_the_least_and_the_most_at_its_ends) {
  EXPECT_EQ(sparkline({}, 4, false), "    ");
  EXPECT_EQ(sparkline({7}, 4, false), "   _");
  EXPECT_EQ(sparkline({0, 1, 2, 3, 4, 5, 6, 7}, 8, false), "_.-=+*%#");
  EXPECT_EQ(sparkline({100, 0, 7}, 2, false), "_#") << "the last that fit";
  EXPECT_EQ(sparkline({0, 7}, 3, true), " ▁█");
  EXPECT_EQ(sparkline({INT64_MIN, INT64_MAX}, 2, false), "_#");
}

}  // namespace host_top_test
