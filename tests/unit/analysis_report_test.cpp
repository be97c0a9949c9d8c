// The names of origins in a report, a difference and the exports: a stack that belongs to several call sites, and the
// frames of the allocator's headers.

#include <gtest/gtest.h>

#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>

#include <qm/analysis/diff.hpp>
#include <qm/analysis/export.hpp>
#include <qm/analysis/report.hpp>

namespace analysis_report_test {

using namespace qm;
using analysis::difference;
using analysis::holdings_of;
using analysis::Origin;
using analysis::Report;
using analysis::StackEntry;
using analysis::Summary;
using host::Operation;

bool has(const std::string& text, const std::string& needle) { return text.find(needle) != std::string::npos; }

/// @returns the symbols of the demo's image; nullptr if it is not built.
const analysis::Symbols* symbols() {
  const char* const other = std::getenv("QM_IMAGE");
  const std::filesystem::path image = other != nullptr ? other : QM_DEMO_IMAGE;
  static const std::unique_ptr<analysis::Symbols> read =
      std::filesystem::exists(image) ? std::make_unique<analysis::Symbols>(image) : nullptr;
  return read.get();
}

/// Two caches of one heap, a stack that the device has numbered for each of them, and two call sites below the stack.
class ReportTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kSmall = 1, kLarge = 2, kNumbers = 3;
  static constexpr std::uint32_t kChurnTake = 1, kAllocateCache = 2;
  static constexpr std::uint32_t kOfSmall = 5, kOfLarge = 6;

  ReportTest() {
    definitions_.header.harts = 1;
    definitions_.header.ticks_per_second = 1000;
    definitions_.traceables[kSmall] = {kSmall, host::EventKind::kHeap, false, "kmalloc_64", 64, 64, 1, 0};
    definitions_.traceables[kLarge] = {kLarge, host::EventKind::kHeap, false, "kmalloc_480", 480, 496, 0, 0};
    definitions_.traceables[kNumbers] = {kNumbers, host::EventKind::kArena, true, "numbers", 1, 1, 0, 0};
    for (const std::uint32_t number : {kOfSmall, kOfLarge})
      definitions_.stacks[number] = {0x07dafab9, {0x80201000, 0x80202000}, false, false};
    definitions_.call_sites[kChurnTake] = {"../../firmware/demo/churn.cpp", "demo", "churn_take", 35};
    definitions_.call_sites[kAllocateCache] = {"../../alloc/src/system.cpp", "qm", "allocate_cache", 190};
  }

  host::Event event(Operation operation, std::uint32_t traceable, std::uint64_t address, std::uint32_t call_site) {
    host::Event made;
    made.number = number_++;
    made.ticks = made.number;
    made.operation = operation;
    made.traceable = traceable;
    made.kind = definitions_.traceables[traceable].kind;
    made.address = address;
    made.allocated = definitions_.traceables[traceable].allocated_bytes;
    if (operation == Operation::kFree) return made;
    made.requested = definitions_.traceables[traceable].object_bytes;
    made.stack = traceable == kLarge ? kOfLarge : kOfSmall;
    made.call_site = call_site;
    return made;
  }
  host::Event taken(std::uint32_t traceable, std::uint64_t address, std::uint32_t call_site) {
    return event(Operation::kAllocate, traceable, address, call_site);
  }
  host::Event freed(std::uint32_t traceable, std::uint64_t address) {
    return event(Operation::kFree, traceable, address, 0);
  }

  Report report(const std::vector<host::Event>& events, const analysis::Symbols* names = nullptr) {
    auto summary = std::make_unique<Summary>();
    deliver(*summary, events);
    summaries_.push_back(std::move(summary));
    return analysis::make_report(*summaries_.back(), names, analysis::SortKey::kLive, "capture");
  }
  void deliver(host::EventHandler& to, const std::vector<host::Event>& events) const {
    to.on_header(definitions_);
    for (const host::Event& each : events) to.on_event(each);
    to.on_end({});
  }
  /// churn_take() allocated two objects of 64 bytes and freed one; allocate_cache() below it allocated two of 480.
  std::vector<host::Event> churn() {
    return {taken(kSmall, 0x1000, kChurnTake), taken(kLarge, 0x2000, kChurnTake), freed(kLarge, 0x2000),
            taken(kLarge, 0x3000, kAllocateCache), taken(kLarge, 0x4000, kAllocateCache)};
  }

