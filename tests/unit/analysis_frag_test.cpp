// Memory over time, who pins pages, and what other placements would need: as a library, and as a user asks for it.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include <qm/analysis/fragmentation.hpp>
#include <qm/analysis/report.hpp>
#include <qm/host/capture.hpp>
#include <qm/host/error.hpp>
#include <qm/test/command.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/read_file.hpp>

#include "capture_encoder.hpp"

namespace analysis_frag_test {

using namespace qm;
using analysis::Fragmentation;
using analysis::Strip;
using host::Operation;

bool has(const std::string& text, const std::string& needle) { return text.find(needle) != std::string::npos; }

class FragTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kClass = 1, kHeap = 2, kSlabs = 3, kSlabCache = 4, kNumbers = 5;
  static constexpr std::uint32_t kPassing = 1, kStaying = 2;  // stacks

  FragTest() {
    definitions_.header.harts = 1;
    definitions_.header.ticks_per_second = 1000;
    definitions_.traceables[kClass] = {kClass, host::EventKind::kHeap, false, "kmalloc_512", 512, 512, 0, 0};
    definitions_.traceables[kHeap] = {kHeap, host::EventKind::kHeap, true, "kheap", 16, 24, 0, 0};
    definitions_.traceables[kSlabs] = {kSlabs, host::EventKind::kArena, true, "kpages", 4096, 4096, 0, 0};
    definitions_.traceables[kSlabCache] = {kSlabCache, host::EventKind::kCache, false, "kpages_4096", 4096, 4096, 0,
                                           kSlabs};
    definitions_.traceables[kNumbers] = {kNumbers, host::EventKind::kArena, true, "numbers", 1, 1, 0, 0};
    definitions_.stacks[kPassing] = {0x100, {0x80201000}, false, false};
    definitions_.stacks[kStaying] = {0x200, {0x80202000}, false, false};
  }

  void take(std::uint32_t traceable, std::uint64_t address, std::uint64_t bytes, std::uint32_t stack) {
    host::Event event;
    event.operation = Operation::kAllocate;
    event.address = address;
    event.requested = event.allocated = bytes;
    event.stack = stack;
    add(event, traceable);
  }
  void free(std::uint32_t traceable, std::uint64_t address) {
    host::Event event;
    event.operation = Operation::kFree;
    event.address = address;
    add(event, traceable);
  }

  [[nodiscard]] Fragmentation fragmentation() const {
    analysis::Summary summary;
    analysis::Occupancy occupancy;
    for (host::EventHandler* const to :
         {static_cast<host::EventHandler*>(&summary), static_cast<host::EventHandler*>(&occupancy)})
      deliver(*to);
    return occupancy.fragmentation(analysis::make_report(summary, nullptr, analysis::SortKey::kLive, "capture"));
  }
  [[nodiscard]] std::string capture(test::Defects defects = {}) const {
    std::filesystem::remove(folder_ / "capture");
    host::CaptureWriter writer(folder_ / "capture", {}, 1);
    test::CaptureEncoder encoder(writer, std::move(defects));
    deliver(encoder);
    writer.end("made");
    return (folder_ / "capture").string();
  }
  [[nodiscard]] std::string page() const { return (folder_ / "page.html").string(); }
  static test::Outcome qm(const std::string& arguments) { return test::run_command(QM_TOOL " " + arguments + " 2>&1"); }

  /// Rounds of objects of one size, each of which leaves one of 16; the next round is of another size.
  void rounds(bool some_stay) {
    std::uint64_t address = 0x80400000;
    for (const std::uint64_t bytes : {64, 96, 128, 192, 256, 384, 512}) {
      const auto of = static_cast<std::uint32_t>(bytes);
      definitions_.traceables[of] = {
          of, host::EventKind::kHeap, false, "kmalloc_" + std::to_string(bytes), bytes, bytes, 0, 0};
      std::vector<std::uint64_t> passing;
      for (int count = 0; count < 1000; ++count, address += bytes) {
        const bool stays = some_stay && count % 16 == 0;
        take(of, address, bytes, stays ? kStaying : kPassing);
        if (!stays) passing.push_back(address);
      }
      for (const std::uint64_t each : passing) free(of, each);
    }
  }
  /// What the command says: placement -> bytes.
  [[nodiscard]] static std::map<std::string, std::uint64_t> placements(const std::string& said) {
    std::map<std::string, std::uint64_t> all;
    for (const char* const name : {"as it is", "long-lived apart", "by site"}) {
      const std::size_t at = said.find(std::string("\n") + name + "  ");
      if (at != std::string::npos) all[name] = std::stoull(said.substr(at + 28));
    }
    return all;
  }

  host::Definitions definitions_;
  std::vector<host::Event> events_;

