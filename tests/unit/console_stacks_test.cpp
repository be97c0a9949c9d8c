/// slab_stacks, byte for byte.

#include "console_reports_fixture.hpp"

#include <qm/trace/dump.hpp>
#include <qm/trace/stack_report.hpp>

namespace console_stacks_test {

using namespace qm;
using namespace qm::test;

/// Replaces the ids of stacks, and repeated frames by one: an unoptimised build shows more of them.
std::string without_ids(const std::string& text) {
  const std::string one_frame = replace_all(plain(text), "( rx_deliver[^\r]*\r\n)+", " rx_deliver+0x13/0x60\r\n");
  return replace_all(one_frame, "stack_id: 0x[0-9a-f]{8}\r", "stack_id: #\r");
}

class Stacks : public ConsoleReports {
 protected:
  void SetUp() override {
    ConsoleReports::SetUp();
    resolve_all();
  }
  void TearDown() override {
    command("slab_stacks threshold 1");
    for (const auto& [cache, object] : held) cache->free(object);
    ConsoleReports::TearDown();
  }
  template <int kPath>
  void take(Cache& cache, int count) {
    for (int i = 0; i < count; ++i) held.emplace_back(&cache, allocate_through<kPath>(cache));
  }
  static std::string row(int objects, int bytes) {
    return format(" rx_deliver+0x13/0x60\r\nstack_count: %d\r\nstack_bytes: %d\r\nstack_id: #\r\n\r\n", objects, bytes);
  }
  static unsigned untraced() { return trace::totals().caches - trace::totals().traced; }

