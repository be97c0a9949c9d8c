// Harts allocate and free, and pass objects to each other, while one hart reads the rings: each hart's events arrive in
// order and without a gap, except for events that are reported as lost, and in the order of global numbers every free
// follows its allocation.

#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <vector>

#include "trace_fixture.hpp"

#include <qm/test/harts.hpp>
#include <qm/trace/event_ring.hpp>
#include <qm/trace/event_stream.hpp>

namespace trace_stream_threads_test {

using namespace qm;
using namespace qm::trace;
using wire::Operation;

constexpr unsigned kRounds = 3000;

class StreamThreads : public test::TraceTest {
 protected:
  /// All harts work; hart 0, the reader, also reads in between.
  void run(std::size_t ring_bytes) {
    begin_again({}, test::harts());
    Cache* cache = make("packet");
    ASSERT_EQ(set_ring_bytes(ring_bytes), Status::kOk);
    ASSERT_EQ(start_stream({.pattern = "packet"}).status, Status::kOk);
    for (auto& slot : handed_) slot.store(nullptr);
    std::atomic<unsigned> working{test::harts()};
    test::on_each_hart(test::harts(), [&](unsigned hart) {
      attach_hart(hart);
      for (unsigned i = 0; i < kRounds; ++i) {
        void* object = cache->allocate();
        object = handed_[(i * 7 + hart) % handed_.size()].exchange(object);
        if (object != nullptr) cache->free(object);
        if (hart == 0) read();
      }
      working.fetch_sub(1);
      while (hart == 0 && working.load() != 0) read();
    });
    for (auto& slot : handed_) {
      if (void* object = slot.load(); object != nullptr) cache->free(object);
    }
    ASSERT_EQ(stop_stream().status, Status::kOk);
    read();
  }

  void read() {
    wire::Event event;
    for (unsigned hart = 0; hart < test::harts(); ++hart) {
      while (next_event(hart, event)) {
        EXPECT_EQ(event.hart_number, numbers_[hart]);
        if (event.operation == Operation::kLost) {
          numbers_[hart] += event.lost;
          lost_ += event.lost;
          continue;
        }
        ++numbers_[hart];
        events_.push_back({event.global_number, event.operation == Operation::kFree, event.address});
      }
    }
  }

  /// If nothing was lost, allocations and frees of each object alternate; it may have been live before.
  void expect_turns() {
    EXPECT_GT(events_.size() + lost_, 100u);
    if (lost_ != 0) return;
    ++whole_;
    std::sort(events_.begin(), events_.end(),
              [](const Told& left, const Told& right) { return left.number < right.number; });
    std::map<std::uint64_t, bool> freed;
    for (std::size_t i = 0; i < events_.size(); ++i) {
      EXPECT_EQ(events_[i].number, i);
      const auto at = freed.insert({events_[i].address, !events_[i].is_free}).first;
      EXPECT_NE(at->second, events_[i].is_free) << "event " << i;
      at->second = events_[i].is_free;
    }
  }

  struct Told {
    std::uint32_t number;
    bool is_free;
    std::uint64_t address;
  };
  std::array<std::atomic<void*>, 64> handed_;
  std::array<std::uint64_t, 32> numbers_{};
  std::vector<Told> events_;
  std::uint64_t lost_ = 0;
  unsigned whole_ = 0;  ///< streams without losses
};

TEST_F(StreamThreads, events_have_one_order_in_which_cause_comes_before_effect) {
  run(std::size_t{1} << 18);
  EXPECT_EQ(lost_, 0u);
  EXPECT_EQ(events_.size(), std::size_t{2} * kRounds * test::harts());
  std::sort(events_.begin(), events_.end(),
            [](const Told& left, const Told& right) { return left.number < right.number; });
  std::vector<std::uint64_t> out;
  for (std::size_t i = 0; i < events_.size(); ++i) {
    EXPECT_EQ(events_[i].number, i);
    const auto at = std::find(out.begin(), out.end(), events_[i].address);
    if (events_[i].is_free) {
      ASSERT_TRUE(at != out.end()) << "event " << i;
      out.erase(at);
    } else {
      ASSERT_TRUE(at == out.end()) << "event " << i;
      out.push_back(events_[i].address);
    }
  }
  EXPECT_TRUE(out.empty());
}

TEST_F(StreamThreads, with_small_rings_reported_and_lost_add_up_to_what_was_done) {
  run(8 * sizeof(RingEntry));
  EXPECT_EQ(events_.size() + lost_, std::size_t{2} * kRounds * test::harts());
  std::uint64_t counted = 0;
  wire::Statistic of;
  for (std::uint32_t source = 1; source <= last_source(); ++source) {
    if (source_statistic(source, of)) counted += of.allocations + of.frees;
  }
  EXPECT_EQ(counted, std::uint64_t{2} * kRounds * test::harts());
}

TEST_F(StreamThreads, what_is_reported_between_a_start_and_a_stop_has_neither_gaps_nor_stragglers) {
  constexpr unsigned kCycles = 20;
  begin_again({}, test::harts());
  Cache* cache = make("packet");
  ASSERT_EQ(set_ring_bytes(std::size_t{1} << 18), Status::kOk);
  for (auto& slot : handed_) slot.store(nullptr);
  std::atomic<bool> over{false};
  std::atomic<unsigned> done{0};
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    attach_hart(hart);
    for (unsigned i = hart; hart != 0 && !over.load(); ++i) {
      void* object = handed_[i * 7 % handed_.size()].exchange(cache->allocate());
      if (object != nullptr) cache->free(object);
      done.fetch_add(1);
      hal::Port::relax();
    }
    for (unsigned cycle = 0; hart == 0 && cycle < kCycles; ++cycle) {
      const auto let_work = [&](unsigned count) {
        for (const unsigned goal = done.load() + count; static_cast<int>(done.load() - goal) < 0;) hal::Port::relax();
      };
      let_work(20);
      numbers_ = {};
      events_.clear();
      lost_ = 0;
      EXPECT_EQ(start_stream({.pattern = "packet"}).status, Status::kOk);
      let_work(200);
      EXPECT_EQ(stop_stream().status, Status::kOk);
      read();
      let_work(50);
      const std::size_t told = events_.size();
      read();
      EXPECT_EQ(events_.size(), told) << "told after the stop";
      expect_turns();
      end_stream();
    }
    if (hart == 0) over.store(true);
  });
  for (auto& slot : handed_) {
    if (void* object = slot.load(); object != nullptr) cache->free(object);
  }
  EXPECT_GT(whole_, 0u);
  EXPECT_EQ(cache->stats().in_use, 0u);
  EXPECT_EQ(cache->state().load(), 0u);
}

}  // namespace trace_stream_threads_test
