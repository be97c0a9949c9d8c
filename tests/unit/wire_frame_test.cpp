#include <gtest/gtest.h>

#include <qm/wire/crc32.hpp>
#include <qm/wire/demultiplexer.hpp>
#include <qm/wire/frame.hpp>

namespace wire_frame_test {

using namespace qm::wire;

bool same(std::span<const std::uint8_t> left, std::span<const std::uint8_t> right) {
  if (left.size() != right.size()) return false;
  for (std::size_t i = 0; i < left.size(); ++i) {
    if (left[i] != right[i]) return false;
  }
  return true;
}

TEST(Crc32, has_the_check_value_of_iso_hdlc) {
  Crc32 crc;
  EXPECT_EQ(crc.value(), 0u);
  crc.add(as_bytes("123456789"));
  EXPECT_EQ(crc.value(), 0xcbf43926u);
}

TEST(Crc32, over_a_message_with_its_crc_is_the_residue) {
  Crc32 crc;
  crc.add(as_bytes("123456789"));
  for (const std::uint8_t byte : {0x26, 0x39, 0xf4, 0xcb}) crc.add(byte);
  EXPECT_EQ(crc.value(), Crc32::kResidue);
}

TEST(Frame, comes_out_as_it_went_in_for_every_payload_length) {
  static std::uint8_t payload[kMaxPayloadBytes];
  static char line[armoured_size(kMaxPayloadBytes)];
  static std::uint8_t buffer[kMaxFrameBytes];
  for (std::size_t i = 0; i < sizeof payload; ++i) payload[i] = static_cast<std::uint8_t>(i * 37 + (i >> 8));
  for (std::size_t size = 0; size <= kMaxPayloadBytes; ++size) {
    const Frame sent{FrameType::kOutput, static_cast<std::uint16_t>(size * 257),
                     static_cast<std::uint32_t>(size * 0x10001 + 1), std::span(payload).first(size)};
    const std::size_t length = encode(sent, line);
    ASSERT_EQ(length, armoured_size(size));
    Demultiplexer demultiplexer(buffer);
    for (std::size_t i = 0; i < length; ++i) {
      const auto step = demultiplexer.push(static_cast<std::uint8_t>(line[i]));
      ASSERT_EQ(step.text_count, 0u);
      ASSERT_TRUE(step.broken == Broken::kNone);
      ASSERT_EQ(step.frame, i + 1 == length) << "size " << size << " place " << i;
    }
    const Frame& received = demultiplexer.frame();
    ASSERT_TRUE(received.type == sent.type);
    ASSERT_EQ(received.sequence, sent.sequence);
    ASSERT_EQ(received.request, sent.request);
    ASSERT_TRUE(same(received.payload, sent.payload)) << "size " << size;
  }
}

TEST(Frame, is_refused_whole_when_the_payload_is_too_long_or_the_room_too_short) {
  static std::uint8_t payload[kMaxPayloadBytes + 1];
  static char line[armoured_size(kMaxPayloadBytes + 1)];
  EXPECT_EQ(encode({FrameType::kOutput, 0, 1, payload}, line), 0u);
  unsigned pieces = 0;
  EXPECT_FALSE(emit({FrameType::kOutput, 0, 1, payload}, [&](std::string_view) { ++pieces; }));
  EXPECT_EQ(pieces, 0u);
  line[0] = '!';
  const Frame frame{FrameType::kOutput, 0, 1, as_bytes("abcd")};
  EXPECT_EQ(encode(frame, std::span(line).first(armoured_size(4) - 1)), 0u);
  EXPECT_EQ(line[0], '!');
  EXPECT_EQ(encode(frame, std::span(line).first(armoured_size(4))), armoured_size(4));
}

TEST(Frame, has_no_control_character_but_its_two_escapes) {
  std::uint8_t payload[32];
  for (std::size_t i = 0; i < sizeof payload; ++i) payload[i] = static_cast<std::uint8_t>(i);
  unsigned controls = 0;
  ASSERT_TRUE(emit({FrameType::kRequest, 3, 27, payload}, [&](std::string_view piece) {
    for (const char character : piece) controls += character < 0x20 || character == 0x7f ? 1 : 0;
  }));
  EXPECT_EQ(controls, 2u);
}

TEST(Payload, status_hello_and_error_are_read_as_they_were_written) {
  StatusPayload status;
  ASSERT_TRUE(unpack(pack(StatusPayload{CommandStatus::kAborted, kOutputDropped}), status));
  EXPECT_TRUE(status.status == CommandStatus::kAborted);
  EXPECT_EQ(status.flags, 1u);

  std::uint8_t room[64];
  HelloPayload hello;
  ASSERT_TRUE(
      unpack(pack(HelloPayload{.max_payload_bytes = 255, .build_id = "", .text = "Quartermaster"}, room), hello));
  EXPECT_EQ(hello.version, kProtocolVersion);
  EXPECT_FALSE(hello.from_target);
  EXPECT_TRUE(hello.build_id.empty());
  ASSERT_TRUE(unpack(
      pack(HelloPayload{.from_target = true, .max_payload_bytes = 9, .build_id = "cafe01", .text = "q"}, room), hello));
  EXPECT_TRUE(hello.from_target);
  EXPECT_TRUE(hello.build_id == "cafe01" && hello.text == "q");
  EXPECT_FALSE(unpack(std::span<const std::uint8_t>(room).first(10), hello)) << "within the build id";
  ASSERT_TRUE(
      unpack(pack(HelloPayload{.max_payload_bytes = 255, .build_id = "", .text = "Quartermaster"}, room), hello));
  EXPECT_EQ(hello.max_payload_bytes, 255u);
  EXPECT_TRUE(hello.text == "Quartermaster");

  ErrorPayload error;
  ASSERT_TRUE(unpack(pack(ErrorPayload{ProtocolError::kBusy, 1, name(ProtocolError::kBusy)}, room), error));
  EXPECT_TRUE(error.error == ProtocolError::kBusy);
  EXPECT_EQ(error.version, 1u);
  EXPECT_TRUE(error.text == name(ProtocolError::kBusy));
}

TEST(Payload, text_is_cut_where_the_room_ends_and_a_short_payload_is_refused) {
  std::uint8_t room[8];
  EXPECT_EQ(pack(HelloPayload{.max_payload_bytes = 255, .build_id = "", .text = "Quartermaster"}, room).size(), 8u);
  EXPECT_EQ(
      pack(HelloPayload{.max_payload_bytes = 255, .build_id = "", .text = "Quartermaster"}, std::span(room).first(3))
          .size(),
      0u);
  HelloPayload hello;
  ErrorPayload error;
  StatusPayload status;
  EXPECT_FALSE(unpack(std::span(room).first(3), hello));
  EXPECT_FALSE(unpack(std::span(room).first(3), error));
  EXPECT_FALSE(unpack(std::span(room).first(7), status));
}

TEST(Command, is_1_to_255_characters_without_control_characters) {
  static char text[kMaxCommandBytes + 1];
  for (char& character : text) character = 'a';
  EXPECT_FALSE(is_command(""));
  EXPECT_TRUE(is_command("a"));
  EXPECT_TRUE(is_command({text, kMaxCommandBytes}));
  EXPECT_FALSE(is_command({text, kMaxCommandBytes + 1}));
  EXPECT_FALSE(is_command("help\n"));
  EXPECT_FALSE(is_command("\x1b[A"));
  EXPECT_FALSE(is_command("a\x7f"));
  EXPECT_TRUE(is_command("caf\xc3\xa9"));
}

TEST(SequenceCheck, counts_what_is_missing_across_the_wrap) {
  SequenceCheck check;
  EXPECT_EQ(check.lost_before(65534), 0u);
  EXPECT_EQ(check.lost_before(65535), 0u);
  EXPECT_EQ(check.lost_before(0), 0u);
  EXPECT_EQ(check.lost_before(3), 2u);
  EXPECT_EQ(check.lost_before(2), 65534u);
}

}  // namespace wire_frame_test
