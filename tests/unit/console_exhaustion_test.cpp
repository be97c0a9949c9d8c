// Reports of exhaustion on the console: complete, each in one piece, with the holders of memory at that time.

#include "console_reports_fixture.hpp"

#include <atomic>

#include <qm/exhaustion.hpp>
#include <qm/test/harts.hpp>
#include <qm/trace/stack_report.hpp>

namespace console_exhaustion_test {

using namespace qm;

class ConsoleExhaustion : public qm::test::ConsoleReports {
 protected:
  static ExhaustionReport report(std::string_view name) {
    ExhaustionReport report{.wait_policy = WaitPolicy::kReclaim, .size = 1};
    name.copy(report.name, kNameBytes - 1);
    return report;
  }
  /// @returns the output since the last call, without the lines of a build with call sites.
  std::string told() { return qm::test::replace_all(printed(), "  site [^\r]*\r\n", ""); }
  /// @returns the output since the last call, with broken lines joined.
  std::string printed() { return joined(bench.type("")); }
  static std::string joined(const std::string& text) { return qm::test::replace_all(text, "\r\n    ", " "); }
  static unsigned count(const std::string& text, const std::string& what) {
    unsigned count = 0;
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
    return count;
  }
};

TEST_F(ConsoleExhaustion, is_reported_in_full) {
  static unsigned woken;
  woken = 0;
  bench.console.config().wake = []() noexcept { ++woken; };
  ExhaustionReport full{
      .name = "packet", .wait_policy = WaitPolicy::kAtomic, .size = 512, .in_depots = 20, .in_slabs = 300};
  full.in_magazines[0] = 1000;
  full.in_magazines[2] = 24;
  full.in_previous[0] = 400;
  full.in_fragments = 7;
  full.recoverable = 1344;
  full.holders[0] = {"session", 65536};
  full.holders[1] = {"kheap", 4096};
  full.silent = hal::HartMask{1} << 2;
  full.failures = 9;
  full.unreported = 8;
  EXPECT_TRUE(bench.console.notify(full));
  EXPECT_EQ(woken, 1U);
  const std::string all = std::to_string(trace::totals().caches);
  EXPECT_EQ(told(),
            "\r\nwarning: out of memory: cache packet, 512 bytes (atomic), failure 9, 8 before\r\n  it not reported\r\n"
            "  reap would recover 1344: magazines 1024, depots 20, slabs 300, spans 0; fragments 7\r\n"
            "  hart 0 magazines: loaded 600, previous 400\r\n"
            "  hart 2 magazines: loaded 24, previous 0\r\n"
            "  hart 2 has not answered\r\n"
            "  held: session 65536, kheap 4096\r\n"
            "  stacks 0 of 0, objects 0, bytes 0, dropped 0, not traced " +
                all + " of " + all + " caches: incomplete\r\nqm> ");
  EXPECT_TRUE(bench.console.notify(
      ExhaustionReport{.name = "ids", .is_arena = true, .at_limit = true, .size = 1, .failures = 10}));
  const std::string text = printed();
  EXPECT_EQ(text.find("\r\nwarning: limit reached: arena ids, 1 bytes (reclaim), failure 10\r\n"
                      "  reap would recover 0: magazines 0, depots 0, slabs 0, spans 0; fragments 0\r\n  held:\r\n"),
            0U)
      << text;
}

TEST_F(ConsoleExhaustion, shows_the_ten_stacks_that_held_the_most_when_it_happened) {
  resolve_all();
  command("slab_trace start packet*");
  std::vector<void*> large, small;
  for (int i = 0; i < 3; ++i) large.push_back(qm::test::allocate_through<1>(*packet));
  for (int i = 0; i < 5; ++i) small.push_back(qm::test::allocate_through<2>(*packet_small));
  EXPECT_TRUE(bench.console.notify(report("packet")));
  // Objects that are freed before the report is printed were live at the time of exhaustion.
  for (void* object : large) packet->free(object);
  for (void* object : small) packet_small->free(object);
  const std::string text = told();
  const char* const stacks =
      "\r\n  stack 0x[0-9a-f]{8}: bytes 1536, objects 3: rx_deliver\\+0x13[^\r]*\r\n"
      "  stack 0x[0-9a-f]{8}: bytes 320, objects 5: rx_deliver\\+0x13[^\r]*\r\n"
      "  stacks 2 of 2, objects 8, bytes 1856, dropped 0, not traced \\d+ of \\d+ caches: complete\r\nqm> $";
  EXPECT_FALSE(qm::test::find(text, stacks).empty()) << text;
}

template <int... kPaths>
void allocate_by_each(Cache& cache, std::vector<void*>& objects, std::integer_sequence<int, kPaths...>) {
  (objects.push_back(qm::test::allocate_through<kPaths>(cache)), ...);
}

TEST_F(ConsoleExhaustion, leaves_out_stacks_past_ten_and_says_of_how_many) {
  command("slab_trace start packet_small");
  std::vector<void*> objects;
  allocate_by_each(*packet_small, objects, std::make_integer_sequence<int, 14>());
  EXPECT_TRUE(bench.console.notify(report("packet")));
  const std::string text = printed();
  EXPECT_EQ(count(text, "\r\n  stack 0x"), 10U) << text;
  EXPECT_NE(text.find("\r\n  stacks 10 of 14, objects 14, bytes 896, "), std::string::npos) << text;
  for (void* object : objects) packet_small->free(object);
}

TEST_F(ConsoleExhaustion, shows_the_call_sites_that_held_the_most) {
  if (!kCallSites) GTEST_SKIP() << "a build without call sites";
  void* large = QM_ALLOC(heap::allocate, 100000);
  void* small = QM_ALLOC(heap::allocate, 5000);
  EXPECT_TRUE(bench.console.notify(report("packet")));
  heap::free(large);
  heap::free(small);
  const std::string text = printed();
  EXPECT_FALSE(
      qm::test::find(
          text,
          "\r\n  site [^\r]*console_exhaustion_test.cpp:\\d+ func:TestBody: bytes 10\\d{4}, calls 1\r\n"
          "(  site [^\r]*\r\n)*  site [^\r]*console_exhaustion_test.cpp:\\d+ func:TestBody: bytes 5\\d{3}, calls 1\r\n")
          .empty())
      << text;
}

TEST_F(ConsoleExhaustion, says_that_there_are_no_stacks_while_another_report_counts_them) {
  command("slab_trace start packet");
  {
    trace::StackReport other;
    ASSERT_EQ(other.begin(), Status::kOk);
    EXPECT_TRUE(bench.console.notify(report("packet")));
  }
  const std::string text = printed();
  EXPECT_NE(text.find("\r\n  note: no stacks, as another report on stacks had not ended\r\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" caches: incomplete\r\n"), std::string::npos) << text;
}

TEST_F(ConsoleExhaustion, walks_over_no_stacks_where_nobody_may_wait) {
  {
    const hal::InterruptGuard masked;
    EXPECT_TRUE(bench.console.notify(report("packet")));
  }
  const std::string text = printed();
  EXPECT_NE(text.find("\r\n  note: no stacks, as there was no time to count them\r\n"), std::string::npos) << text;
}

TEST_F(ConsoleExhaustion, that_finds_no_room_is_counted) {
  for (int i = 0; i < 5; ++i) EXPECT_EQ(bench.console.notify(report("packet")), i < 2);
  const std::string text = printed();
  EXPECT_EQ(count(text, "warning: out of memory"), 2U);
  EXPECT_NE(text.find("\r\n3 reports of exhaustion lost\r\nqm> "), std::string::npos) << text;
  EXPECT_EQ(bench.type(""), "");
}

TEST_F(ConsoleExhaustion, that_is_not_printed_yet_is_for_the_console_that_takes_over) {
  bench.console.notify("first");
  EXPECT_TRUE(bench.console.notify(report("packet")));
  qm::test::FakeTerminal terminal;
  console::ConsoleConfig config = qm::test::test_config();
  config.prompt = "panic> ";
  console::Console second(terminal, config);
  console::Trace trace(second);
  second.take_over(bench.console);
  EXPECT_EQ(terminal.text.find("first\r\nwarning: out of memory: cache packet, "), 0U) << terminal.text;
  EXPECT_NE(joined(terminal.text).find(" caches: incomplete\r\npanic> "), std::string::npos) << terminal.text;
  EXPECT_EQ(bench.type(""), "");
}

TEST_F(ConsoleExhaustion, of_two_harts_are_never_mixed) {
  constexpr unsigned kEach = 40;  // so many of each hart are printed
  command("slab_trace start packet");
  std::vector<void*> objects;
  for (int i = 0; i < 4; ++i) objects.push_back(qm::test::allocate_through<0>(*packet));
  std::atomic<unsigned> done{0};
  std::atomic<unsigned> tried{0};
  unsigned shown = 0;
  unsigned lost = 0;
  std::string all;
  qm::test::on_each_hart(3, [&](unsigned hart) {
    if (hart != 0) {
      ExhaustionReport mine = report(hart == 1 ? "first" : "second");
      mine.size = hart;
      mine.recoverable = hart;
      mine.in_depots = hart;
      mine.holders[0].bytes = hart;
      mine.holders[0].name[0] = static_cast<char>('0' + hart);
      for (unsigned taken = 0; taken < kEach; tried.fetch_add(1)) taken += bench.console.notify(mine) ? 1 : 0;
      done.fetch_add(1);
      return;
    }
    for (bool last = false; !last;) {
      last = done.load() == 2;
      all += told();
    }
  });
  const auto whole = [&](const char* name, unsigned hart) {
    return qm::test::find_all(
               all, test::format("warning: out of memory: cache %s, %u bytes \\(reclaim\\), failure 0\r\n"
                                 "  reap would recover %u: magazines 0, depots %u, slabs 0, spans 0; fragments 0\r\n"
                                 "  held: %u %u\r\n"
                                 "(  stack 0x[0-9a-f]{8}: bytes 2048, objects 4: [^\r]*\r\n"
                                 "|  note: no stacks, as another report on stacks had not ended\r\n)"
                                 "  stacks [01] of [01], [^\r]*\r\n",
                                 name, hart, hart, hart, hart, hart))
        .size();
  };
  shown = static_cast<unsigned>(whole("first", 1) + whole("second", 2));
  EXPECT_EQ(shown, count(all, "warning: out of memory"));
  for (const qm::test::Match& match : qm::test::find_all(all, "(\\d+) reports of exhaustion lost\r\n")) {
    lost += static_cast<unsigned>(std::stoul(match[1]));
  }
  EXPECT_EQ(shown, 2 * kEach);
  EXPECT_EQ(shown + lost, tried.load());
  for (void* object : objects) packet->free(object);
}

}  // namespace console_exhaustion_test