  host::Definitions definitions_;
  std::uint64_t number_ = 1;
  std::vector<std::unique_ptr<Summary>> summaries_;
};

std::string inflated(const std::string& packed) {
  std::string text(1 << 16, '\0');
  z_stream stream{};
  EXPECT_EQ(inflateInit2(&stream, 15 + 16), Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  stream.next_out = reinterpret_cast<Bytef*>(text.data());
  stream.avail_out = static_cast<uInt>(text.size());
  EXPECT_EQ(inflate(&stream, Z_FINISH), Z_STREAM_END);
  text.resize(stream.total_out);
  inflateEnd(&stream);
  return text;
}

TEST_F(ReportTest, has_a_row_for_each_pair_of_stack_and_call_site_whatever_cache_numbered_the_stack) {
  const Report of = report(churn());
  ASSERT_EQ(of.stacks.size(), 2u);
  EXPECT_EQ(of.stacks[0].origin, (Origin{"0x07dafab9", "system.cpp:190 allocate_cache"}));
  EXPECT_EQ(of.stacks[0].figures.live_bytes, 2 * 496);
  EXPECT_EQ(of.stacks[1].origin, (Origin{"0x07dafab9", "churn.cpp:35 churn_take"}));
  EXPECT_EQ(of.stacks[1].figures.live_bytes, 64);
  EXPECT_EQ(of.stacks[1].figures.allocations, 2);
  EXPECT_EQ(of.stacks[1].figures.frees, 1);
}

TEST_F(ReportTest, a_difference_does_not_name_one_call_site_for_what_another_holds) {
  const Report before = report({taken(kSmall, 0x1000, kChurnTake)});
  const analysis::Difference of = difference(holdings_of(before), holdings_of(report(churn())));
  ASSERT_EQ(of.changes.size(), 1u);
  EXPECT_EQ(of.changes[0].origin.call_site, "system.cpp:190 allocate_cache");
  EXPECT_EQ(of.changes[0].after.name, "system.cpp:190 allocate_cache");
  EXPECT_EQ(of.changes[0].objects(), 2);
  EXPECT_TRUE(has(difference_json(of), R"("call_site": "system.cpp:190 allocate_cache")"));
}

TEST_F(ReportTest, is_compared_with_a_dump_of_the_console_by_stacks_alone) {
  const std::vector<host::ReportRow> dump = analysis::rows_of_json(
      "{\"row\":\"stack\",\"objects\":3,\"bytes\":1056,\"stack\":131791545,"
      "\"frames\":[{\"function\":\"churn_take\"},{\"function\":\"churn_task\"}]}\n"
      "{\"row\":\"end\",\"verdict\":\"complete\"}\n");
  EXPECT_TRUE(difference(holdings_of(report(churn())), holdings_of(dump, nullptr, "dump")).changes.empty());
  const analysis::Difference of =
      difference(holdings_of(dump, nullptr, "dump"), holdings_of(report({taken(kLarge, 0x3000, kAllocateCache)})));
  ASSERT_EQ(of.changes.size(), 1u);
  EXPECT_EQ(of.changes[0].objects(), -2);
  EXPECT_EQ(of.changes[0].after.frames.front(), "0x80201000") << "a call site is no frame of the stack";
}

TEST_F(ReportTest, exports_have_the_call_site_as_the_innermost_frame) {
  const Report of = report(churn());
  EXPECT_EQ(export_folded(of, analysis::Value::kLiveBytes),
            "0x80202000;0x80201000;allocate_cache (alloc/src/system.cpp:190) 992\n"
            "0x80202000;0x80201000;churn_take (firmware/demo/churn.cpp:35) 64\n");
  const std::string profile = inflated(export_pprof(of));
  EXPECT_TRUE(has(profile, "allocate_cache") && has(profile, "churn_take") && has(profile, "alloc/src/system.cpp"));
  EXPECT_TRUE(has(export_speedscope(of), R"("name":"allocate_cache","file":"alloc/src/system.cpp","line":190)"));
  char* text = nullptr;
  std::size_t bytes = 0;
  std::FILE* const file = open_memstream(&text, &bytes);
  const auto trace = export_perfetto(of, file);
  deliver(*trace, churn());
  trace->finish();
  std::fclose(file);
  const std::string events(text, bytes);
  std::free(text);
  EXPECT_TRUE(has(events, R"("from":"churn.cpp:35 churn_take")")) << events;
  EXPECT_TRUE(has(events, R"("from":"system.cpp:190 allocate_cache")")) << events;
}

TEST_F(ReportTest, exports_have_no_frame_of_the_allocators_headers_at_the_leaf) {
  if (symbols() == nullptr) GTEST_SKIP() << "the demo's image is not built";
  // The first call in the image with Cache::allocate_at() inlined.
  std::uint64_t pc = 0x80200000;
  const auto is_inlined = [&] {
    const auto frames = symbols()->look_up(pc);
    return frames.size() > 1 && frames.front().function == "qm::Cache::allocate_at";
  };
  while (pc < 0x80300000 && !is_inlined()) pc += 2;
  ASSERT_TRUE(is_inlined());
  const std::string caller = symbols()->look_up(pc)[1].function;
  definitions_.stacks[kOfSmall] = {0x5a31c2e7, {pc}, false, false};
  const Report of = report({taken(kSmall, 0x1000, 0)}, symbols());
  EXPECT_EQ(of.stacks[0].frames.front().frame.function, "qm::Cache::allocate_at") << "whole stacks have all frames";
  EXPECT_TRUE(has(export_folded(of, analysis::Value::kLiveBytes), caller + " ("));
  EXPECT_FALSE(has(inflated(export_pprof(of)), "allocate_at"));
  EXPECT_FALSE(has(export_speedscope(of), "allocate_at"));
}

TEST_F(ReportTest, text_shows_what_it_is_sorted_by_and_what_the_totals_leave_out) {
  std::vector<host::Event> events = churn();
  events.push_back(taken(kNumbers, 7, 0));
  const std::string text = report_text(report(events), {.lifetimes = true, .leaks = true});
  EXPECT_TRUE(has(text, "stream 1 of 1, 1 hart, 6 events in")) << text;
  EXPECT_TRUE(has(text, "| Live bytes |")) << text;
  EXPECT_TRUE(has(text, " system.cpp:190 allocate_cache        |         992/496 |         960/480 |        992 |"))
      << text;
  EXPECT_TRUE(has(text, "Live at the end, objects:                          3\n")) << text;
  EXPECT_TRUE(has(text, "Live in arenas, not in the totals:                 1  of 1 segment\n")) << text;
  EXPECT_TRUE(has(text, "   and 1 object from before, in no figure\n")) << text;
  EXPECT_TRUE(has(text, "Lifetimes of 1 freed object,")) << text;
  const std::string nothing = report_text(report({taken(kSmall, 0x1000, 0)}), {.lifetimes = true});
  EXPECT_TRUE(has(nothing, "Lifetimes: no object was freed\n")) << nothing;
}

TEST_F(ReportTest, json_gives_no_longest_life_where_nothing_was_freed) {
  const std::string json = report_json(report(churn()));
  const std::size_t large = json.find(R"("call_site": "system.cpp:190 allocate_cache")");
  const std::size_t life = json.find("longest_life_seconds", json.find(R"("stacks")"));
  EXPECT_NE(life, std::string::npos) << "one of churn_take() was freed";
  EXPECT_GT(life, large) << json;
}

}  // namespace analysis_report_test