 private:
  void add(host::Event event, std::uint32_t traceable) {
    event.number = events_.size();
    event.ticks = event.number + 1;
    event.traceable = traceable;
    event.kind = definitions_.traceables[traceable].kind;
    events_.push_back(event);
  }
  void deliver(host::EventHandler& to) const {
    to.on_header(definitions_);
    for (const host::Event& each : events_) to.on_event(each);
    host::Statistics statistics;
    statistics.final = true;
    statistics.ticks = events_.size() + 1;
    statistics.harts[0].events = events_.size();
    to.on_statistics(statistics);
    to.on_stream_end(events_.size() + 1);
    to.on_end({});
  }

  test::TemporaryFolder folder_;
};

/// Ten pages in two places: in each a block that is freed soon, and behind it an object that stays.
class Pinned : public FragTest {
 protected:
  static std::uint64_t page_at(std::uint64_t number) {
    return (number < 5 ? 0x80400000 : 0x80500000 - 5 * 4096) + number * 4096;
  }
  Pinned() {
    for (std::uint64_t number = 0; number < 10; ++number) {
      take(kHeap, page_at(number), 3072, kPassing);
      take(kClass, page_at(number) + 3072, 512, kStaying);
      free(kHeap, page_at(number));
    }
  }
};

TEST_F(Pinned, cells_say_how_full_a_page_is_and_whether_only_long_lived_objects_keep_it) {
  const Fragmentation of = fragmentation();
  EXPECT_EQ(of.operations, 30u);
  ASSERT_EQ(of.column_ticks.size(), 30u);
  EXPECT_EQ(of.column_ticks[7], 8u);
  ASSERT_EQ(of.strips.size(), 10u);
  for (std::size_t number = 0; number < 10; ++number) {
    const Strip& strip = of.strips[number];
    EXPECT_EQ(strip.address, page_at(number));
    EXPECT_EQ(strip.pages, 1u);
    EXPECT_EQ(strip.left_out, number == 5 ? 251u : 0u);
    std::vector<int> expected(30);
    expected[3 * number] = 75;
    expected[3 * number + 1] = 88;
    // The last one lives for 2 of 30 operations, which is not long.
    for (std::size_t at = 3 * number + 2; at < 30; ++at) expected[at] = number == 9 ? 13 : -13;
    EXPECT_EQ(strip.cells, expected) << number;
  }
}

TEST_F(Pinned, the_worst_moment_and_the_site_that_pins_are_exact) {
  const Fragmentation of = fragmentation();
  EXPECT_EQ(of.peak_in_use, 10u * 512 + 3072);
  EXPECT_EQ(of.peak_spanned, 10u * 4096);
  EXPECT_EQ(of.worst_operation, 29u);
  EXPECT_EQ(of.worst_ticks, 30u);
  EXPECT_EQ(of.worst_in_use, 10u * 512);
  EXPECT_EQ(of.worst_spanned, 10u * 4096);
  ASSERT_EQ(of.pins.size(), 1u);
  EXPECT_EQ(of.pins[0].site, "0x80202000");
  EXPECT_EQ(of.pins[0].pages, 9u);
  EXPECT_EQ(of.pins[0].objects, 9u);
  EXPECT_EQ(of.pins[0].bytes, 9u * (4096 - 512));
  EXPECT_EQ(of.pins[0].median_ticks, 16u);
  EXPECT_EQ(of.pins[0].lifetimes, (std::array<std::uint64_t, 3>{0, 9, 9}));
}

TEST_F(Pinned, is_told_as_text_and_only_if_asked_for) {
  const test::Outcome told = qm("report --frag " + capture());
  EXPECT_EQ(told.status, 0) << told.text;
  EXPECT_TRUE(has(told.text, "Peak of bytes in use:                           8192\n")) << told.text;
  EXPECT_TRUE(has(told.text, "Worst moment: after operation 30, at 30.0 ms: 5120 bytes in use in pages of 40.0 KiB\n"))
      << told.text;
  EXPECT_TRUE(has(told.text,
                  " 0x80202000                           |     31.5 KiB |      9 |        9 |    16.0 ms | "
                  "0, 9, 9 objects\n"))
      << told.text;
  EXPECT_FALSE(has(qm("report --all " + capture()).text, "Fragmentation,"));
}

TEST_F(Pinned, counts_no_memory_twice) {
  const Fragmentation before = fragmentation();
  take(kSlabs, 0x80600000, 4096, 0);
  take(kSlabCache, 0x80600000, 4096, 0);
  take(kNumbers, 7, 1, 0);
  free(kHeap, 0x80700000);  // older than the stream
  const Fragmentation of = fragmentation();
  EXPECT_EQ(of.operations, before.operations);
  EXPECT_EQ(of.strips.size(), before.strips.size());
}

