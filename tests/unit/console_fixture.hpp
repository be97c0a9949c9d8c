#pragma once
/// A console with the trace, on a terminal whose bytes the test writes and reads.

#include "console_terminal.hpp"

#include <gtest/gtest.h>

#include <qm/console/trace.hpp>
#include <qm/wire/row.hpp>

namespace qm::test {

struct Bench {
  FakeTerminal terminal;
  console::Console console{terminal, test_config()};
  console::Trace trace{console};
  std::uint16_t sequence = 0;
  std::string banner;

  Bench() {
    console.start();
    banner = std::exchange(terminal.raw, {});
    terminal.text.clear();
  }

  /// Feeds @p bytes and returns the text of the answer.
  std::string type(std::string_view bytes) {
    terminal.text.clear();
    console.feed(bytes);
    console.poll();
    return terminal.text;
  }

  /// Types @p line and returns the command's output: the text between its echo and the next prompt.
  std::string command(std::string_view line) {
    std::string all = type(std::string(line) + "\r");
    const std::string echo = std::string(line) + "\r\n";
    EXPECT_EQ(all.substr(0, echo.size()), echo);
    EXPECT_TRUE(all.size() >= 4 && all.substr(all.size() - 4) == "qm> ") << all;
    return all.substr(echo.size(), all.size() - 4 - echo.size());
  }

  std::string frame(wire::FrameType type, std::uint32_t request, std::string_view payload) {
    char out[wire::armoured_size(wire::kMaxPayloadBytes)];
    const std::size_t length = wire::encode(
        {.type = type, .sequence = sequence++, .request = request, .payload = wire::as_bytes(payload)}, out);
    return {out, length};
  }

  struct Answer {
    std::string output;
    std::uint32_t status = ~0u;
    std::size_t frames = 0;
  };

  /// Sends @p line as a request for rows. @returns one line for each row, `kind name=value ...`, and at the end `status
  /// N`; no text may come.
  std::string rows(std::string_view line, std::uint32_t id = 78) {
    terminal.frames.clear();
    EXPECT_EQ(type(frame(wire::FrameType::kRowRequest, id, line)), "");
    std::string text;
    for (const auto& one : terminal.frames) {
      wire::StatusPayload status;
      if (one.type == wire::FrameType::kStatus && wire::unpack(wire::as_bytes(one.payload), status)) {
        text += "status " + std::to_string(static_cast<unsigned>(status.status)) + "\n";
        continue;
      }
      EXPECT_EQ(one.type, wire::FrameType::kRow);
      wire::RowReader reader(wire::as_bytes(one.payload));
      text += reader.kind();
      for (wire::Field field; reader.next(field);) {
        text += ' ' + std::string(field.name) + '=';
        text += field.type == wire::FieldType::kText ? std::string(field.text) : std::to_string(field.number);
      }
      EXPECT_TRUE(reader.good());
      text += '\n';
    }
    return text;
  }

  /// Sends @p line as a request and returns its answer; no text may come.
  Answer request(std::string_view line, std::uint32_t id = 77) {
    terminal.frames.clear();
    EXPECT_EQ(type(frame(wire::FrameType::kRequest, id, line)), "");
    Answer answer;
    for (const auto& one : terminal.frames) {
      EXPECT_EQ(one.request, id);
      ++answer.frames;
      if (one.type == wire::FrameType::kOutput) answer.output += one.payload;
      if (one.type == wire::FrameType::kStatus) {
        wire::StatusPayload status;
        EXPECT_TRUE(wire::unpack(wire::as_bytes(one.payload), status));
        answer.status = static_cast<std::uint32_t>(status.status);
        EXPECT_EQ(&one, &terminal.frames.back());
      }
    }
    return answer;
  }
};

}  // namespace qm::test
