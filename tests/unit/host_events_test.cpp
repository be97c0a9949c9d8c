// From a run through frames and a capture back to events: nothing is changed, and missing events are counted.

#include <gtest/gtest.h>

#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include <qm/host/model.hpp>
#include <qm/host/stream_reader.hpp>
#include <qm/test/folder.hpp>

#include "capture_encoder.hpp"
#include "synthetic.hpp"

namespace host_events_test {

using namespace qm::host;
using qm::test::CaptureEncoder;
using qm::test::Defects;
using qm::test::Synthetic;

/// Stores everything.
class Kept : public EventHandler {
 public:
  void on_header(const Definitions& known) override {
    definitions_ = &known;
    ++streams;
  }
  void on_event(const Event& event) override { events.push_back(event); }
  void on_gap(const Gap& gap) override { gaps.push_back(gap); }
  void on_statistics(const Statistics& each) override { statistics = each; }
  void on_end(const CaptureEnd& at_end) override {
    end = at_end;
    if (definitions_ != nullptr) definitions = *definitions_;
  }
  [[nodiscard]] std::uint64_t missing(Missing why) const {
    std::uint64_t count = 0;
    for (const Gap& gap : gaps) count += gap.why == why ? gap.events : 0;
    return count;
  }
  [[nodiscard]] std::string problems() const {
    std::string all;
    for (const Problem& each : end.problems) all += each.text + "\n";
    return all;
  }

  int streams = 0;
  std::vector<Event> events;
  std::vector<Gap> gaps;
  Statistics statistics;
  CaptureEnd end;
  Definitions definitions;

 private:
  const Definitions* definitions_ = nullptr;
};

class Events : public testing::Test {
 protected:
  /// Passes a run through a capture.
  [[nodiscard]] Kept through_a_capture(const qm::test::SyntheticOptions& options, const Defects& defects = {}) const {
    {
      CaptureWriter writer(folder_ / "capture", {});
      CaptureEncoder encoder(writer, defects);
      Synthetic(options).deliver(encoder);
      writer.end("done");
    }
    Kept kept;
    read_events(folder_ / "capture", kept);
    return kept;
  }
  static Kept directly(const qm::test::SyntheticOptions& options) {
    Kept kept;
    Synthetic(options).deliver(kept);
    return kept;
  }

