// The worked example of docs/protocol.md, read out of the document, is what the code sends.

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include <qm/wire/frame.hpp>

namespace {

using namespace qm::wire;

/// The bytes of the document's code block with the info word @p block.
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

TEST(Document, shows_the_status_that_is_sent) {
  EXPECT_EQ(dump_of("status"), sent({FrameType::kStatus, 41, 0x1234, pack(StatusPayload{CommandStatus::kOk, 0})}));
}

TEST(Document, shows_the_error_that_is_sent) {
  std::uint8_t room[64];
  const ErrorPayload payload{ProtocolError::kVersion, 1, name(ProtocolError::kVersion)};
  EXPECT_EQ(dump_of("error"), sent({FrameType::kError, 42, 0x1234, pack(payload, room)}));
}

}  // namespace
