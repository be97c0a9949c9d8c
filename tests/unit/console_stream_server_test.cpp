// The reaction of the event stream's sender when the line cannot keep up, and when it can again.

#include "trace_fixture.hpp"

#include <utility>
#include <vector>

#include <qm/console/stream_server.hpp>

namespace console_stream_server_test {

using namespace qm;
using console::StreamServer;
using wire::StreamMode;

class StreamServerTest : public test::TraceTest {
 protected:
  void SetUp() override {
    test::TraceTest::SetUp();
    cache_ = make("packet");
    ASSERT_EQ(trace::set_ring_bytes(64 * sizeof(trace::RingEntry)), Status::kOk);
  }

  void start(std::size_t sample_bytes = 0) {
    ASSERT_EQ(trace::start_stream({.pattern = "packet", .sample_bytes = sample_bytes}).status, Status::kOk);
    second(1);
  }
  /// A second with @p pairs allocations and frees at once; if there are many, most of their events find no room.
  void second(unsigned pairs) {
    for (unsigned i = 0; i < pairs; ++i) cache_->free(cache_->allocate());
    now_ms_ += StreamServer::kStatisticsMs;
    (void)server_.pump(now_ms_);
  }
  static StreamMode mode() { return trace::stream_figures().mode; }
  /// @returns the number of quiet seconds until the mode is @p wanted; 0: not within a hundred.
  unsigned quiet_until(StreamMode wanted) {
    for (unsigned seconds = 1; seconds <= 100; ++seconds) {
      second(1);
      if (mode() == wanted) return seconds;
    }
    return 0;
  }
  void drain() {
    while (server_.busy()) (void)server_.pump(now_ms_);
  }
  void finish() {
    ASSERT_EQ(trace::stop_stream().status, Status::kOk);
    drain();
  }

  std::vector<StreamMode> told_;  // notes that were sent
  wire::StreamEnd end_;

 private:
  static void take(void* context, wire::FrameType type, std::span<const std::uint8_t> payload) noexcept {
    if (type == wire::FrameType::kStreamEnd) {
      wire::StreamPrefix prefix;
      std::uint32_t skipped = 0;
      EXPECT_EQ(unpack(payload, prefix, static_cast<StreamServerTest*>(context)->end_, skipped), wire::Decoded::kOk);
    }
    if (type != wire::FrameType::kEvents) return;
    wire::EventDecoder decoder;
    wire::Event event;
    EXPECT_EQ(decoder.begin(payload), wire::Decoded::kOk);
    while (decoder.next(event) == wire::Decoded::kOk) {
      if (event.operation == wire::Operation::kMode)
        static_cast<StreamServerTest*>(context)->told_.push_back(event.mode);
    }
  }

  Cache* cache_ = nullptr;
  std::uint64_t now_ms_ = 0;
  StreamServer server_{take, this, "cafe"};
};

TEST_F(StreamServerTest, goes_over_to_less_while_most_is_dropped_and_back_when_nothing_is) {
  start();
  EXPECT_TRUE(mode() == StreamMode::kFull);
  second(1000);
  EXPECT_TRUE(mode() == StreamMode::kSampled);
  // The sample has so few events that none is dropped.
  EXPECT_EQ(quiet_until(StreamMode::kFull), StreamServer::kPatience);
  second(10);
  EXPECT_TRUE(mode() == StreamMode::kFull);
  finish();
  EXPECT_EQ(told_, (std::vector{StreamMode::kSampled, StreamMode::kFull}));
}

TEST_F(StreamServerTest, waits_longer_each_time_that_the_way_back_was_too_soon) {
  start();
  for (unsigned patience = StreamServer::kPatience; patience <= StreamServer::kMostPatience; patience *= 2) {
    second(1000);
    ASSERT_TRUE(mode() == StreamMode::kSampled);
    EXPECT_EQ(quiet_until(StreamMode::kFull), patience);
  }
  second(1000);
  EXPECT_EQ(quiet_until(StreamMode::kFull), StreamServer::kMostPatience);
  finish();
}

TEST_F(StreamServerTest, tells_the_time_of_the_stop_however_late_the_rings_are_empty) {
  start();
  second(10);
  const std::uint64_t before = hal::Port::ticks();
  ASSERT_EQ(trace::stop_stream().status, Status::kOk);
  const std::uint64_t after = hal::Port::ticks();
  while (hal::Port::ticks() == after) {
  }
  drain();
  EXPECT_GE(end_.ticks, before);
  EXPECT_LE(end_.ticks, after);
}

TEST_F(StreamServerTest, never_tells_more_than_was_asked_for) {
  start(64);  // all of its objects are in the sample
  second(10'000);
  EXPECT_TRUE(mode() == StreamMode::kCounters);
  EXPECT_TRUE(quiet_until(StreamMode::kSampled) != 0);
  for (unsigned seconds = 0; seconds < 200; ++seconds) second(1);
  EXPECT_TRUE(mode() == StreamMode::kSampled);
  finish();
}

}  // namespace console_stream_server_test
