#include <gtest/gtest.h>

#include <qm/wire/frame.hpp>
#include <qm/wire/stream.hpp>

namespace wire_stream_test {

using namespace qm::wire;

constexpr std::uint8_t kBuildId[20] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20};
constexpr std::uint32_t kClasses[] = {8, 16, 24, 32, 48, 64, 80, 4096, 65536};

StreamHeader header() {
  StreamHeader header;
  header.harts = 8;
  header.tick_rate = 10'000'000;
  header.start_ticks = 1'234'567;
  header.boot = 0xfedcba9876543210;
  header.from_boot = true;
  header.mode = StreamMode::kSampled;
  header.minimum_bytes = 100;
  header.sample_bytes = 4096;
  header.sample_seed = 0xdeadbeef;
  header.ring_bytes = 65536;
  header.build_id = kBuildId;
  header.pattern = "kmalloc_*";
  header.size_classes = kClasses;
  return header;
}

TEST(StreamHeader, comes_out_as_it_went_in) {
  static std::uint8_t bytes[kMaxPayloadBytes];
  ByteWriter out(bytes);
  ASSERT_TRUE(pack(out, {3, 0}, header()));
  StreamPrefix prefix;
  static StreamHeader read;
  std::uint32_t skipped = 0;
  ASSERT_TRUE(unpack(out.written(), prefix, read, skipped) == Decoded::kOk);
  EXPECT_EQ(prefix.stream, 3u);
  EXPECT_EQ(prefix.number, 0u);
  EXPECT_EQ(read.major, kSchemaMajor);
  EXPECT_EQ(read.harts, 8u);
  EXPECT_EQ(read.tick_rate, 10'000'000u);
  EXPECT_EQ(read.start_ticks, 1'234'567u);
  EXPECT_EQ(read.boot, 0xfedcba9876543210u);
  EXPECT_TRUE(read.from_boot);
  EXPECT_FALSE(read.big_endian);
  EXPECT_EQ(read.pointer_bytes, 8u);
  EXPECT_TRUE(read.mode == StreamMode::kSampled);
  EXPECT_EQ(read.minimum_bytes, 100u);
  EXPECT_EQ(read.sample_bytes, 4096u);
  EXPECT_EQ(read.sample_seed, 0xdeadbeefu);
  EXPECT_EQ(read.ring_bytes, 65536u);
  EXPECT_EQ(read.build_id.size(), 20u);
  EXPECT_EQ(read.build_id[19], 20u);
  EXPECT_TRUE(read.pattern == "kmalloc_*");
  ASSERT_EQ(read.class_count, 9u);
  for (unsigned i = 0; i < 9; ++i) EXPECT_EQ(read.classes[i], kClasses[i]);
  EXPECT_EQ(skipped, 0u);
}

TEST(StreamHeader, is_malformed_when_cut_and_of_another_major_version_and_longer_ones_are_counted) {
  static std::uint8_t bytes[kMaxPayloadBytes];
  ByteWriter out(bytes);
  ASSERT_TRUE(pack(out, {3, 0}, header()));
  StreamPrefix prefix;
  static StreamHeader read;
  std::uint32_t skipped = 0;
  for (std::size_t size = 0; size < out.written().size(); ++size) {
    ASSERT_TRUE(unpack(out.written().first(size), prefix, read, skipped) == Decoded::kMalformed) << "size " << size;
  }
  out.fixed(0, 3);
  bytes[7] = 9;  // a later minor version
  EXPECT_TRUE(unpack(out.written(), prefix, read, skipped) == Decoded::kOk);
  EXPECT_EQ(skipped, 1u);
  EXPECT_EQ(read.minor, 9u);
  bytes[6] = kSchemaMajor + 1;
  EXPECT_TRUE(unpack(out.written(), prefix, read, skipped) == Decoded::kMalformed);
}

