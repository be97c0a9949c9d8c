// Intact frames with contents that no device sends: no index and no time is too large, and memory is bounded.

#include <gtest/gtest.h>

#include <memory>
#include <numeric>

#include <qm/analysis/export.hpp>
#include <qm/analysis/report.hpp>
#include <qm/analysis/summary.hpp>
#include <qm/host/model.hpp>
#include <qm/host/stream_reader.hpp>
#include <qm/test/seed.hpp>
#include <qm/wire/event.hpp>
#include <qm/wire/stream.hpp>

namespace analysis_hostile_test {

using namespace qm;
using analysis::Timeline;
using host::EventHandler;

/// Sends a stream's frames to a reader.
class Line {
 public:
  explicit Line(EventHandler& handler) : reader_(handler) {}

  void header(std::uint64_t rate = 1000, std::uint32_t harts = 1, std::uint32_t ring_bytes = 4096) {
    wire::StreamHeader header;
    header.tick_rate = rate;
    header.harts = harts;
    header.ring_bytes = ring_bytes;
    wire::ByteWriter out(room_);
    ASSERT_TRUE(pack(out, {1, frame_++}, header));
    send(wire::FrameType::kStreamHeader, out.written());
  }
  void put(const wire::Event& event) {
    if (waiting_ && encoder_.add(event)) return;
    flush();
    encoder_.begin(room_, 1, frame_++, event);
    ASSERT_TRUE(encoder_.add(event));
    waiting_ = true;
  }
  void define_source(std::uint32_t number) {
    wire::DefinitionEncoder encoder;
    encoder.begin(room_, {1, frame_++});
    wire::Definition definition;
    definition.kind = wire::DefinitionKind::kSource;
    definition.number = number;
    definition.name = "cache";
    ASSERT_TRUE(encoder.add(definition));
    send(wire::FrameType::kDefinitions, encoder.finish());
  }
  void flush() {
    if (waiting_) send(wire::FrameType::kEvents, encoder_.finish());
    waiting_ = false;
  }
  void finish() {
    flush();
    reader_.finish({});
  }

 private:
  void send(wire::FrameType type, std::span<const std::uint8_t> payload) {
    ASSERT_TRUE(reader_.take({type, 0, 0, payload}));
  }

