#include <gtest/gtest.h>

#include <qm/wire/event.hpp>
#include <qm/wire/frame.hpp>
#include <qm/wire/stream.hpp>

namespace wire_event_test {

using namespace qm::wire;

/// A small generator of sufficient quality, the same everywhere.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 1) {}
  std::uint64_t next() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    return state_ ^= state_ << 17;
  }
  std::uint64_t below(std::uint64_t bound) { return next() % bound; }
  /// Each number of bits is equally likely.
  std::uint64_t wide() { return next() >> below(64); }

 private:
  std::uint64_t state_;
};

bool same(std::span<const std::uint8_t> left, std::span<const std::uint8_t> right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] != right[i]) return false;
  }
  return true;
}

/// The next event of a hart, plain or wild in every field.
Event following(const Event& before, Random& random, bool wild) {
  Event event;
  event.hart = before.hart;
  event.hart_number = before.hart_number + 1;
  event.operation = static_cast<Operation>(random.below(20) == 0 ? 2 : random.below(2));
  event.global_number =
      before.global_number + 1 + static_cast<std::uint32_t>(random.below(8) == 0 ? random.wide() % 1000 : 0);
  event.ticks = before.ticks + (wild ? random.wide() : random.below(100));
  event.context = random.below(10) == 0 ? static_cast<std::uint32_t>(random.below(500)) : before.context;
  event.source = wild ? static_cast<std::uint32_t>(random.wide()) : static_cast<std::uint32_t>(random.below(90));
  event.address = wild ? random.wide() : 0x80200000 + random.below(1 << 20) * 8;
  if (event.operation != Operation::kFree) {
    if (random.below(2) == 0) event.requested = wild ? random.wide() >> 1 : random.below(2000);
    event.stack = static_cast<std::uint32_t>(wild ? random.wide() : random.below(300));
  }
  if (random.below(16) == 0) event.allocated = random.wide() >> 1;
  if (random.below(16) == 0) event.flags = static_cast<std::uint32_t>(random.below(16));
  if (random.below(16) == 0) event.call_site = static_cast<std::uint32_t>(random.below(900));
  if (event.operation == Operation::kReallocate) {
    event.new_source = event.source;
    event.new_address = event.address;
    if (random.below(2) == 0) event.new_address = random.wide();
    if (random.below(4) == 0) event.new_source = static_cast<std::uint32_t>(random.below(90));
  }
  return event;
}

/// A note after @p before. @param[in,out] next lower bounds for the event after the note.
Event note_behind(const Event& before, Random& random) {
  Event event;
  event.hart = before.hart;
  event.hart_number = before.hart_number + 1;
  event.ticks = before.ticks;
  event.global_number = before.global_number + 1;
  if (random.below(2) == 0) {
    event.operation = Operation::kLost;
    event.lost = random.below(1000) + 1;
  } else {
    event.operation = Operation::kMode;
    event.mode = static_cast<StreamMode>(random.below(3));
    event.sample_bytes = random.wide();
  }
  return event;
}

/// A payload of events and notes, and the data it was made from.
struct Sample {
  std::uint8_t bytes[kMaxPayloadBytes];
  std::span<const std::uint8_t> payload;
  Event events[kMaxPayloadBytes];
  std::uint32_t count = 0;

  Sample(std::uint64_t seed, bool wild, std::uint32_t most = UINT32_MAX) {
    Random random(seed);
    EventEncoder encoder;
    Event before;
    before.hart = static_cast<std::uint32_t>(random.below(300));
    before.hart_number = random.wide() >> 1;
    before.ticks = random.wide() >> 1;
    before.global_number = static_cast<std::uint32_t>(random.next());
    before.context = 0;
    while (count < most) {
      const bool is_note = random.below(30) == 0;
      Event event = is_note ? note_behind(before, random) : following(before, random, wild);
      if (count == 0) encoder.begin(bytes, 7, 41, event);
      if (!encoder.add(event)) break;
      events[count++] = event;
      if (!is_note) {
        before = event;
      } else if (event.operation == Operation::kLost) {
        before.hart_number += event.lost;
      }
    }
    payload = encoder.finish();
  }
};

Sample& sample(std::uint64_t seed, bool wild, std::uint32_t most = UINT32_MAX) {
  static std::uint64_t room[(sizeof(Sample) + 7) / 8];  // too large for a target's stack
  return *new (static_cast<void*>(room)) Sample(seed, wild, most);
}

