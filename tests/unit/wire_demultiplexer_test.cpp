#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include <qm/test/seed.hpp>
#include <qm/wire/crc32.hpp>
#include <qm/wire/demultiplexer.hpp>

namespace wire_demultiplexer_test {

using namespace qm::wire;

constexpr std::size_t kPayloadRoom = 300;

/// A receiver's results for a stream, in order.
struct Received {
  std::string text;
  std::vector<std::string> frames;
  std::vector<Broken> broken;
  std::vector<std::uint32_t> broken_requests;
  std::uint32_t counted = 0;
};

class Receiver {
 public:
  void push(std::string_view bytes) {
    for (const char byte : bytes) take(demultiplexer_.push(static_cast<std::uint8_t>(byte)));
  }
  void timeout() { take(demultiplexer_.timeout()); }
  [[nodiscard]] bool waiting() const { return demultiplexer_.waiting(); }
  [[nodiscard]] const Received& result() {
    result_.counted = demultiplexer_.broken();
    return result_;
  }

 private:
  void take(const Demultiplexer::Step& step) {
    EXPECT_FALSE(step.frame && (step.broken != Broken::kNone || step.text_count != 0));
    if (step.frame) result_.frames.emplace_back(as_text(demultiplexer_.frame().payload));
    if (step.broken != Broken::kNone) {
      result_.broken.push_back(step.broken);
      result_.broken_requests.push_back(demultiplexer_.header().request);
    }
    result_.text.append(reinterpret_cast<const char*>(step.text), step.text_count);
  }