TEST_F(FragTest, a_page_with_a_passing_object_is_not_pinned) {
  take(kClass, 0x80400000, 512, kStaying);
  for (int count = 0; count < 10; ++count) {
    take(kHeap, 0x80500000, 4000, kPassing);
    free(kHeap, 0x80500000);
  }
  take(kHeap, 0x80400400, 16, kPassing);
  take(kHeap, 0x80500000, 16, kPassing);
  const Fragmentation of = fragmentation();
  EXPECT_EQ(of.worst_operation, 22u);
  EXPECT_EQ(of.worst_in_use, 544u);
  EXPECT_TRUE(of.pins.empty());
}

TEST_F(FragTest, a_reallocation_moves_an_object) {
  take(kHeap, 0x80400000, 1000, kPassing);
  host::Event moved;
  moved.operation = Operation::kReallocate;
  moved.old_traceable = moved.traceable = kHeap;
  moved.old_address = 0x80400000;
  moved.address = 0x80402000;
  moved.requested = moved.allocated = 5000;
  moved.ticks = 2;
  events_.push_back(moved);
  const Fragmentation of = fragmentation();
  EXPECT_EQ(of.operations, 2u);
  EXPECT_EQ(of.peak_in_use, 5000u);
  EXPECT_EQ(of.peak_spanned, 8192u);
  ASSERT_EQ(of.strips.size(), 4u) << "a gap of one page is shown";
  EXPECT_EQ(of.strips[0].cells[0], -25) << "of two operations, one is more than a tenth";
  EXPECT_EQ(of.strips[0].cells[1], 0);
}

TEST_F(FragTest, strips_of_many_pages_are_few) {
  for (std::uint64_t page = 0; page < 3000; ++page) take(kHeap, 0x80400000 + page * 4096 * 9, 4096, kPassing);
  const Fragmentation of = fragmentation();
  EXPECT_LE(of.strips.size(), Fragmentation::kStrips);
  EXPECT_EQ(of.column_ticks.size(), Fragmentation::kColumns);
  for (const Strip& strip : of.strips) EXPECT_EQ(strip.cells.size(), of.column_ticks.size());
}

TEST_F(FragTest, long_lived_objects_apart_need_less_where_they_pin_pages) {
  rounds(true);
  const test::Outcome said = qm("replay --placements " + capture());
  EXPECT_EQ(said.status, 0) << said.text;
  std::map<std::string, std::uint64_t> bytes = placements(said.text);
  ASSERT_EQ(bytes.size(), 3u) << said.text;
  // Measured: 1.95 and 1.94 times as much.
  EXPECT_GT(bytes["as it is"], bytes["long-lived apart"] * 3 / 2) << said.text;
  EXPECT_GT(bytes["as it is"], bytes["by site"] * 3 / 2) << said.text;
  EXPECT_EQ(qm("report --frag --html " + page() + " " + capture()).status, 0);
  const std::string html = qm::test::read_file(page());
  for (const auto& [name, peak] : bytes) {
    EXPECT_TRUE(has(html, "\"name\": \"" + name + "\",\n   \"peak_bytes\": " + std::to_string(peak) + ",\n")) << name;
  }
}

TEST_F(FragTest, placement_does_not_matter_where_nothing_stays) {
  rounds(false);
  const test::Outcome said = qm("replay --placements " + capture());
  std::map<std::string, std::uint64_t> bytes = placements(said.text);
  ASSERT_EQ(bytes.size(), 3u) << said.text;
  EXPECT_EQ(bytes["as it is"], bytes["long-lived apart"]) << said.text;
  EXPECT_LE(bytes["by site"], bytes["as it is"] + 8192) << said.text;
}

TEST_F(FragTest, refuses_streams_without_objects_or_with_events_missing) {
  take(kNumbers, 7, 1, 0);
  const test::Outcome none = qm("report --frag " + capture());
  EXPECT_EQ(none.status, 1);
  EXPECT_TRUE(has(none.text, "capture: no event in it is about an object in memory\n")) << none.text;
  rounds(false);
  const test::Outcome lost =
      qm("report --frag " + capture({.overrun = [](std::uint64_t event) { return event == 9; }}));
  EXPECT_EQ(lost.status, 1);
  EXPECT_TRUE(has(lost.text, "--frag needs every event of the stream: stream 1: hart 0 lost 1 event")) << lost.text;
  EXPECT_EQ(qm("report --frag --since 1 " + capture()).status, 2);
  take(kHeap, 0xffffffffffffff00, 4096, 0);
  EXPECT_THROW((void)fragmentation(), host::Error) << "it ends beyond the last address";
}

}  // namespace analysis_frag_test