  std::vector<std::pair<Cache*, void*>> held;
};

TEST_F(Stacks, have_the_layout_of_page_owner_stacks_largest_first) {
  command("slab_trace start packet*");
  take<1>(*packet_small, 5);
  take<2>(*packet, 3);
  take<3>(*packet, 1);
  EXPECT_EQ(
      without_ids(command("slab_stacks packet")),
      row(3, 1536) + row(1, 512) +
          format(
              "stacks 2, hidden 0 (threshold 1), objects 4, bytes 2048, dropped 0, not traced %u caches: complete\r\n",
              untraced()));
  const std::string closing =
      format("stacks 3, hidden 0 (threshold 1), objects 9, bytes 2368, dropped 0, not traced %u caches: complete\r\n",
             untraced());
  EXPECT_EQ(without_ids(command("slab_stacks")), row(3, 1536) + row(1, 512) + row(5, 320) + closing);
  EXPECT_EQ(without_ids(command("slab_stacks packet*")),
            "note: skipped 0 no-trace caches, 0 that were never traced\r\n" + row(3, 1536) + row(1, 512) + row(5, 320) +
                closing);
}

TEST_F(Stacks, are_told_closely_with_bytes_held_ages_harts_and_contexts) {
  command("slab_trace start packet*");
  take<1>(*packet, 2);
  held.emplace_back(packet, packet->allocate_at(nullptr, 100));
  const std::string text = without_ids(command("slab_stacks -v packet top 1"));
  EXPECT_NE(text.find("stack_count: 2\r\nstack_bytes: 1024\r\nstack_id: #\r\nstack_held: 1024\r\nstack_age: oldest 0."),
            std::string::npos)
      << text;
  EXPECT_NE(text.find(" s, mean 0."), std::string::npos) << text;
  EXPECT_NE(text.find("\r\nstack_harts: 0\r\nstack_contexts: "), std::string::npos) << text;
  EXPECT_NE(command("slab_stacks -v packet").find("\r\nstack_bytes: 100\r\n"), std::string::npos);
  EXPECT_NE(command("slab_stacks -v").find("\r\nstack_held: 512\r\n"), std::string::npos);
  EXPECT_EQ(command("slab_stacks packet").find("stack_held"), std::string::npos);
}

TEST_F(Stacks, have_names_only_where_they_are_known_and_no_size_where_it_is_not) {
  command("slab_trace start packet");
  take<1>(*packet, 1);
  EXPECT_EQ(lines_of(command("slab_stacks packet"))[0], " rx_deliver+0x13/0x60");
  const auto first_line = [this](const char* line) { return lines_of(plain(command(line)))[0]; };
  bench.console.config().resolver = [](std::uintptr_t, console::Symbol& symbol) noexcept {
    symbol = {"start", 1, 0};
    return true;
  };
  EXPECT_EQ(first_line("slab_stacks packet"), " start+0x2");
  bench.console.config().resolver = nullptr;
  EXPECT_EQ(first_line("slab_stacks packet"), " @");
}

TEST_F(Stacks, show_the_id_that_records_have) {
  command("slab_trace start packet");
  take<1>(*packet, 1);
  trace::DumpEntry entry;
  ASSERT_TRUE(trace::find(*packet, held[0].second, entry));
  EXPECT_NE(command("slab_stacks packet").find(format("\r\nstack_id: 0x%08x\r\n", entry.stack_id)), std::string::npos);
}

TEST_F(Stacks, below_the_threshold_are_hidden_counted_and_still_in_the_sum) {
  command("slab_trace start packet");
  take<1>(*packet, 3);
  take<2>(*packet, 2);
  take<3>(*packet, 1);
  EXPECT_EQ(command("slab_stacks threshold"), "threshold 1\r\n");
  EXPECT_EQ(command("slab_stacks threshold 2"), "");
  EXPECT_EQ(command("slab_stacks threshold"), "threshold 2\r\n");
  const char* const closing =
      "stacks %d, hidden %d (threshold %d), objects 6, bytes 3072, dropped 0, not traced %u caches: complete\r\n";
  EXPECT_EQ(without_ids(command("slab_stacks packet")), row(3, 1536) + row(2, 1024) +
                                                            "note: 1 object, 512 bytes in hidden stacks\r\n" +
                                                            format(closing, 2, 1, 2, untraced()));
  command("slab_stacks threshold 4");
  EXPECT_EQ(without_ids(command("slab_stacks packet")),
            "note: 6 objects, 3072 bytes in hidden stacks\r\n" + format(closing, 0, 3, 4, untraced()));
}

TEST_F(Stacks, whose_objects_came_back_are_hidden_and_not_forgotten) {
  command("slab_trace start packet");
  take<1>(*packet, 1);
  packet->free(held[0].second);
  held.clear();
  const char* const closing =
      "stacks %d, hidden %d (threshold %d), objects 0, bytes 0, dropped 0, not traced %u caches: complete\r\n";
  EXPECT_EQ(without_ids(command("slab_stacks packet")), format(closing, 0, 1, 1, untraced()));
  command("slab_stacks threshold 0");
  EXPECT_EQ(without_ids(command("slab_stacks packet")), row(0, 0) + format(closing, 1, 0, 0, untraced()));
}

TEST_F(Stacks, past_the_top_are_told_in_sum) {
  command("slab_trace start packet");
  take<1>(*packet, 3);
  take<2>(*packet, 2);
  take<3>(*packet, 1);
  const std::string expected =
      row(3, 1536) + "note: 2 more stacks: 3 objects, 1536 bytes\r\n" +
      format("stacks 1, hidden 0 (threshold 1), objects 6, bytes 3072, dropped 0, not traced %u caches: complete\r\n",
             untraced());
  EXPECT_EQ(without_ids(command("slab_stacks packet top 1")), expected);
  EXPECT_EQ(without_ids(command("slab_stacks top 1")), expected);
}

TEST_F(Stacks, say_what_was_not_recorded) {
  EXPECT_EQ(
      command("slab_stacks packet"),
      format("note: never traced\r\n"
             "stacks 0, hidden 0 (threshold 1), objects 0, bytes 0, dropped 0, not traced %u caches: incomplete\r\n",
             untraced()));
  open_again({.record_bytes = 28});
  command("slab_trace start packet_small");
  void* object = allocate_outermost(*packet_small);
  EXPECT_EQ(allocate_outermost(*packet_small) != nullptr, true);
  const std::string text = command("slab_stacks packet_small");
  EXPECT_NE(text.find(format("objects 1, bytes 64, dropped 1, not traced %u caches: incomplete\r\n", untraced())),
            std::string::npos)
      << text;
  command("slab_trace stop packet_small");
  EXPECT_EQ(command("slab_stacks packet_small").find("note: draining, so later allocations are not recorded\r\n"), 0u);
  packet_small->free(object);
}

TEST_F(Stacks, say_that_objects_have_none_where_the_depot_was_full) {
  open_again({.stack_bytes = 256});
  command("slab_trace start packet");
  take<1>(*packet, 1);
  take<2>(*packet, 1);
  take<3>(*packet, 1);
  take<4>(*packet, 1);
  take<5>(*packet, 1);
  take<6>(*packet, 1);
  take<7>(*packet, 1);
  take<8>(*packet, 1);
  take<9>(*packet, 2);
  const std::string text = command("slab_stacks packet top 0");
  const auto match =
      test::find(text, "note: ([0-9]+) objects, ([0-9]+) bytes without a stack: the stack depot is full\r\n");
  ASSERT_FALSE(match.empty()) << text;
  EXPECT_EQ(std::stoi(match[2]), 512 * std::stoi(match[1]));
  EXPECT_NE(text.find("objects 10, bytes 5120, dropped 0, "), std::string::npos) << text;
  EXPECT_EQ(text.substr(text.size() - 14), ": incomplete\r\n");
}

TEST_F(Stacks, end_within_a_stack_at_ctrl_c) {
  command("slab_trace start packet");
  take<1>(*packet, 1);
  take<2>(*packet, 2);
  take<3>(*packet, 3);
  bench.terminal.yields = 0;
  bench.terminal.on_yield = [](FakeTerminal& terminal) {
    if (terminal.yields == 2) terminal.send("\x03");
  };
  EXPECT_EQ(
      without_ids(command("slab_stacks packet")),
      row(3, 1536) + "note: 2 more stacks: 3 objects, 1536 bytes\r\n" +
          format(
              "stacks 1, hidden 0 (threshold 1), objects 6, bytes 3072, dropped 0, not traced %u caches: aborted\r\n",
              untraced()));
  bench.terminal.on_yield = nullptr;
}

TEST_F(Stacks, refuse_what_they_do_not_understand) {
  const std::string usage = "error: usage: slab_stacks [-v] [SLAB_NAME] [top N]\r\n";
  for (const char* line : {"slab_stacks top", "slab_stacks packet 3", "slab_stacks packet top", "slab_stacks a b 3",
                           "slab_stacks threshold 1 2", "slab_stacks a top 1 2"}) {
    EXPECT_EQ(command(line), usage) << line;
  }
  EXPECT_EQ(command("slab_stacks top many"), "error: many is not a number\r\n");
  EXPECT_EQ(command("slab_stacks threshold -1"), "error: -1 is not a number\r\n");
  EXPECT_EQ(command("slab_stacks threshold 4294967296"), "error: 4294967296 is too large\r\n");
  EXPECT_EQ(command("slab_stacks nothing"), "error: No such slab nothing\r\n");
  EXPECT_EQ(command("slab_stacks kmem_trace"), "error: Unable to trace slab kmem_trace\r\n");
  trace::StackReport other;
  ASSERT_EQ(other.begin(), Status::kOk);
  EXPECT_EQ(command("slab_stacks"), "error: another report on stacks has not ended\r\n");
}

TEST_F(Stacks, come_the_same_in_frames) {
  command("slab_trace start packet");
  take<1>(*packet, 2);
  EXPECT_EQ(bench.request("slab_stacks").output, replace_all(command("slab_stacks"), "\r\n", "\n"));
}

}  // namespace console_stacks_test
