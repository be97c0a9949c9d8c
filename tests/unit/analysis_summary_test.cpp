// The summary of a stream of events: small streams written by hand, and a long one against sums made in another way.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>

#include <qm/analysis/summary.hpp>

#include "synthetic.hpp"

namespace analysis_summary_test {

using namespace qm;
using analysis::Figures;
using analysis::Summary;
using analysis::SummaryOptions;
using analysis::Timeline;
using host::Event;
using host::EventKind;
using host::Operation;

constexpr std::uint32_t kPacket = 1, kInode = 2, kPages = 3;

/// A stream written by hand: 1000 ticks a second, caches packet (64 bytes) and inode (256), the arena kpages.
class SummaryTest : public testing::Test {
 protected:
  SummaryTest() {
    definitions_.header.harts = 2;
    definitions_.header.ticks_per_second = 1000;
    definitions_.header.start_ticks = 5000;
    const auto add = [&](std::uint32_t number, EventKind kind, const char* name, std::uint64_t bytes) {
      host::Traceable& traceable = definitions_.traceables[number];
      traceable.number = number;
      traceable.kind = kind;
      traceable.arena = kind == EventKind::kArena;
      traceable.name = name;
      traceable.object_bytes = bytes;
    };
    add(kPacket, EventKind::kCache, "packet", 64);
    add(kInode, EventKind::kCache, "inode", 256);
    add(kPages, EventKind::kArena, "kpages", 4096);
  }

  Event event(Operation operation, std::uint32_t traceable, std::uint64_t address, std::uint64_t bytes = 0) {
    Event made;
    made.number = number_++;
    made.ticks = ticks_++;
    made.operation = operation;
    made.traceable = traceable;
    made.address = address;
    made.requested = bytes;
    made.allocated = operation == Operation::kAllocate ? (bytes + 63) / 64 * 64 : bytes;
    made.kind = definitions_.traceables[traceable].kind;
    made.hart = hart_;
    made.stack = stack_;
    return made;
  }
  Event allocation(std::uint32_t traceable, std::uint64_t address, std::uint64_t bytes) {
    return event(Operation::kAllocate, traceable, address, bytes);
  }
  Event free(std::uint32_t traceable, std::uint64_t address) { return event(Operation::kFree, traceable, address); }

  /// @returns the summary of @p events, and of the further calls in @p more before the end.
  Summary summary(
      const std::vector<Event>& events, SummaryOptions options = {},
      const std::function<void(Summary&)>& more = [](Summary&) {}) {
    Summary made(std::move(options));
    made.on_header(definitions_);
    for (const Event& each : events) made.on_event(each);
    more(made);
    made.on_end({});
    return made;
  }

