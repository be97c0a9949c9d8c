// The code sends exactly the bytes of the worked example in docs/protocol.md, which the test reads.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include <qm/wire/event.hpp>
#include <qm/wire/frame.hpp>

namespace wire_protocol_test {

using namespace qm::wire;

/// @returns the bytes of the document's code block with the info word @p block.
std::string dump_of(const std::string& block) {
  std::ifstream document(QM_PROTOCOL_DOCUMENT);
  std::string line, bytes;
  while (std::getline(document, line) && line != "```" + block) {
  }
  while (std::getline(document, line) && line != "```") {
    std::istringstream words(line);
    for (std::string word; words >> word;) bytes += static_cast<char>(std::stoi(word, nullptr, 16));
  }
  return bytes;
}

std::string sent(const Frame& frame) {
  std::string line(armoured_size(frame.payload.size()), ' ');
  line.resize(encode(frame, line));
  return line;
}

TEST(Document, shows_the_request_that_is_sent) {
  EXPECT_EQ(dump_of("request"), sent({FrameType::kRequest, 7, 0x1234, as_bytes("help")}));
}

TEST(Document, shows_the_output_that_is_sent) {
  EXPECT_EQ(dump_of("output"), sent({FrameType::kOutput, 40, 0x1234, as_bytes("ok\n")}));
}

TEST(Document, shows_the_output_that_is_sent_raw_and_what_announces_it) {
  EXPECT_EQ(dump_of("form"), sent({FrameType::kForm, 39, 5, pack(LineForm{true})}));
  std::string line(raw_size(3), ' ');
  line.resize(encode_raw({FrameType::kOutput, 40, 0x1234, as_bytes("ok\n")}, line));
  EXPECT_EQ(dump_of("raw"), line);
}

TEST(Document, shows_the_status_that_is_sent) {
  EXPECT_EQ(dump_of("status"), sent({FrameType::kStatus, 41, 0x1234, pack(StatusPayload{CommandStatus::kOk, 0})}));
}

TEST(Document, shows_the_error_that_is_sent) {
  std::uint8_t room[64];
  const ErrorPayload payload{ProtocolError::kVersion, kProtocolVersion, name(ProtocolError::kVersion)};
  EXPECT_EQ(dump_of("error"), sent({FrameType::kError, 42, 0x1234, pack(payload, room)}));
}

Event worked_event(Operation operation, std::uint64_t number, std::uint32_t global, std::uint64_t ticks) {
  Event event;
  event.operation = operation;
  event.hart = 1;
  event.hart_number = number;
  event.global_number = global;
  event.ticks = ticks;
  event.context = 2;
  event.source = 3;
  event.address = 0x80401000;
  return event;
}

TEST(Document, shows_the_events_that_are_sent_and_reads_them) {
  Event taken = worked_event(Operation::kAllocate, 10, 300, 1'000'000);
  taken.requested = 100;
  taken.stack = 7;
  const Event freed = worked_event(Operation::kFree, 11, 301, 1'000'012);
  Event lost;
  lost.operation = Operation::kLost;
  lost.hart = 1;
  lost.hart_number = 12;
  lost.global_number = 302;
  lost.ticks = 1'000'012;
  lost.lost = 2;
  Event other = worked_event(Operation::kFree, 14, 306, 1'000'017);
  other.source = 5;
  other.address = 0x80401110;
  const Event all[] = {taken, freed, lost, other};

  std::uint8_t room[kMaxPayloadBytes];
  EventEncoder encoder;
  encoder.begin(room, 1, 5, taken);
  for (const Event& each : all) ASSERT_TRUE(encoder.add(each));
  EXPECT_EQ(dump_of("events"), std::string(as_text(encoder.finish())));

  const std::string bytes = dump_of("events");
  EventDecoder decoder;
  ASSERT_EQ(decoder.begin(as_bytes(bytes)), Decoded::kOk);
  for (const Event& each : all) {
    Event event;
    ASSERT_EQ(decoder.next(event), Decoded::kOk);
    EXPECT_TRUE(event == each);
  }
  Event event;
  EXPECT_EQ(decoder.next(event), Decoded::kEnd);
}

}  // namespace wire_protocol_test
