// Malformed frames: each is answered with one error frame and has no other effect, and text and frames stay separate.

#include "machine.hpp"

#include <string>

#include <qm/test/seed.hpp>

namespace console_frames_test {

using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::CommandStatus;
using qm::wire::FrameType;
using qm::wire::ProtocolError;

class Frames : public MachineTest {
 protected:
  /// Sends @p bytes and expects exactly this error frame and no other.
  static void expect_error(std::string_view bytes, ProtocolError error, std::uint32_t request) {
    machine().clear();
    machine().send(bytes);
    ASSERT_TRUE(machine().wait([] { return !machine().errors().empty(); })) << "no error frame";
    machine().settle(std::chrono::milliseconds(100));
    ASSERT_EQ(machine().errors().size(), 1u);
    EXPECT_EQ(machine().errors().front(), error);
    for (const Machine::Received& frame : machine().frames()) {
      EXPECT_EQ(frame.type, FrameType::kError);
      EXPECT_EQ(frame.request, request);
    }
  }
};

/// @returns the armour around @p inner, which may be malformed.
std::string armoured(std::string_view inner) {
  static constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out = "\x1bPm";
  for (std::size_t at = 0; at < inner.size(); at += 3) {
    std::uint32_t bits = 0;
    for (std::size_t byte = 0; byte < 3; ++byte) {
      bits = bits << 8 | (at + byte < inner.size() ? static_cast<std::uint8_t>(inner[at + byte]) : 0u);
    }
    for (std::size_t digit = 0; digit < 4; ++digit) {
      out += at + digit > inner.size() ? '=' : kDigits[bits >> (18 - 6 * digit) & 63];
    }
  }
  return out + "\x1b\\";
}

constexpr std::uint8_t kVersion = 2;

/// @returns an intact frame, made without the library's encoder.
std::string raw_frame(std::uint8_t version, std::uint8_t type, std::uint32_t request, std::string_view payload) {
  std::string inner;
  const auto put = [&](std::uint32_t value, unsigned bytes) {
    for (unsigned at = 0; at < bytes; ++at) inner += static_cast<char>(value >> 8 * at & 0xff);
  };
  put(version, 1);
  put(type, 1);
  put(0, 2);
  put(request, 4);
  put(static_cast<std::uint32_t>(payload.size()), 2);
  inner += payload;
  std::uint32_t crc = 0xffff'ffff;  // bit by bit: the reference form of CRC-32
  for (const char c : inner) {
    crc ^= static_cast<std::uint8_t>(c);
    for (unsigned bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb8'8320u : 0u);
  }
  put(~crc, 4);
  return armoured(inner);
}

TEST_F(Frames, a_request_is_answered_and_prints_nothing_as_text) {
  machine().clear();
  const Machine::Answer answer = machine().request("frobnicate");
  EXPECT_EQ(answer.text, "error: unknown command \"frobnicate\" (try help)\n");
  EXPECT_EQ(answer.status, CommandStatus::kUnknownCommand);
  EXPECT_EQ(machine().request("version extra").status, CommandStatus::kUsage);
  machine().settle();
  EXPECT_EQ(machine().text(), "");
}

TEST_F(Frames, a_hand_made_request_is_understood) {
  machine().clear();
  machine().send(raw_frame(kVersion, 2, 0x1234, "version"));
  ASSERT_TRUE(machine().wait([] { return machine().answer_to(0x1234).answered; }));
  EXPECT_EQ(machine().answer_to(0x1234).status, CommandStatus::kOk);
}

// Version 1 did not send the subject of its rows, or a build id in the hello.
TEST_F(Frames, a_frame_of_the_last_version_or_a_later_one_is_refused_by_number) {
  expect_error(raw_frame(1, 1, 76, std::string("\1\0\0\4qm", 6)), ProtocolError::kVersion, 76);
  expect_error(raw_frame(kVersion + 1, 2, 77, "version"), ProtocolError::kVersion, 77);
  expect_error(raw_frame(255, 9, 78, std::string(300, 'x')), ProtocolError::kVersion, 78);
  expect_it_still_works();
}

TEST_F(Frames, an_unknown_type_is_refused) {
  for (const std::uint8_t type : {0, 9, 10, 15, 16, 255})
    expect_error(raw_frame(kVersion, type, 5, "x"), ProtocolError::kUnknownType, 5);
  expect_it_still_works();
}

TEST_F(Frames, a_request_that_is_no_command_line_is_refused) {
  expect_error(raw_frame(kVersion, 2, 5, ""), ProtocolError::kMalformed, 5);
  expect_error(raw_frame(kVersion, 2, 6, "version\r"), ProtocolError::kMalformed, 6);
  expect_error(raw_frame(kVersion, 8, 6, "version\r"), ProtocolError::kMalformed, 6);
  expect_error(raw_frame(kVersion, 2, 7, std::string("ver\0sion", 8)), ProtocolError::kMalformed, 7);
  expect_error(raw_frame(kVersion, 2, 0, "version"), ProtocolError::kMalformed, 0);
  expect_error(raw_frame(kVersion, 2, 8, std::string(256, 'x')), ProtocolError::kTooLong, 8);
  expect_error(raw_frame(kVersion, 1, 9, ""), ProtocolError::kMalformed, 9);
  expect_error(raw_frame(kVersion, 6, 9, "x"), ProtocolError::kMalformed, 9);
  expect_it_still_works();
}

TEST_F(Frames, one_changed_byte_anywhere_is_noticed_and_nothing_is_done) {
  const std::string intact = raw_frame(kVersion, 2, 42, "version");
  qm::test::Random random;
  // The introducer's bytes are not changed here: without them the frame is text, see below.
  for (std::size_t place = 3; place + 2 < intact.size(); ++place) {
    std::string broken = intact;
    char byte = intact[place];
    while (byte == intact[place] || byte == '\x1b' || byte == '\r' || byte == '\n' || byte == '\x03') {
      byte = static_cast<char>(random.below(256));
    }
    broken[place] = byte;
    SCOPED_TRACE("byte " + std::to_string(place));
    expect_error(broken, ProtocolError::kDamaged, 0);
    if (HasFailure()) return;
  }
  expect_it_still_works();
}

TEST_F(Frames, a_frame_cut_short_anywhere_is_given_up_after_a_silence) {
  const std::string intact = raw_frame(kVersion, 2, 43, "version");
  for (std::size_t length = 3; length < intact.size(); length += 3) {
    SCOPED_TRACE("length " + std::to_string(length));
    expect_error(intact.substr(0, length), ProtocolError::kDamaged, 0);
    EXPECT_TRUE(machine().type_line("version").starts_with("Quartermaster "));
    if (HasFailure()) return;
  }
  expect_it_still_works();
}

TEST_F(Frames, a_frame_right_behind_a_cut_one_is_taken) {
  const std::string intact = raw_frame(kVersion, 2, 44, "version");
  for (std::size_t length = 1; length < intact.size() - 2; length += 5) {
    machine().clear();
    machine().send(intact.substr(0, length) + raw_frame(kVersion, 2, 45, "version"));
    ASSERT_TRUE(machine().wait([] { return machine().answer_to(45).answered; })) << "length " << length;
    EXPECT_FALSE(machine().answer_to(44).answered);
    machine().settle(std::chrono::milliseconds(50));
  }
  expect_it_still_works();
}

TEST_F(Frames, a_request_in_the_middle_of_a_typed_line_leaves_the_line_alone) {
  machine().clear();
  machine().send("vers");
  ASSERT_TRUE(machine().wait_for_text("vers"));
  EXPECT_EQ(machine().request("version").status, CommandStatus::kOk);
  machine().settle();
  EXPECT_EQ(machine().text(), "vers");
  EXPECT_TRUE(machine().type_line("ion").starts_with("Quartermaster "));
}

TEST_F(Frames, one_request_waits_a_further_one_is_refused_and_ctrl_c_aborts) {
  machine().clear();
  const std::uint32_t running = machine().next_request();
  const std::uint32_t waiting = machine().next_request();
  const std::uint32_t refused = machine().next_request();
  machine().send(machine().frame(FrameType::kRequest, running, "workload run churn 100000000"));
  machine().settle(std::chrono::milliseconds(1000));
  machine().send(machine().frame(FrameType::kRequest, waiting, "version"));
  machine().send(machine().frame(FrameType::kRequest, refused, "version"));
  ASSERT_TRUE(machine().wait([] { return !machine().errors().empty(); }));
  EXPECT_EQ(machine().errors().front(), ProtocolError::kBusy);
  EXPECT_FALSE(machine().answer_to(running).answered);
  EXPECT_FALSE(machine().answer_to(waiting).answered);
  machine().send("\x03");
  ASSERT_TRUE(machine().wait([&] { return machine().answer_to(waiting).answered; }));
  EXPECT_EQ(machine().answer_to(running).status, CommandStatus::kAborted);
  EXPECT_EQ(machine().answer_to(waiting).status, CommandStatus::kOk);
  EXPECT_FALSE(machine().answer_to(refused).answered);
  expect_it_still_works();
}

TEST_F(Frames, sequence_numbers_of_the_target_have_no_gap) {
  machine().clear();
  for (unsigned round = 0; round < 20; ++round) (void)machine().request("help");
  const auto& frames = machine().frames();
  for (std::size_t at = 1; at < frames.size(); ++at) {
    EXPECT_EQ(frames[at].sequence, static_cast<std::uint16_t>(frames[at - 1].sequence + 1)) << "frame " << at;
  }
  EXPECT_EQ(machine().broken_frames(), 0u);
}

}  // namespace console_frames_test