 private:
  qm::test::TemporaryFolder folder_;
};

bool same(const Event& a, const Event& b) {
  return a.number == b.number && a.ticks == b.ticks && a.address == b.address && a.old_address == b.old_address &&
         a.requested == b.requested && a.allocated == b.allocated && a.traceable == b.traceable && a.stack == b.stack &&
         a.old_traceable == b.old_traceable && a.context == b.context && a.hart == b.hart &&
         a.operation == b.operation && a.kind == b.kind && a.weight == b.weight;
}

TEST_F(Events, come_out_as_they_went_in) {
  const qm::test::SyntheticOptions options{.events = 20'000, .statistics_every = 3000};
  const Kept in = directly(options), out = through_a_capture(options);
  EXPECT_TRUE(out.end.complete) << out.problems();
  ASSERT_EQ(in.events.size(), out.events.size());
  for (std::size_t at = 0; at < in.events.size(); ++at)
    ASSERT_TRUE(same(in.events[at], out.events[at])) << "event " << at;
  EXPECT_EQ(in.statistics.traceables, out.statistics.traceables);
  EXPECT_EQ(in.statistics.harts, out.statistics.harts);
  EXPECT_TRUE(out.statistics.final);
  EXPECT_EQ(out.definitions.header.build_id, in.definitions.header.build_id);
  EXPECT_EQ(out.definitions.stacks.size(), 300u);
  EXPECT_EQ(out.definitions.stacks.at(7).frames, in.definitions.stacks.at(7).frames);
  EXPECT_EQ(out.definitions.traceables.at(3).name, "cache_3");
  EXPECT_EQ(out.definitions.traceables.at(3).parent, in.definitions.traceables.at(3).parent);
  EXPECT_EQ(out.definitions.contexts.at(2), "task worker-1");
}

TEST_F(Events, of_one_hart_and_of_many_are_in_order) {
  for (const std::uint16_t harts : {1, 2, 8}) {
    const Kept out = through_a_capture({.events = 5000, .harts = harts});
    ASSERT_EQ(out.events.size(), 5000u);
    for (std::size_t at = 0; at < out.events.size(); ++at) ASSERT_EQ(out.events[at].number, at);
    EXPECT_TRUE(out.end.complete) << out.problems();
  }
}

TEST_F(Events, that_the_device_dropped_are_counted_by_hart_and_stay_in_order) {
  const Kept out =
      through_a_capture({.events = 20'000}, {.overrun = [](std::uint64_t n) { return n > 5000 && n < 6000; }});
  EXPECT_FALSE(out.end.complete);
  EXPECT_EQ(out.missing(Missing::kOverrun), 999u);
  EXPECT_EQ(out.missing(Missing::kLine), 0u);
  EXPECT_EQ(out.events.size(), 20'000u - 999u);
  for (std::size_t at = 1; at < out.events.size(); ++at) ASSERT_LT(out.events[at - 1].number, out.events[at].number);
  for (const Gap& gap : out.gaps) EXPECT_TRUE(gap.after > 4900 && gap.after <= 5000) << gap.after;
  EXPECT_NE(out.problems().find("overruns"), std::string::npos);
}

TEST_F(Events, that_were_dropped_at_the_very_end_are_counted_by_the_statistics) {
  const Kept out = through_a_capture({.events = 10'000}, {.overrun = [](std::uint64_t n) { return n >= 9000; }});
  EXPECT_EQ(out.missing(Missing::kOverrun), 1000u);
  EXPECT_FALSE(out.end.complete);
}

TEST_F(Events, of_a_lost_frame_are_counted_by_hart) {
  const Kept whole = directly({.events = 10'000});
  for (const std::uint32_t lost : {40u, 60u, 80u}) {
    const Kept out =
        through_a_capture({.events = 10'000}, {.lose = [&](std::uint32_t frame) { return frame == lost; }});
    EXPECT_FALSE(out.end.complete);
    EXPECT_EQ(out.events.size() + out.missing(Missing::kLine), whole.events.size()) << lost;
    EXPECT_GT(out.missing(Missing::kLine), 0u);
    EXPECT_NE(out.problems().find("frame is missing before frame " + std::to_string(lost + 1)), std::string::npos);
  }
}

TEST_F(Events, of_a_stream_whose_header_or_end_is_lost_are_there_and_not_complete) {
  const Kept headless = through_a_capture({.events = 1000}, {.lose = [](std::uint32_t frame) { return frame == 0; }});
  EXPECT_EQ(headless.events.size(), 1000u);
  EXPECT_NE(headless.problems().find("header is missing"), std::string::npos);
  const Kept endless = through_a_capture({.events = 1000}, {.unended = true});
  EXPECT_EQ(endless.events.size(), 1000u);
  EXPECT_NE(endless.problems().find("no end"), std::string::npos);
}

TEST_F(Events, in_a_capture_without_a_stream_are_none_and_it_says_so) {
  Kept kept;
  const std::filesystem::path file = std::filesystem::temp_directory_path() / ("qm-none-" + std::to_string(getpid()));
  {
    CaptureWriter writer(file, {});
    writer.received("qm> ");
    writer.end("done");
  }
  read_events(file, kept);
  std::filesystem::remove(file);
  EXPECT_EQ(kept.streams, 0);
  EXPECT_NE(kept.problems().find("no event stream"), std::string::npos);
}

TEST(Model, agrees_with_what_the_device_counts) {
  Synthetic run({.events = 50'000});
  class Applied : public EventHandler {
   public:
    void on_header(const Definitions& definitions) override { model = std::make_unique<Model>(definitions); }
    void on_event(const Event& event) override {
      const Model::Step step = model->apply(event);
      EXPECT_EQ(step.misfit, Misfit::kNone);
    }
    std::unique_ptr<Model> model;
  } applied;
  run.deliver(applied);
  EXPECT_EQ(applied.model->traceables(), run.statistics().traceables);
  EXPECT_EQ(applied.model->harts(), run.statistics().harts);
  EXPECT_GT(applied.model->crossed(), 1000u);
}

TEST(Model, a_block_that_moves_is_given_back_where_it_was) {
  Definitions definitions;
  definitions.traceables[1] = {1, EventKind::kHeap, false, "kmalloc_64", 64, 64, 0, Traceable::kNoParent};
  definitions.traceables[2] = {2, EventKind::kHeap, true, "kheap", 1024, 1024, 0, Traceable::kNoParent};
  Model model(definitions);
  Event event;
  event.traceable = 1;
  event.address = 0x1000;
  event.requested = 60;
  event.allocated = 64;
  (void)model.apply(event);
  event.operation = Operation::kReallocate;
  event.old_traceable = 1;
  event.old_address = 0x1000;
  event.traceable = 2;
  event.address = 0x8000;
  event.requested = 1500;
  event.allocated = 2048;
  EXPECT_EQ(model.apply(event).misfit, Misfit::kNone);
  EXPECT_EQ(model.traceables().at(1), (Counters{.allocations = 1, .requested = 60, .allocated = 64, .freed = 64}));
  EXPECT_EQ(model.traceables().at(2), (Counters{.reallocations = 1, .requested = 1500, .allocated = 2048}));
  event.operation = Operation::kFree;
  event.allocated = 0;
  EXPECT_EQ(model.apply(event).misfit, Misfit::kNone);
  EXPECT_EQ(model.traceables().at(2).freed, 2048u);
  EXPECT_EQ(model.live_objects(), 0u);
}

TEST(Model, finds_each_misfit) {
  Definitions definitions;
  definitions.traceables[1] = {1, EventKind::kCache, false, "one", 64, 64, 0, Traceable::kNoParent};
  definitions.traceables[2] = {2, EventKind::kCache, false, "two", 64, 64, 0, Traceable::kNoParent};
  definitions.traceables[4] = {4, EventKind::kCache, false, "pages_4096", 4096, 4096, 0, 3};
  definitions.traceables[3] = {3, EventKind::kArena, true, "pages", 4096, 4096, 0, Traceable::kNoParent};
  Model model(definitions);
  const auto apply = [&](Operation operation, std::uint64_t address, std::uint32_t traceable,
                         std::uint64_t bytes = 64) {
    Event event;
    event.operation = operation;
    event.address = address;
    event.traceable = traceable;
    event.allocated = bytes;
    return model.apply(event).misfit;
  };
  EXPECT_EQ(apply(Operation::kAllocate, 0x1000, 1), Misfit::kNone);
  EXPECT_EQ(apply(Operation::kAllocate, 0x1000, 3, 4096), Misfit::kNone) << "a segment of an arena is another thing";
  EXPECT_EQ(apply(Operation::kAllocate, 0x1000, 4, 4096), Misfit::kNone) << "so is an object of its quantum cache";
  EXPECT_EQ(apply(Operation::kAllocate, 0x1000, 1), Misfit::kStillOut);
  EXPECT_EQ(apply(Operation::kFree, 0x1000, 2), Misfit::kWrongCache);
  EXPECT_EQ(apply(Operation::kFree, 0x1000, 1), Misfit::kDoubleFree);
  EXPECT_EQ(apply(Operation::kFree, 0x2000, 1), Misfit::kUnknown);
  EXPECT_EQ(apply(Operation::kAllocate, 0x2000, 1), Misfit::kNone);
  EXPECT_EQ(apply(Operation::kFree, 0x2000, 1), Misfit::kNone);
  EXPECT_EQ(model.live_objects(), 2u);
  EXPECT_EQ(model.live_bytes(), 8192u);
}

}  // namespace host_events_test