TEST(Events, come_out_as_they_went_in) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Sample& sent = sample(seed, seed % 2 != 0);
    ASSERT_TRUE(sent.count > 8) << "seed " << seed;
    static EventDecoder decoder;
    ASSERT_TRUE(decoder.begin(sent.payload) == Decoded::kOk) << "seed " << seed;
    EXPECT_EQ(decoder.stream(), 7u);
    EXPECT_EQ(decoder.number(), 41u);
    for (std::uint32_t i = 0; i < sent.count; ++i) {
      Event event;
      ASSERT_TRUE(decoder.next(event) == Decoded::kOk) << "seed " << seed << " event " << i;
      ASSERT_TRUE(event == sent.events[i]) << "seed " << seed << " event " << i;
    }
    Event event;
    ASSERT_TRUE(decoder.next(event) == Decoded::kEnd) << "seed " << seed;
    EXPECT_EQ(decoder.skipped(), 0u);
  }
}

TEST(Events, are_malformed_when_cut_anywhere) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const Sample& sent = sample(seed, seed % 2 != 0);
    for (std::size_t size = 0; size < sent.payload.size(); ++size) {
      static EventDecoder decoder;
      Decoded result = decoder.begin(sent.payload.first(size));
      Event event;
      for (std::uint32_t i = 0; result == Decoded::kOk; ++i) {
        result = decoder.next(event);
        ASSERT_TRUE(result != Decoded::kOk || event == sent.events[i]) << "seed " << seed << " size " << size;
      }
      ASSERT_TRUE(result == Decoded::kMalformed) << "seed " << seed << " size " << size;
    }
  }
}

/// Decodes @p payload and encodes it again. @returns whether it is malformed or the same bytes result.
bool has_one_form(std::span<const std::uint8_t> payload) {
  static EventDecoder decoder;
  static EventEncoder encoder;
  static std::uint8_t again[2 * kMaxPayloadBytes];
  Decoded result = decoder.begin(payload);
  Event event;
  bool begun = false;
  while (result == Decoded::kOk && (result = decoder.next(event)) == Decoded::kOk) {
    if (!begun) encoder.begin(again, decoder.stream(), decoder.number(), event);
    begun = true;
    if (!encoder.add(event)) return false;
  }
  return result == Decoded::kMalformed || decoder.skipped() != 0 || same(encoder.finish(), payload);
}

TEST(Events, have_one_form_so_that_no_two_payloads_say_the_same) {
  unsigned changes = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Sample& sent = sample(seed, seed % 2 != 0, 12);
    ASSERT_TRUE(has_one_form(sent.payload));
    for (std::size_t place = 0; place < sent.payload.size(); ++place) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        sent.bytes[place] ^= static_cast<std::uint8_t>(1u << bit);
        ASSERT_TRUE(has_one_form(sent.payload)) << "seed " << seed << " place " << place << " bit " << bit;
        sent.bytes[place] ^= static_cast<std::uint8_t>(1u << bit);
        ++changes;
      }
    }
  }
  EXPECT_TRUE(changes > 10000);
}

TEST(Events, of_random_bytes_end_and_stay_malformed) {
  Random random(99);
  for (unsigned round = 0; round < 3000; ++round) {
    static std::uint8_t bytes[kMaxPayloadBytes];
    const auto size = static_cast<std::size_t>(random.below(200));
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(random.next());
    if (size > 40) bytes[25] = 0;  // otherwise most numbers would be longer than permitted
    static EventDecoder decoder;
    Event event;
    Decoded result = decoder.begin(std::span(bytes).first(size));
    unsigned count = 0;
    while (result == Decoded::kOk && ++count < 70000) result = decoder.next(event);
    ASSERT_TRUE(result != Decoded::kOk) << "round " << round;
    ASSERT_TRUE(result == Decoded::kEnd || decoder.next(event) == Decoded::kMalformed) << "round " << round;
  }
}