  std::vector<std::uint8_t> buffer_ = std::vector<std::uint8_t>(Demultiplexer::buffer_bytes(kPayloadRoom));
  Demultiplexer demultiplexer_{buffer_};
  Received result_;
};

Received receive(std::string_view bytes) {
  Receiver receiver;
  receiver.push(bytes);
  return receiver.result();
}

std::string frame(std::string_view payload, std::uint32_t request = 5) {
  std::string line(armoured_size(payload.size()), ' ');
  EXPECT_EQ(encode({FrameType::kRequest, 1, request, as_bytes(payload)}, line), line.size());
  return line;
}

std::string base64(std::string_view bytes) {
  static constexpr char kAlphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t k = 0; k < 3; ++k)
      group = group << 8 | (i + k < bytes.size() ? static_cast<std::uint8_t>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += i + k <= bytes.size() ? kAlphabet[group >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

/// A frame made by hand, so that any field can be wrong while the CRC is right.
std::string raw_frame(std::string inner) {
  Crc32 crc;
  crc.add(as_bytes(inner));
  for (unsigned shift = 0; shift < 32; shift += 8) inner += static_cast<char>(crc.value() >> shift & 255);
  return "\x1bPm" + base64(inner) + "\x1b\\";
}

TEST(Demultiplexer, passes_every_byte_outside_a_frame_as_text) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  all += "\x1b[A\x1b[1;5C\x1bOP\x1b\x1b[B arrows \x1b]0;title\x07";
  EXPECT_EQ(receive(all).text, all);
  EXPECT_EQ(receive(all).counted, 0u);
}

TEST(Demultiplexer, holds_a_lone_escape_until_the_next_byte_or_silence) {
  Receiver receiver;
  receiver.push("a\x1b");
  EXPECT_EQ(receiver.result().text, "a");
  EXPECT_TRUE(receiver.waiting());
  receiver.timeout();
  EXPECT_EQ(receiver.result().text, "a\x1b");
  EXPECT_FALSE(receiver.waiting());
  receiver.timeout();
  EXPECT_EQ(receiver.result().text, "a\x1b");
}

TEST(Demultiplexer, takes_text_and_frames_apart_in_any_mixture) {
  qm::test::Random random;
  for (int round = 0; round < 300; ++round) {
    Receiver receiver;
    std::string text, stream;
    std::vector<std::string> frames;
    for (int part = 0; part < 20; ++part) {
      std::string bytes;
      for (std::uint64_t n = random.below(random.chance(50) ? 8 : kPayloadRoom + 1); n > 0; --n) {
        bytes += static_cast<char>(random.below(256));
      }
      if (random.chance(50)) {
        stream += frame(bytes);
        frames.push_back(bytes);
      } else {
        for (char& byte : bytes) byte = byte == '\x1b' ? ' ' : byte;
        if (random.chance(30)) bytes += "\x1b[A";
        stream += bytes;
        text += bytes;
      }
    }
    receiver.push(stream);
    ASSERT_EQ(receiver.result().text, text) << "round " << round;
    ASSERT_EQ(receiver.result().frames, frames) << "round " << round;
    ASSERT_EQ(receiver.result().counted, 0u) << "round " << round;
  }
}

TEST(Demultiplexer, notices_every_change_of_one_byte_and_keeps_the_text_around) {
  const std::string before = "before\r\n", after = "qm> \x1b[A after";
  for (const std::string_view payload : {"", "h", "he", "help har", "ab?P?"}) {
    const std::string good = frame(payload);
    ASSERT_EQ(receive(before + good + after).text, before + after);
    for (std::size_t place = 0; place < good.size(); ++place) {
      for (int value = 0; value < 256; ++value) {
        if (static_cast<char>(value) == good[place]) continue;
        std::string bad = good;
        bad[place] = static_cast<char>(value);
        const Received got = receive(before + bad + after);
        ASSERT_EQ(got.frames.size(), 0u) << "place " << place << " value " << value;
        ASSERT_EQ(got.counted, 1u) << "place " << place << " value " << value;
        ASSERT_TRUE(got.text.starts_with(before) && got.text.ends_with(after))
            << "place " << place << " value " << value;
      }
    }
  }
}

TEST(Demultiplexer, notices_every_lost_byte_and_every_doubled_one) {
  const std::string good = frame("help harts");
  for (std::size_t place = 0; place < good.size(); ++place) {
    std::string shorter = good;
    shorter.erase(place, 1);
    const Received got = receive(shorter + "\r\nnext");
    ASSERT_EQ(got.frames.size(), 0u) << "place " << place;
    ASSERT_EQ(got.counted, 1u) << "place " << place;
    ASSERT_TRUE(got.text.ends_with("\r\nnext")) << "place " << place;
    // If the first or last byte is doubled, the frame stays intact: ESC ESC P m ... is the text ESC and a frame.
    if (place == 0 || place + 1 == good.size()) continue;
    std::string longer = good;
    longer.insert(place, 1, good[place]);
    const Received other = receive(longer + "\r\nnext");
    ASSERT_EQ(other.frames.size(), 0u) << "place " << place;
    ASSERT_GE(other.counted, 1u) << "place " << place;
  }
}

TEST(Demultiplexer, recovers_from_every_truncation_at_the_next_line_end_frame_or_silence) {
  const std::string good = frame("slab_trace print packet");
  for (std::size_t length = 3; length < good.size(); ++length) {
    const std::string cut = good.substr(0, length);
    const Received line = receive("a" + cut + "\r\nnext\r\n");
    ASSERT_EQ(line.text, "a\r\nnext\r\n") << "length " << length;
    ASSERT_EQ(line.counted, 1u) << "length " << length;

    const Received another = receive("a" + cut + good + "b");
    ASSERT_EQ(another.text, "ab") << "length " << length;
    ASSERT_EQ(another.frames.size(), 1u) << "length " << length;
    ASSERT_EQ(another.counted, 1u) << "length " << length;

    Receiver silent;
    silent.push("a" + cut);
    ASSERT_TRUE(silent.waiting());
    silent.timeout();
    silent.push("b");
    ASSERT_EQ(silent.result().text, "ab") << "length " << length;
    ASSERT_EQ(silent.result().counted, 1u) << "length " << length;
  }
}

TEST(Demultiplexer, gives_up_at_carriage_return_line_feed_and_control_c) {
  for (const std::string_view end : {"\r", "\n", "\x03"}) {
    for (const std::string_view begun : {"\x1bP", "\x1bPm", "\x1bPmAQID", "\x1bPq", "\x1bPm#"}) {
      const Received got = receive(std::string(begun) + std::string(end) + "help");
      EXPECT_EQ(got.text, std::string(end) + "help");
      EXPECT_EQ(got.broken, std::vector{Broken::kInterrupted});
    }
  }
}

TEST(Demultiplexer, names_the_reason) {
  std::string good = frame("help");
  EXPECT_EQ(receive("\x1bPq#0;2\x1b\\").broken, std::vector{Broken::kForeign});
  EXPECT_EQ(receive("\x1b\\").broken, std::vector{Broken::kTail});
  EXPECT_EQ(receive("\x1bPm\x1b\\").broken, std::vector{Broken::kLength});
  std::string bad = good;
  bad[8] = bad[8] == 'A' ? 'B' : 'A';
  EXPECT_EQ(receive(bad).broken, std::vector{Broken::kChecksum});
  bad[8] = '#';
  EXPECT_EQ(receive(bad).broken, std::vector{Broken::kCharacter});
  EXPECT_EQ(receive(good.substr(0, good.size() - 2) + "x").broken, std::vector<Broken>{});
  EXPECT_EQ(receive(good.substr(0, good.size() - 2) + "xy").broken, std::vector{Broken::kUnterminated});
  EXPECT_EQ(receive(good.substr(0, good.size() - 2) + "xy").text, "xy");
}

TEST(Demultiplexer, keeps_every_byte_behind_a_frame_without_its_terminator) {
  const std::string good = frame("help"), cut = good.substr(0, good.size() - 2);
  for (int value = 0; value < 256; ++value) {
    const auto byte = static_cast<char>(value);
    if (byte == '\x1b') continue;
    const std::string behind = byte + std::string("next\r\n");
    const Received got = receive("before\r\n" + cut + behind);
    EXPECT_EQ(got.text, "before\r\n" + behind) << "value " << value;
    EXPECT_EQ(got.broken, std::vector{Broken::kUnterminated}) << "value " << value;
    Receiver silent;
    silent.push(cut + byte);
    silent.timeout();
    EXPECT_EQ(silent.result().text, std::string(1, byte)) << "value " << value;
    // One byte and \ are a damaged terminator; a line end is none.
    const bool ends_a_line = byte == '\r' || byte == '\n' || byte == '\x03';
    EXPECT_EQ(receive(cut + byte + "\\").text, ends_a_line ? byte + std::string("\\") : "") << "value " << value;
  }
}

TEST(Demultiplexer, knows_the_request_of_a_frame_of_a_later_version) {
  const Received got = receive(raw_frame(std::string("\x03\x02\x01\x00\x34\x12\x00\x00\x02\x00"
                                                     "hi",
                                                     12)) +
                               "after");
  EXPECT_EQ(got.broken, std::vector{Broken::kVersion});
  EXPECT_EQ(got.broken_requests, std::vector<std::uint32_t>{0x1234});
  EXPECT_EQ(got.text, "after");
  // A frame of an earlier version is refused too, except when a capture is read.
  const std::string earlier(
      "\x01\x02\x01\x00\x34\x12\x00\x00\x02\x00"
      "hi",
      12);
  EXPECT_EQ(receive(raw_frame(earlier)).broken, std::vector{Broken::kVersion});
  std::uint8_t buffer[Demultiplexer::buffer_bytes(16)];
  Demultiplexer reader(buffer, Demultiplexer::Side::kHost, 1);
  bool taken = false;
  for (const char c : raw_frame(earlier)) taken = reader.push(static_cast<std::uint8_t>(c)).frame || taken;
  EXPECT_TRUE(taken);
}

TEST(Demultiplexer, reads_an_overlong_frame_to_its_end_and_knows_its_request) {
  EXPECT_EQ(receive(frame(std::string(kPayloadRoom, 'x'))).frames.size(), 1u);
  const Received got = receive(frame(std::string(kPayloadRoom + 1, 'x'), 77) + "after" + frame("next"));
  EXPECT_EQ(got.broken, std::vector{Broken::kTooLong});
  EXPECT_EQ(got.broken_requests, std::vector<std::uint32_t>{77});
  EXPECT_EQ(got.text, "after");
  EXPECT_EQ(got.frames, std::vector<std::string>{"next"});
}

TEST(Demultiplexer, refuses_a_length_that_is_not_the_frames) {
  for (const char announced : {'\x01', '\x03', '\x7f'}) {
    std::string inner(
        "\x01\x02\x01\x00\x34\x12\x00\x00\x02\x00"
        "hi",
        12);
    inner[8] = announced;
    const Received got = receive(raw_frame(inner) + "after");
    EXPECT_EQ(got.frames.size(), 0u);
    EXPECT_EQ(got.broken, std::vector{Broken::kLength});
    EXPECT_EQ(got.text, "after");
  }
}

TEST(Demultiplexer, survives_any_bytes_and_takes_the_next_line_and_frame) {
  qm::test::Random random;
  static constexpr char kLikely[] = "\x1b\x1bPm\\AQ=\r\n\x03 x";
  const std::string good = frame("help");
  for (int round = 0; round < 3000; ++round) {
    Receiver receiver;
    std::string noise;
    for (std::uint64_t n = random.below(60); n > 0; --n) {
      noise += random.chance(70) ? kLikely[random.below(sizeof kLikely - 1)] : static_cast<char>(random.below(256));
      if (random.chance(3)) noise += good.substr(0, random.below(good.size()));
    }
    receiver.push(noise);
    if (random.chance(50)) {
      receiver.timeout();
    } else {
      receiver.push("\n");
    }
    const std::size_t frames = receiver.result().frames.size();
    receiver.push(good + "text\r");
    ASSERT_TRUE(receiver.result().text.ends_with("text\r")) << "round " << round;
    ASSERT_EQ(receiver.result().frames.size(), frames + 1) << "round " << round;
  }
}

// ---- raw frames -----------------------------------------------------------------------------------------------------

std::string raw(std::string_view payload, std::uint32_t request = 5) {
  std::string line(raw_size(payload.size()), ' ');
  line.resize(encode_raw({FrameType::kRequest, 1, request, as_bytes(payload)}, line));
  return line;
}

/// The frame that announces raw frames, or ends them.
std::string form(bool is_raw) {
  const auto payload = pack(LineForm{is_raw});
  std::string line(armoured_size(payload.size()), ' ');
  EXPECT_EQ(encode({FrameType::kForm, 0, 1, payload}, line), line.size());
  return line;
}

/// @returns a receiver's results for @p bytes after raw frames have been announced.
Received receive_raw(std::string_view bytes) {
  Received received = receive(form(true) + std::string(bytes));
  EXPECT_FALSE(received.frames.empty());
  received.frames.erase(received.frames.begin());
  return received;
}

TEST(RawFrame, comes_out_as_it_went_in_for_every_payload) {
  qm::test::Random random;
  std::vector<std::uint8_t> buffer(Demultiplexer::buffer_bytes(kMaxPayloadBytes));
  Demultiplexer demultiplexer(buffer);
  for (const char byte : form(true)) (void)demultiplexer.push(static_cast<std::uint8_t>(byte));
  ASSERT_TRUE(demultiplexer.raw());
  for (std::size_t size = 0; size <= kMaxPayloadBytes; ++size) {
    // No zeroes, few or many: runs of every length, including 254 bytes.
    const unsigned zeroes = static_cast<unsigned>(size % 3) * 30;
    std::string payload(size, 'x');
    for (char& byte : payload) byte = random.chance(zeroes) ? '\0' : static_cast<char>(random.between(1, 255));
    const std::string line = raw(payload);
    EXPECT_EQ(line.find('\0'), line.size() - 1);
    for (std::size_t i = 0; i < line.size(); ++i) {
      const auto step = demultiplexer.push(static_cast<std::uint8_t>(line[i]));
      ASSERT_EQ(step.text_count, 0u);
      ASSERT_TRUE(step.broken == Broken::kNone) << size;
      ASSERT_EQ(step.frame, i + 1 == line.size()) << size;
    }
    ASSERT_EQ(as_text(demultiplexer.frame().payload), payload);
  }
}

TEST(RawFrame, is_text_until_it_is_announced_and_after_that_is_taken_back) {
  const std::string line = raw("payload");
  EXPECT_EQ(receive(line).text, line);
  const Received between = receive_raw(std::string(1, 'a').append(line).append("b"));
  EXPECT_EQ(between.frames, std::vector<std::string>{"payload"});
  EXPECT_EQ(between.text, "ab");
  const Received after = receive_raw(form(false) + line);
  EXPECT_EQ(after.text, line);
  EXPECT_EQ(after.frames.size(), 1u);  // the frame that announces the form
}

TEST(RawFrame, stands_beside_armoured_ones_and_text) {
  const Received received = receive_raw("one\r\n" + raw("a") + frame("b") + "two\r\n" + raw("c") + raw("") + frame(""));
  EXPECT_EQ(received.text, "one\r\ntwo\r\n");
  EXPECT_EQ(received.frames, (std::vector<std::string>{"a", "b", "c", "", ""}));
  EXPECT_EQ(received.counted, 0u);
}

TEST(RawFrame, has_a_zero_that_ends_armoured_ones_too) {
  const std::string good = frame("armoured");
  for (std::size_t length = 3; length + 2 <= good.size(); ++length) {
    std::string line = good.substr(0, length);
    line.append(1, '\0').append("text").append(raw("next"));
    const Received received = receive_raw(line);
    EXPECT_EQ(received.text, "text") << length;
    EXPECT_EQ(received.frames, std::vector<std::string>{"next"}) << length;
    EXPECT_EQ(received.counted, 1u) << length;
  }
}

TEST(RawFrame, never_comes_out_with_a_byte_changed) {
  std::string payload("\x00\x01\xff payload \x00\x1bPm", 17);
  payload += std::string(260, 'y');
  const std::string good = raw(payload);
  constexpr std::size_t kEnd = 40;  // bytes at either end of the frame; those between are alike
  for (std::size_t place = 0; place < good.size(); ++place) {
    const bool between = place >= kEnd && place + kEnd < good.size() && place % 32 != 0;
    for (int change = 1; change < 256; ++change) {
      std::string bad = good;
      bad[place] = static_cast<char>(bad[place] ^ change);
      if (between && bad[place] != '\0' && (change & (change - 1)) != 0) continue;  // every change of one bit, and to 0
      const Received received = receive_raw(bad + "\r\n" + raw("x") + raw("last"));
      for (const std::string& each : received.frames)
        ASSERT_TRUE(each == "x" || each == "last") << place << " " << change;
      ASSERT_FALSE(received.frames.empty()) << place << " " << change;
      ASSERT_EQ(received.frames.back(), "last") << place << " " << change;
      ASSERT_GE(received.counted, 1u) << place << " " << change;
    }
  }
}

TEST(RawFrame, that_is_cut_short_costs_at_most_the_next_one) {
  const std::string good = raw(std::string("\x00 one \x1bPm two \x1b\\", 17));
  for (std::size_t from = 0; from < good.size(); ++from) {
    for (std::size_t to = from + 1; to <= good.size(); ++to) {
      std::string bad = good;
      bad.erase(from, to - from);
      const Received received = receive_raw(bad + raw("x") + "text\r\n" + raw("last"));
      ASSERT_EQ(received.frames.back(), "last") << from << " " << to;
      ASSERT_TRUE(received.text.ends_with("text\r\n")) << from << " " << to;
    }
  }
}

TEST(RawFrame, without_its_end_is_given_up_after_as_much_as_a_frame_can_have) {
  std::string line(1, static_cast<char>(kRawBegin));
  line.append(kMaxFrameBytes + 8, '\x02').append("\r\ntext\r\n").append(raw("last"));
  const Received received = receive_raw(line);
  EXPECT_TRUE(received.text.ends_with("text\r\n"));
  EXPECT_EQ(received.frames, std::vector<std::string>{"last"});
}

}  // namespace wire_demultiplexer_test
