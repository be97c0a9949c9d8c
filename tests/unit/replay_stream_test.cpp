// The bytes of an event on the line: a recorded program's allocations in frames; each block has one of 300 stacks.

#include <gtest/gtest.h>

#include <qm/heap.hpp>
#include <qm/replay/recording.hpp>
#include <qm/system.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/wire/event.hpp>
#include <qm/wire/frame.hpp>

namespace replay_stream_test {

using namespace qm;

constexpr std::size_t kPoolBytes = std::size_t{6} << 20;
constexpr std::size_t kTableBytes = std::size_t{5} << 20;
constexpr std::uint32_t kStacks = 300;
constexpr std::size_t kFrameBytes = wire::kHeaderBytes + wire::kCrcBytes;

alignas(4096) std::byte pool[kPoolBytes];
alignas(8) std::byte tables[kTableBytes];

class Line {
 public:
  void add(const wire::Event& event) {
    if (open_ && encoder_.add(event)) return;
    close();
    encoder_.begin(bytes_, 1, 0, event);
    open_ = encoder_.add(event);
  }
  void close() {
    if (!open_) return;
    open_ = false;
    const std::size_t payload = encoder_.finish().size();
    raw += payload + kFrameBytes + 2 + (payload + kFrameBytes) / 254 + 1;  // FF, COBS, 00
    armoured += wire::armoured_size(payload);
  }
  std::size_t raw = 0;
  std::size_t armoured = 0;

 private:
  std::uint8_t bytes_[wire::kMaxPayloadBytes];
  wire::EventEncoder encoder_;
  bool open_ = false;
};

TEST(StreamBytes, an_event_of_sqlite_takes_at_most_9_bytes_raw_and_12_armoured) {
  const MemoryRange range{reinterpret_cast<std::uintptr_t>(pool), kPoolBytes};
  ASSERT_EQ(initialize({&range, 1}, 1), Status::kOk);
  attach_hart(0);
  trace::Config config;
  config.object_base = reinterpret_cast<std::uintptr_t>(pool);
  ASSERT_EQ(trace::initialize(config), Status::kOk);
  const replay::Recording* recording = replay::find_recording("sqlite");
  ASSERT_TRUE(recording != nullptr);
  replay::Header header;
  ASSERT_TRUE(replay::read_header(recording->file, header));
  ASSERT_TRUE(replay::unpack_bytes(header) <= kTableBytes);
  const auto operations = replay::unpack(recording->file, tables);
  static void* blocks[20000];
  ASSERT_TRUE(header.slots <= 20000);

  ASSERT_EQ(trace::start_stream({}).status, Status::kOk);
  static Line line;
  std::uint32_t slot = 0;
  std::uint64_t count = 0;
  const std::uint64_t per_tick = hal::Port::tick_rate() / 10'000'000 != 0 ? hal::Port::tick_rate() / 10'000'000 : 1;
  const auto read = [&] {
    wire::Event event;
    while (trace::next_event(0, event)) {
      ASSERT_TRUE(event.operation <= wire::Operation::kReallocate);
      if (event.operation != wire::Operation::kFree) event.stack = 1 + slot % kStacks;
      event.ticks /= per_tick;  // in units of 100 ns, like the board's
      line.add(event);
      ++count;
    }
  };
  for (const replay::Operation& operation : operations) {
    slot = operation.slot;
    switch (static_cast<replay::Kind>(operation.kind)) {
      case replay::Kind::kAllocate: blocks[slot] = heap::allocate_at(nullptr, operation.size); break;
      case replay::Kind::kReallocate: blocks[slot] = heap::reallocate(blocks[slot], operation.size); break;
      case replay::Kind::kFree: heap::free(blocks[slot]); break;
    }
    read();
  }
  ASSERT_EQ(trace::stop_stream().status, Status::kOk);
  line.close();
  EXPECT_TRUE(count >= operations.size());
  // In hundredths: a target has no floating point.
  const std::uint64_t raw = line.raw * 100 / count;
  const std::uint64_t armoured = line.armoured * 100 / count;
  EXPECT_TRUE(raw <= 900) << raw;
  EXPECT_TRUE(armoured <= 1200) << armoured;
  EXPECT_TRUE(raw > 400 && count < operations.size() + 1000) << raw;  // otherwise these are other events
  trace::shutdown();
  shutdown();
}

}  // namespace replay_stream_test