  host::Definitions definitions_;
  std::uint64_t number_ = 0, ticks_ = 5000;
  std::uint16_t hart_ = 0;
  std::uint32_t stack_ = 7;
};

TEST_F(SummaryTest, counts_bytes_hits_and_waste_of_a_stack) {
  const auto of = summary({allocation(kPacket, 0x1000, 60), allocation(kPacket, 0x1040, 64), free(kPacket, 0x1000)});
  ASSERT_EQ(of.rows().size(), 1u);
  const Figures& row = of.rows()[0].figures;
  EXPECT_EQ(row.allocations, 2);
  EXPECT_EQ(row.frees, 1);
  EXPECT_EQ(row.requested, 124);
  EXPECT_EQ(row.allocated, 128);
  EXPECT_EQ(row.freed, 64);
  EXPECT_EQ(row.live_objects, 1);
  EXPECT_EQ(row.live_bytes, 64);
  EXPECT_EQ(row.peak_bytes, 128);
  EXPECT_EQ(row.waste_percent(), 100 - 100.0 * 124 / 128);
  EXPECT_EQ(of.totals().live_bytes, 64);
  EXPECT_TRUE(of.complete());
}

TEST_F(SummaryTest, counts_a_free_by_another_hart_for_the_stack_that_allocated) {
  std::vector<Event> events{allocation(kPacket, 0x1000, 64)};
  hart_ = 1;
  stack_ = 9;
  events.push_back(free(kPacket, 0x1000));
  const auto of = summary(events);
  ASSERT_EQ(of.rows().size(), 1u);
  EXPECT_EQ(of.rows()[0].stack, 7u);
  EXPECT_EQ(of.rows()[0].figures.cross_hart_frees, 1);
  EXPECT_EQ(of.totals().cross_hart_frees, 1);
  EXPECT_EQ(of.harts()[1].figures.cross_hart_frees, 1);
  EXPECT_EQ(of.harts()[1].figures.frees, 1);
  EXPECT_EQ(of.harts()[0].figures.live_bytes, 0);
}

TEST_F(SummaryTest, takes_a_reallocation_for_the_end_of_one_object_and_the_beginning_of_another) {
  std::vector<Event> events{allocation(kPacket, 0x1000, 64)};
  stack_ = 8;
  Event moved = allocation(kInode, 0x2000, 256);
  moved.operation = Operation::kReallocate;
  moved.old_address = 0x1000;
  moved.old_traceable = kPacket;
  events.push_back(moved);
  const auto of = summary(events);
  EXPECT_EQ(of.reallocations(), 1);
  EXPECT_EQ(of.totals().live_bytes, 256);
  EXPECT_EQ(of.totals().freed, 64);
  ASSERT_EQ(of.rows().size(), 2u);
  EXPECT_EQ(of.rows()[0].figures.live_bytes, 0);
  EXPECT_EQ(of.rows()[1].figures.live_bytes, 256);
}

TEST_F(SummaryTest, keeps_arenas_apart_unless_asked_for) {
  // The segment has the same address as the first object in it.
  const std::vector<Event> events{allocation(kPages, 0x1000, 4096), allocation(kPacket, 0x1000, 64)};
  const auto of = summary(events);
  EXPECT_EQ(of.totals().allocated, 64);
  EXPECT_EQ(of.replaced(), 0);
  ASSERT_EQ(of.traceables().size(), 2u);
  EXPECT_EQ(of.traceables()[0].figures.live_bytes, 4096);
  EXPECT_FALSE(of.traceables()[0].counted);
  const auto arenas = summary(events, {0, "kp*", 0});
  EXPECT_EQ(arenas.totals().allocated, 4096);
}

TEST_F(SummaryTest, keeps_to_the_caches_and_the_time_that_are_asked_for) {
  const std::vector<Event> events{allocation(kPacket, 0x1000, 64), allocation(kInode, 0x2000, 256),
                                  free(kPacket, 0x1000), allocation(kPacket, 0x3000, 64)};
  const auto packets = summary(events, {0, "pack?t", 0});
  EXPECT_EQ(packets.totals().allocated, 128);
  EXPECT_EQ(packets.totals().live_bytes, 64);
  const auto later = summary(events, {0.002, "", 0});
  EXPECT_EQ(later.totals().allocations, 1);
  EXPECT_EQ(later.totals().frees, 1);
  EXPECT_EQ(later.totals().live_bytes, 64);
  EXPECT_EQ(later.unknown_frees(), 1) << "what was allocated before is not known to the window";
}

TEST_F(SummaryTest, is_of_the_last_stream_unless_another_is_asked_for) {
  for (const std::uint32_t wanted : {0u, 1u, 2u, 3u}) {
    Summary of({0, "", wanted});
    of.on_header(definitions_);
    of.on_event(allocation(kPacket, 0x1000, 64));
    of.on_header(definitions_);
    of.on_event(allocation(kInode, 0x2000, 256));
    of.on_end({});
    EXPECT_EQ(of.streams(), 2u);
    EXPECT_EQ(of.totals().live_bytes, wanted == 1 ? 64 : wanted == 3 ? 0 : 256) << wanted;
    EXPECT_EQ(of.complete(), wanted != 3) << wanted;
  }
}

TEST_F(SummaryTest, is_incomplete_when_events_are_missing) {
  const std::vector<Event> events{allocation(kPacket, 0x1000, 64), allocation(kPacket, 0x1000, 64),
                                  free(kPacket, 0x5000)};
  const auto lost = summary(events, {}, [](Summary& of) { of.on_gap({host::Missing::kOverrun, 1, 12, 2}); });
  EXPECT_FALSE(lost.complete());
  EXPECT_EQ(lost.harts()[1].lost_on_target, 12);
  EXPECT_EQ(lost.replaced(), 1);
  EXPECT_EQ(lost.unknown_frees(), 1);
  EXPECT_EQ(lost.totals().live_objects, 1);
  const auto sampled = summary(events, {}, [](Summary& of) {
    of.on_mode({host::StreamMode::kSampled, 4096, 0, 0, 0});
  });
  EXPECT_FALSE(sampled.complete());
  EXPECT_TRUE(sampled.sampled());
  const auto counted = summary(events, {}, [](Summary& of) { of.on_mode({host::StreamMode::kCounters, 0, 0, 0, 0}); });
  EXPECT_TRUE(counted.counters_only());
  EXPECT_FALSE(counted.complete());
}

TEST_F(SummaryTest, gives_a_sampled_event_the_weight_of_those_it_stands_for) {
  Event one = allocation(kPacket, 0x1000, 64);
  one.weight = 8;
  Event end = free(kPacket, 0x1000);
  end.weight = 8;
  const auto of = summary({one, end});
  EXPECT_EQ(of.totals().allocations, 8);
  EXPECT_EQ(of.totals().allocated, 512);
  EXPECT_EQ(of.totals().live_bytes, 0);
  EXPECT_TRUE(of.sampled());
}

TEST_F(SummaryTest, suspects_what_is_out_far_longer_than_its_stack_is_used_to) {
  std::vector<Event> events{allocation(kPacket, 0x1000, 64)};  // never freed
  for (std::uint64_t round = 0; round < 50; ++round) {
    events.push_back(allocation(kPacket, 0x2000, 64));
    events.push_back(free(kPacket, 0x2000));
  }
  events.push_back(allocation(kPacket, 0x3000, 64));  // live because the recording ends
  const auto of = summary(events);
  EXPECT_EQ(of.rows()[0].suspects.objects, 1);
  EXPECT_EQ(of.rows()[0].suspects.bytes, 64);
  EXPECT_EQ(of.rows()[0].suspects.oldest_ticks, 101u);
  EXPECT_EQ(of.rows()[0].lifetimes.longest, 1u);
}

TEST_F(SummaryTest, measures_ages_to_the_stop_and_not_to_statistics_that_come_while_rings_drain) {
  // In each round an object lives for 10 ticks. One is 15 ticks old at the stop, and is no suspect.
  std::vector<Event> events;
  for (std::uint64_t round = 0; round < 9; ++round) {
    events.push_back(allocation(kPacket, 0x2000, 64));
    ticks_ += 9;
    events.push_back(free(kPacket, 0x2000));
  }
  events.push_back(allocation(kPacket, 0x3000, 64));
  const std::uint64_t stop = events.back().ticks + 15;
  const auto of = summary(events, {}, [&](Summary& made) {
    host::Statistics late;
    late.ticks = stop + 1000;
    late.final = true;
    made.on_statistics(late);
    made.on_stream_end(stop);
  });
  EXPECT_EQ(of.last_ticks(), stop);
  EXPECT_EQ(of.rows()[0].suspects.objects, 0);
  // The time after the last event counts as well: it passes without events, except for leaks.
  const auto quiet = summary(events, {}, [&](Summary& made) { made.on_stream_end(stop + 100); });
  EXPECT_EQ(quiet.rows()[0].suspects.objects, 1);
  // A device of schema 1.0 does not send the time of the stop, and a device that was not stopped has none.
  EXPECT_EQ(summary(events, {}, [](Summary& made) { made.on_stream_end(0); }).last_ticks(), events.back().ticks);
  EXPECT_EQ(summary(events).last_ticks(), events.back().ticks);
}

TEST(Summary, agrees_with_the_device_on_a_long_stream) {
  test::SyntheticOptions options;
  options.events = 50'000;
  options.seed = test::seed();
  test::Synthetic run(options);
  Summary of;
  run.deliver(of);
  EXPECT_TRUE(of.complete());
  ASSERT_EQ(of.traceables().size(), run.statistics().traceables.size());
  for (const Summary::TraceableRow& row : of.traceables()) {
    const host::Counters& device = run.statistics().traceables.at(row.number);
    EXPECT_EQ(row.figures.requested >= static_cast<double>(device.requested), true) << row.number;
    if (device.reallocations != 0) continue;  // the device counts those separately
    EXPECT_EQ(row.figures.allocations, static_cast<double>(device.allocations));
    EXPECT_EQ(row.figures.frees, static_cast<double>(device.frees));
    EXPECT_EQ(row.figures.allocated, static_cast<double>(device.allocated));
    EXPECT_EQ(row.figures.freed, static_cast<double>(device.freed));
  }
  // Invariant 1 of summary.hpp, checked in three ways.
  const auto live = [](double sum, const auto& row) { return sum + row.figures.live_bytes; };
  EXPECT_EQ(std::accumulate(of.rows().begin(), of.rows().end(), 0.0, live), of.totals().live_bytes);
  EXPECT_EQ(std::accumulate(of.traceables().begin(), of.traceables().end(), 0.0, live), of.totals().live_bytes);
  EXPECT_EQ(std::accumulate(of.harts().begin(), of.harts().end(), 0.0, live), of.totals().live_bytes);
  EXPECT_EQ(of.totals().allocated - of.totals().freed, of.totals().live_bytes);
  EXPECT_EQ(of.timeline().values(Summary::kTotalSeries).back(), of.totals().live_bytes);
  const auto& rates = of.timeline().values(Summary::kRateSeries);
  EXPECT_EQ(std::accumulate(rates.begin(), rates.end(), 0.0), of.totals().allocated);
  const auto& peaks = of.timeline().values(Summary::kPeakSeries);
  EXPECT_EQ(*std::max_element(peaks.begin(), peaks.end()), of.totals().peak_bytes);
  const auto& lives = of.lifetimes().objects;
  EXPECT_EQ(std::accumulate(lives.begin(), lives.end(), 0.0), of.totals().frees);
}

TEST(Timeline, keeps_what_was_added_in_a_bounded_number_of_buckets) {
  test::Random random(test::seed());
  for (const std::uint64_t stride : {1u, 7u, 1000u, 1u << 30}) {
    Timeline timeline(100);
    const std::size_t level = timeline.add_series(Timeline::Kind::kLevel),
                      sum = timeline.add_series(Timeline::Kind::kSum);
    const std::size_t peak = timeline.add_series(Timeline::Kind::kPeak);
    double now = 0, added = 0, highest = 0;
    std::uint64_t ticks = 100;
    for (int step = 0; step < 3000; ++step) {
      ticks += random.below(static_cast<std::uint32_t>(stride) + 1);
      timeline.advance(ticks);
      const double by = step % 2 == 0 ? random.below(100) : -static_cast<double>(random.below(100));
      timeline.add(level, by);
      timeline.add(peak, by);
      timeline.add(sum, 1);
      now += by;
      added += 1;
      highest = std::max(highest, now);
    }
    timeline.finish();
    const auto& sums = timeline.values(sum);
    EXPECT_LE(sums.size(), Timeline::kBuckets);
    EXPECT_GE(timeline.origin_ticks() + sums.size() * timeline.bucket_ticks(), ticks);
    EXPECT_EQ(std::accumulate(sums.begin(), sums.end(), 0.0), added);
    EXPECT_EQ(timeline.values(level).back(), now);
    EXPECT_EQ(timeline.values(level).size(), sums.size());
    EXPECT_EQ(*std::max_element(timeline.values(peak).begin(), timeline.values(peak).end()), highest);
  }
}

TEST(LiveTable, finds_what_was_inserted_and_not_erased) {
  test::Random random(test::seed());
  analysis::LiveTable table;
  std::map<std::uint64_t, std::uint64_t> expected;
  for (std::uint32_t step = 0; step < 20'000; ++step) {
    const std::uint64_t address = 0x80000000 + 16 * std::uint64_t{random.below(3000)};
    analysis::LiveObject* const found = table.find(0, address);
    ASSERT_EQ(found != nullptr, expected.contains(address)) << "step " << step;
    if (found != nullptr) {
      ASSERT_EQ(found->ticks, expected[address]);
      table.erase(found);
      expected.erase(address);
    } else {
      table.insert({address, step, 1, 1, 0, 0, 0, 0, 1});
      expected[address] = step;
    }
  }
  EXPECT_EQ(table.size(), expected.size());
}

TEST(Matches, knows_stars_and_question_marks) {
  for (const char* yes : {"kmalloc_64", "kmalloc_*", "*", "k*_64", "kmalloc_??", "**64", "*malloc*"}) {
    EXPECT_TRUE(analysis::matches(yes, "kmalloc_64")) << yes;
  }
  for (const char* no : {"", "kmalloc", "kmalloc_?", "*65", "malloc_64", "kmalloc_64?"}) {
    EXPECT_FALSE(analysis::matches(no, "kmalloc_64")) << no;
  }
}

}  // namespace analysis_summary_test