TEST(Definitions, of_each_kind_come_out_as_they_went_in) {
  static Definition source, stack, site, context;
  source.number = 300;
  source.source_kind = SourceKind::kHeapClass;
  source.object_bytes = 96;
  source.allocated_bytes = 112;
  source.outstanding = 17;
  source.parent = 2;
  source.name = "kmalloc_96";
  stack.kind = DefinitionKind::kStack;
  stack.number = 4711;
  stack.id = 0x5a31c2e7;
  stack.truncated = true;
  stack.depth = 3;
  stack.frames[0] = 0x80204212;
  stack.frames[1] = 0x80201000;
  stack.frames[2] = UINT64_MAX;
  site.kind = DefinitionKind::kCallSite;
  site.number = 5;
  site.line = 41;
  site.name = "firmware/demo/net.cpp";
  site.module = "demo";
  site.function = "packet_alloc";
  context.kind = DefinitionKind::kContext;
  context.number = 9;
  context.name = "task net-rx";
  static std::uint8_t bytes[kMaxPayloadBytes];
  DefinitionEncoder encoder;
  encoder.begin(bytes, {1, 8});
  for (const Definition* each : {&source, &stack, &site, &context}) ASSERT_TRUE(encoder.add(*each));

  DefinitionDecoder decoder;
  StreamPrefix prefix;
  ASSERT_TRUE(decoder.begin(encoder.finish(), prefix) == Decoded::kOk);
  EXPECT_EQ(prefix.number, 8u);
  static Definition read;
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_TRUE(read.kind == DefinitionKind::kSource && read.source_kind == SourceKind::kHeapClass);
  EXPECT_EQ(read.number, 300u);
  EXPECT_EQ(read.object_bytes, 96u);
  EXPECT_EQ(read.allocated_bytes, 112u);
  EXPECT_EQ(read.outstanding, 17u);
  EXPECT_EQ(read.parent, 2u);
  EXPECT_TRUE(read.name == "kmalloc_96");
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_TRUE(read.kind == DefinitionKind::kStack);
  EXPECT_EQ(read.number, 4711u);
  EXPECT_EQ(read.id, 0x5a31c2e7u);
  EXPECT_TRUE(read.truncated);
  EXPECT_FALSE(read.collided);
  ASSERT_EQ(read.depth, 3u);
  for (unsigned i = 0; i < 3; ++i) EXPECT_EQ(read.frames[i], stack.frames[i]);
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_TRUE(read.kind == DefinitionKind::kCallSite && read.name == site.name && read.module == "demo");
  EXPECT_TRUE(read.function == "packet_alloc");
  EXPECT_EQ(read.line, 41u);
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_TRUE(read.kind == DefinitionKind::kContext && read.name == "task net-rx");
  EXPECT_TRUE(decoder.next(read) == Decoded::kEnd);
}

TEST(Definitions, that_do_not_fit_change_nothing_and_unknown_ones_are_skipped) {
  static std::uint8_t bytes[128];
  DefinitionEncoder encoder;
  encoder.begin(bytes, {1, 8});
  static Definition stack;
  stack.kind = DefinitionKind::kStack;
  stack.depth = kMaxStackFrames;
  for (unsigned i = 0; i < kMaxStackFrames; ++i) stack.frames[i] = i * 0x1000000001;
  EXPECT_FALSE(encoder.add(stack));
  EXPECT_EQ(encoder.finish().size(), 0u);
  ByteWriter out(bytes);
  put_prefix(out, {1, 8});
  out.byte(77);  // fields of a later version
  out.text("what it is");
  out.byte(4);  // a context with a field after its name
  out.varint(4);
  out.varint(1);
  out.text("a");
  out.byte(0);
  DefinitionDecoder decoder;
  StreamPrefix prefix;
  ASSERT_TRUE(decoder.begin(out.written(), prefix) == Decoded::kOk);
  static Definition read;
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_TRUE(read.name == "a");
  EXPECT_TRUE(decoder.next(read) == Decoded::kEnd);
  EXPECT_EQ(decoder.skipped(), 2u);
  for (std::size_t size = 0; size < out.written().size(); ++size) {
    Decoded result = decoder.begin(out.written().first(size), prefix);
    while (result == Decoded::kOk) result = decoder.next(read);
    // The position between two of them is also a valid end: the frame's length decides.
    ASSERT_TRUE(result == Decoded::kMalformed || size == 18) << "size " << size;
  }
}