  host::StreamReader reader_;
  std::uint8_t room_[wire::kMaxPayloadBytes] = {};
  wire::EventEncoder encoder_;
  bool waiting_ = false;
  std::uint32_t frame_ = 0;
};

std::string problems(const host::CaptureEnd& end) {
  std::string all;
  for (const host::Problem& each : end.problems) all += each.text + "\n";
  return all;
}

TEST(Hostile, frees_of_more_sources_than_a_device_has_are_left_out) {
  constexpr std::uint32_t kBeyond = 1000;
  analysis::Summary summary;
  Line line(summary);
  line.header();
  wire::Event event;
  event.operation = wire::Operation::kFree;
  for (std::uint32_t source = 0; source < host::kMostTraceables + kBeyond; ++source) {
    event.source = source;
    line.put(event);
    ++event.global_number;
    ++event.hart_number;
  }
  line.flush();
  line.define_source(host::kMostTraceables);
  line.finish();
  EXPECT_EQ(summary.events(), host::kMostTraceables);
  EXPECT_EQ(summary.traceables().size(), host::kMostTraceables);
  EXPECT_TRUE(summary.definitions().traceables.empty());
  EXPECT_NE(problems(summary.end()).find(std::to_string(kBeyond + 1) + " events or definitions"), std::string::npos)
      << problems(summary.end());
}

TEST(Hostile, an_object_of_the_last_source_is_freed_in_its_own_row) {
  analysis::Summary summary;
  Line line(summary);
  line.header();
  wire::Event event;
  event.operation = wire::Operation::kFree;
  for (std::uint32_t source = 0; source < host::kMostTraceables; ++source) {
    const bool last = source + 1 == host::kMostTraceables;
    for (int step = last ? 0 : 1; step < 2; ++step) {
      event.operation = step == 0 ? wire::Operation::kAllocate : wire::Operation::kFree;
      event.source = source;
      event.address = 16 * std::uint64_t{source};
      event.allocated = step == 0 ? 32 : wire::kSourceSize;
      line.put(event);
      ++event.global_number;
      ++event.hart_number;
    }
  }
  line.finish();
  EXPECT_EQ(summary.traceables().back().figures.frees, 1);
  EXPECT_EQ(summary.traceables().back().figures.freed, 32);
  EXPECT_EQ(summary.traceables().back().figures.live_objects, 0);
  EXPECT_EQ(summary.traceables().front().figures.freed, 0);
}

TEST(Hostile, rings_that_a_header_claims_hold_back_no_more_than_two_million_events) {
  constexpr std::uint64_t kMost = std::uint64_t{1} << 21;
  if (test::steps(20) != 20) GTEST_SKIP() << "two million events, where each costs a hundred times as much";
  class Counter : public EventHandler {
   public:
    void on_event(const host::Event&) override { ++events; }
    std::uint64_t events = 0;
  } counter;
  Line line(counter);
  line.header(1000, 256, 0xffff'ffff);
  wire::Event event;
  for (std::uint64_t count = 0; count < kMost + 10'000; ++count) {
    line.put(event);
    event.global_number += 2;  // no event follows the one before
    ++event.hart_number;
  }
  EXPECT_GT(counter.events, 5'000u);
  line.finish();
  EXPECT_EQ(counter.events, kMost + 10'000);
}

TEST(Hostile, ticks_up_to_the_end_of_time_fill_the_timeline) {
  for (const std::uint64_t start :
       {std::uint64_t{0}, std::uint64_t{1} << 63, ~std::uint64_t{0} - 1, ~std::uint64_t{0}}) {
    for (const std::uint64_t step : {std::uint64_t{1}, std::uint64_t{1} << 40, std::uint64_t{1} << 62}) {
      Timeline timeline(start);
      const std::size_t sum = timeline.add_series(Timeline::Kind::kSum);
      std::uint64_t ticks = start;
      for (int count = 0; count < 1000; ++count) {
        timeline.advance(ticks);
        timeline.add(sum, 1);
        ticks += step;
        if (count % 100 == 50) timeline.advance(~std::uint64_t{0} - static_cast<unsigned>(count));
      }
      timeline.finish();
      const auto& sums = timeline.values(sum);
      EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0.0), 1000);
      EXPECT_LE(sums.size(), Timeline::kBuckets);
      EXPECT_NE(timeline.bucket_ticks(), 0u);
    }
  }
}

TEST(Hostile, a_report_and_a_profile_of_the_longest_time_and_the_largest_sizes_are_made) {
  analysis::Summary summary({1e300, "", 0});
  analysis::Summary all;
  for (analysis::Summary* each : {&summary, &all}) {
    Line line(*each);
    line.header(~std::uint64_t{0});
    wire::Event event;
    event.requested = event.allocated = wire::kSourceSize - 1;
    for (int count = 0; count < 10; ++count) {
      event.address += 16;
      line.put(event);
      ++event.global_number;
      ++event.hart_number;
      event.ticks = ~std::uint64_t{0} - 10;
    }
    line.finish();
    const analysis::Report report = make_report(*each, nullptr, analysis::SortKey::kBytes, "x");
    EXPECT_NE(report_text(report, {20, true, true, true, true}).find("incomplete"), std::string::npos);
    EXPECT_FALSE(analysis::export_pprof(report).empty());
  }
  EXPECT_EQ(summary.totals().allocations, 0);
  EXPECT_EQ(all.totals().allocations, 10);
}

TEST(Hostile, frees_of_unknown_objects_are_forgotten_again) {
  host::Definitions definitions;
  definitions.traceables[1] = {1, host::EventKind::kCache, false, "one", 64, 64, 0, host::Traceable::kNoParent};
  host::Model model(definitions);
  host::Event event;
  event.operation = host::Operation::kFree;
  event.traceable = 1;
  const auto free = [&](std::uint64_t address) {
    event.address = address;
    ++event.number;
    return model.apply(event).misfit;
  };
  constexpr std::uint64_t kFrees = 300'000;
  for (std::uint64_t object = 1; object <= kFrees; ++object) ASSERT_EQ(free(64 * object), host::Misfit::kUnknown);
  EXPECT_EQ(free(64 * kFrees), host::Misfit::kDoubleFree) << "it was the last";
  EXPECT_EQ(free(64), host::Misfit::kUnknown) << "it was the first, and is remembered still";
}

}  // namespace analysis_hostile_test