TEST(Events, skip_and_count_what_a_later_minor_version_adds) {
  static std::uint8_t bytes[64];
  ByteWriter out(bytes);
  put_prefix(out, {1, 2});
  out.varint(0);         // hart
  out.varint(5);         // hart number
  out.varint(1000);      // ticks
  out.fixed(77, 4);      // global number
  out.fixed(3, 2);       // records
  out.byte(3 | 9 << 2);  // a note of kind 9
  out.varint(2);
  out.fixed(0xabcd, 2);
  out.byte(0x20);  // an allocation with rare fields
  out.byte(0x80);  // fields of a later version
  out.varint(0);
  out.varint(3);                 // source
  out.varint(0x1000 / 16 << 2);  // distance
  out.varint(4);
  out.fixed(0, 4);
  out.byte(0x81);  // a free of the same source
  out.varint(9);
  out.varint(0);
  out.byte(0xff);  // bytes after the records
  EventDecoder decoder;
  Event event;
  ASSERT_TRUE(decoder.begin(out.written()) == Decoded::kOk);
  ASSERT_TRUE(decoder.next(event) == Decoded::kOk);
  EXPECT_TRUE(event.operation == Operation::kAllocate);
  EXPECT_EQ(event.address, 0x1000u);
  EXPECT_EQ(event.hart_number, 5u);
  EXPECT_EQ(event.global_number, 77u);
  ASSERT_TRUE(decoder.next(event) == Decoded::kOk);
  EXPECT_TRUE(event.operation == Operation::kFree);
  EXPECT_EQ(event.address, 0x1000u);
  EXPECT_EQ(event.ticks, 1009u);
  EXPECT_EQ(event.hart_number, 6u);
  EXPECT_TRUE(decoder.next(event) == Decoded::kEnd);
  EXPECT_EQ(decoder.skipped(), 3u);
}

TEST(Events, a_full_payload_is_left_as_it_was) {
  const Sample& sent = sample(3, true);
  EXPECT_TRUE(sent.payload.size() <= kMaxPayloadBytes);
  EXPECT_TRUE(sent.payload.size() > kMaxPayloadBytes - EventEncoder::kMaxEventBytes);
  std::uint8_t none[8];
  EventEncoder encoder;
  encoder.begin(none, 1, 1, Event{});
  EXPECT_FALSE(encoder.add(Event{}));
  EXPECT_EQ(encoder.finish().size(), 0u);
}

TEST(Events, the_largest_takes_no_more_than_is_kept_free_for_one) {
  Event event;
  event.operation = Operation::kReallocate;
  event.ticks = UINT64_MAX;
  event.global_number = 5;
  event.context = event.source = event.stack = event.call_site = event.flags = UINT32_MAX;
  event.new_source = UINT32_MAX - 1;
  event.requested = event.allocated = UINT64_MAX - 1;
  event.address = (UINT64_MAX >> 1) + 2;
  event.new_address = 1;
  static std::uint8_t bytes[kMaxPayloadBytes];
  EventEncoder encoder;
  Event first = event;
  first.ticks = 0;
  first.global_number = 9;
  encoder.begin(bytes, 1, 1, first);
  const Event nothing = [] {
    Event zero;
    zero.global_number = 9;
    return zero;
  }();
  ASSERT_TRUE(encoder.add(nothing));
  const std::size_t before = encoder.finish().size();
  ASSERT_TRUE(encoder.add(event));
  EXPECT_TRUE(encoder.finish().size() - before <= EventEncoder::kMaxEventBytes) << encoder.finish().size() - before;
}

// At compile time: floating point is off on a target.
static_assert(sample_weight(16, 4096) == 256.0 && sample_weight(1024, 4096) == 4.0 && sample_weight(4096, 4096) == 1.0);
static_assert(sample_weight(100, 4096) > 40.959 && sample_weight(100, 4096) < 40.961);

TEST(Sampling, takes_as_many_as_the_size_says) {
  for (const std::uint64_t size : {16u, 100u, 4000u, 4096u, 9000u}) {
    const std::uint32_t threshold = sample_threshold(size, 4096);
    std::uint64_t taken = 0;
    constexpr std::uint32_t kObjects = 100000;
    for (std::uint32_t i = 0; i < kObjects; ++i) {
      taken += is_sampled(0x80400000 + std::uint64_t{i} * 48, 12345, threshold) ? 1u : 0u;
    }
    if (size >= 4096) {
      EXPECT_EQ(taken, kObjects);
    } else {
      const std::uint64_t expected = kObjects * size / 4096;
      EXPECT_TRUE(taken * 10 > expected * 8 && taken * 10 < expected * 12) << "size " << size << " taken " << taken;
    }
  }
  EXPECT_EQ(sample_threshold(1, UINT64_MAX), 0u);
  EXPECT_EQ(sample_threshold(0, 0), UINT32_MAX);
  EXPECT_EQ(sample_threshold(std::uint64_t{1} << 40, std::uint64_t{1} << 41), UINT32_MAX / 2);
}

}  // namespace wire_event_test