TEST(Statistics, come_out_as_they_went_in) {
  static std::uint8_t bytes[kMaxPayloadBytes];
  StatisticsEncoder encoder;
  encoder.begin(bytes, {2, 9}, {.ticks = 777, .snapshot = 4, .first = true, .final = true});
  Statistic hart;
  hart.of_hart = true;
  hart.number = 7;
  hart.events = 1'000'000;
  hart.lost = 12;
  Statistic source;
  source.number = 130;
  source.allocations = 5'000'000'000;
  source.frees = 3;
  source.reallocations = 2;
  source.requested_bytes = UINT64_MAX;
  source.allocated_bytes = 90;
  source.freed_bytes = 80;
  ASSERT_TRUE(encoder.add(hart));
  ASSERT_TRUE(encoder.add(source));
  const auto payload = encoder.finish(true);
  StatisticsDecoder decoder;
  StreamPrefix prefix;
  StatisticsHead head;
  ASSERT_TRUE(decoder.begin(payload, prefix, head) == Decoded::kOk);
  EXPECT_TRUE(head.first && head.last && head.final);
  EXPECT_EQ(head.snapshot, 4u);
  EXPECT_EQ(head.ticks, 777u);
  Statistic read;
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_TRUE(read.of_hart);
  EXPECT_EQ(read.number, 7u);
  EXPECT_EQ(read.events, 1'000'000u);
  EXPECT_EQ(read.lost, 12u);
  ASSERT_TRUE(decoder.next(read) == Decoded::kOk);
  EXPECT_FALSE(read.of_hart);
  EXPECT_EQ(read.number, 130u);
  EXPECT_EQ(read.allocations, 5'000'000'000u);
  EXPECT_EQ(read.frees, 3u);
  EXPECT_EQ(read.reallocations, 2u);
  EXPECT_EQ(read.requested_bytes, UINT64_MAX);
  EXPECT_EQ(read.allocated_bytes, 90u);
  EXPECT_EQ(read.freed_bytes, 80u);
  EXPECT_TRUE(decoder.next(read) == Decoded::kEnd);
}

TEST(StreamEnd, and_what_a_host_sends_come_out_as_they_went_in) {
  std::uint8_t bytes[512];
  ByteWriter out(bytes);
  ASSERT_TRUE(pack(out, {2, 100}, StreamEnd{55, 1000, 10}));
  StreamPrefix prefix;
  StreamEnd end;
  std::uint32_t skipped = 0;
  ASSERT_TRUE(unpack(out.written(), prefix, end, skipped) == Decoded::kOk);
  EXPECT_EQ(prefix.number, 100u);
  EXPECT_EQ(end.ticks, 55u);
  EXPECT_EQ(end.events, 1000u);
  EXPECT_EQ(end.lost, 10u);

  out.rewind(0);
  Ask ask;
  ask.kind = static_cast<std::uint8_t>(DefinitionKind::kStack);
  ask.count = Ask::kMaxNumbers;
  for (std::uint32_t i = 0; i < ask.count; ++i) ask.numbers[i] = i * 1000;
  ASSERT_TRUE(pack(out, ask));
  Ask read;
  ASSERT_TRUE(unpack(out.written(), read) == Decoded::kOk);
  EXPECT_EQ(read.kind, 2u);
  ASSERT_EQ(read.count, Ask::kMaxNumbers);
  EXPECT_EQ(read.numbers[63], 63'000u);
  EXPECT_TRUE(unpack(out.written().first(40), read) == Decoded::kMalformed);
}

TEST(Varint, has_one_form_and_ends_at_64_bits) {
  for (const std::uint64_t value :
       {std::uint64_t{0}, std::uint64_t{127}, std::uint64_t{128}, std::uint64_t{UINT32_MAX}, UINT64_MAX}) {
    std::uint8_t bytes[kMaxVarintBytes];
    ByteWriter out(bytes);
    out.varint(value);
    ASSERT_TRUE(out.fits());
    ByteReader in(out.written());
    EXPECT_EQ(in.varint(), value);
    EXPECT_TRUE(in.good() && in.left() == 0);
    for (std::size_t size = 0; size < out.written().size(); ++size) {
      ByteReader cut(out.written().first(size));
      EXPECT_EQ(cut.varint(), 0u);
      EXPECT_FALSE(cut.good());
    }
  }
  const std::uint8_t padded[] = {0x81, 0x00};
  ByteReader first(padded);
  (void)first.varint();
  EXPECT_FALSE(first.good());
  const std::uint8_t longer[] = {0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x02};
  ByteReader second(longer);
  (void)second.varint();
  EXPECT_FALSE(second.good());
  EXPECT_EQ(from_zigzag(to_zigzag(INT64_MIN)), INT64_MIN);
  EXPECT_EQ(to_zigzag(-1), 1u);
}

}  // namespace wire_stream_test
