// Captures: the reader returns what was written, and detects every change of a file.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <vector>

#include <qm/host/capture.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/read_file.hpp>
#include <qm/test/seed.hpp>

namespace host_capture_test {

using namespace qm::host;
using qm::test::read_file;

/// All positions of a sweep in an optimised build, some of them where each is slower.
const std::size_t kStride = qm::test::steps(20) == 20 ? 1 : 19;

/// The reader's results for a file.
struct Reading {
  std::string refusal;  ///< the error of the constructor
  std::string received, sent, notes;
  std::uint64_t missing = 0;
  std::uint64_t unknown = 0;
  std::vector<std::string> problems;
  bool complete = false;
  CaptureAbout about;
  [[nodiscard]] std::string all_problems() const {
    std::string all = refusal;
    for (const std::string& each : problems) all += each + "\n";
    return all;
  }
};

Reading read_capture(const std::filesystem::path& path) {
  Reading reading;
  try {
    CaptureReader reader(path);
    for (Chunk chunk; reader.next(chunk);) {
      reading.missing += chunk.missing;
      if (chunk.type == ChunkType::kReceived) reading.received += chunk.payload;
      if (chunk.type == ChunkType::kSent) reading.sent += chunk.payload;
      if (chunk.type == ChunkType::kNote) reading.notes += chunk.payload;
    }
    reading.problems = reader.problems();
    reading.complete = reader.complete();
    reading.unknown = reader.unknown_chunks();
    reading.about = reader.about();
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kInput);
    reading.refusal = error.what();
  }
  return reading;
}

class Capture : public testing::Test {
 protected:
  /// @returns a capture of @p pieces pieces from the line, about 10 KB for 200 of them.
  [[nodiscard]] std::string written(unsigned pieces, std::uint64_t id = 0x0807060504030201) const {
    qm::test::Random random;
    {
      CaptureWriter writer(path(), {{"command", "qm record\n-o x"}, {"line", "unix:line"}}, id);
      for (unsigned count = 0; count < pieces; ++count) {
        std::string bytes;
        for (std::uint64_t n = random.between(1, 40); n > 0; --n) bytes += static_cast<char>(random.below(256));
        writer.set_clock(count * 10);
        random.chance(90) ? writer.received(bytes) : writer.sent(bytes);
      }
      writer.end("Ctrl-C");
    }
    return read_file(path());
  }
  [[nodiscard]] Reading reading_of(const std::string& bytes) const {
    std::ofstream(folder_ / "changed", std::ios::binary) << bytes;
    return read_capture(folder_ / "changed");
  }
  [[nodiscard]] std::filesystem::path path() const { return folder_ / "capture"; }
  [[nodiscard]] const std::filesystem::path& folder() const { return folder_.path(); }

  /// Changes one byte of the capture.
  void put(std::size_t place, char byte) const {
    std::fstream file(path(), std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(static_cast<std::streamoff>(place)).put(byte);
  }

  /// @returns the positions where chunks begin.
  static std::vector<std::size_t> chunks_of(const std::string& bytes) {
    std::vector<std::size_t> places;
    std::size_t at = kCapturePreambleBytes;
    while (at < bytes.size()) {
      places.push_back(at);
      at += kChunkHeaderBytes + static_cast<unsigned char>(bytes[at + 2]) +
            256u * static_cast<unsigned char>(bytes[at + 3]) + 4;
    }
    return places;
  }

 private:
  qm::test::TemporaryFolder folder_;
};

TEST_F(Capture, what_was_written_is_read) {
  {
    CaptureWriter writer(path(), {{"command", "a\nb\\"}, {"baud", "115200"}});
    writer.note("target x");
    writer.received("from the target");
    writer.sent("to it");
    writer.received(std::string(200'000, 'x'));
    writer.end("Ctrl-C");
  }
  const Reading reading = read_capture(path());
  EXPECT_TRUE(reading.complete) << reading.all_problems();
  EXPECT_EQ(reading.received, "from the target" + std::string(200'000, 'x'));
  EXPECT_EQ(reading.sent, "to it");
  EXPECT_EQ(reading.notes, "target x");
  EXPECT_EQ(reading.about.at("command"), "a\\x0ab\\x5c");
  EXPECT_EQ(reading.about.at("baud"), "115200");
}

TEST_F(Capture, every_changed_bit_of_ten_kilobytes_is_noticed) {
  const std::string intact = written(240);
  ASSERT_GT(intact.size(), 9'000u);
  ASSERT_TRUE(reading_of(intact).complete);
  for (std::size_t place = 0; place < intact.size(); place += kStride) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      put(place, static_cast<char>(intact[place] ^ 1 << bit));
      ASSERT_FALSE(read_capture(path()).complete) << "byte " << place << ", bit " << bit;
    }
    put(place, intact[place]);
  }
}

TEST_F(Capture, every_truncation_is_noticed_and_what_was_before_it_is_read) {
  const std::string intact = written(240);
  const std::string received = reading_of(intact).received;
  std::size_t longest = received.size();
  for (std::size_t size = intact.size(); size-- > 0;) {
    if (size % kStride != 0) continue;
    std::filesystem::resize_file(path(), size);
    const Reading reading = read_capture(path());
    ASSERT_FALSE(reading.complete) << size;
    ASSERT_TRUE(received.starts_with(reading.received)) << size;
    ASSERT_LE(reading.received.size(), longest) << size;
    ASSERT_LE(longest - reading.received.size(), 40u * kStride) << size;
    longest = reading.received.size();
    ASSERT_TRUE(size < kCapturePreambleBytes ? !reading.refusal.empty() : reading.refusal.empty()) << size;
  }
}

TEST_F(Capture, damage_in_the_middle_costs_one_chunk_and_names_the_place) {
  const std::string intact = written(20);
  const std::vector<std::size_t> places = chunks_of(intact);
  std::string changed = intact;
  changed[places[5] + 2] ^= 0x40;  // the chunk's length
  const Reading reading = reading_of(changed);
  EXPECT_EQ(reading.missing, 1u);
  ASSERT_FALSE(reading.problems.empty());
  EXPECT_EQ(reading.problems.front(), std::to_string(places[6] - places[5]) + " bytes from byte " +
                                          std::to_string(places[5]) + " on are damaged");
  EXPECT_EQ(reading_of(intact).received.size() + reading_of(intact).sent.size() - (places[6] - places[5] - 20),
            reading.received.size() + reading.sent.size());
}

TEST_F(Capture, a_chunk_taken_out_moved_or_doubled_is_named) {
  const std::string intact = written(20);
  const std::vector<std::size_t> at = chunks_of(intact);
  const std::string fourth = intact.substr(at[4], at[5] - at[4]);
  const Reading without = reading_of(intact.substr(0, at[4]) + intact.substr(at[5]));
  EXPECT_EQ(without.missing, 1u);
  EXPECT_NE(without.all_problems().find("1 chunk missing before byte " + std::to_string(at[4])), std::string::npos);
  const Reading moved =
      reading_of(intact.substr(0, at[4]) + intact.substr(at[5], at[7] - at[5]) + fourth + intact.substr(at[7]));
  EXPECT_NE(moved.all_problems().find("chunk 4 at byte"), std::string::npos) << moved.all_problems();
  EXPECT_FALSE(moved.complete);
  const Reading doubled = reading_of(intact.substr(0, at[5]) + fourth + intact.substr(at[5]));
  EXPECT_NE(doubled.all_problems().find("chunk 4 at byte"), std::string::npos) << doubled.all_problems();
  EXPECT_EQ(doubled.received, reading_of(intact).received);
  EXPECT_FALSE(doubled.complete);
}

TEST_F(Capture, two_captures_are_not_one) {
  const std::string first = written(20), second = written(30, 99);
  const Reading both = reading_of(first + second);
  EXPECT_FALSE(both.complete);
  EXPECT_NE(both.all_problems().find("a second capture begins at byte " + std::to_string(first.size())),
            std::string::npos);
  EXPECT_EQ(both.received, reading_of(first).received);
  // A chunk of another capture is not accepted in this one.
  const std::vector<std::size_t> at = chunks_of(first), other = chunks_of(second);
  EXPECT_FALSE(
      reading_of(first.substr(0, at[4]) + second.substr(other[4], other[5] - other[4]) + first.substr(at[5])).complete);
}

TEST_F(Capture, what_is_no_capture_is_refused_by_name) {
  const std::string intact = written(3);
  EXPECT_NE(reading_of("").refusal.find("empty, no capture"), std::string::npos);
  EXPECT_NE(reading_of("hello").refusal.find("no capture"), std::string::npos);
  EXPECT_NE(reading_of(std::string(100'000, '\0')).refusal.find("no capture"), std::string::npos);
  EXPECT_NE(reading_of(intact.substr(0, 10)).refusal.find("cut short"), std::string::npos);
  EXPECT_NE(read_capture(folder()).refusal.find("directory"), std::string::npos);
  EXPECT_NE(read_capture(folder() / "nothing").refusal.find("No such file"), std::string::npos);
  // Version 2 and otherwise correct: made by hand.
  const std::string later("\x89QMC\r\n\x1a\n\x02\x00\x00\x00\x01\x02\x03\x04\x05\x06\x07\x08", 20);
  std::uint32_t crc = 0xffff'ffff;  // bit by bit: the reference form of CRC-32
  for (const char c : later) {
    crc ^= static_cast<std::uint8_t>(c);
    for (unsigned bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xedb8'8320u : 0u);
  }
  std::string file = later;
  for (unsigned shift = 0; shift < 32; shift += 8) file += static_cast<char>(~crc >> shift & 255);
  EXPECT_NE(reading_of(file).refusal.find("format version 2"), std::string::npos) << reading_of(file).refusal;
}

TEST_F(Capture, four_gigabytes_of_nothing_are_reported_in_bounded_memory) {
  const std::string intact = written(20);
  std::filesystem::resize_file(path(), std::uint64_t{1} << 32);  // sparse
  const Reading reading = read_capture(path());
  EXPECT_EQ(reading.received, reading_of(intact).received);
  EXPECT_NE(reading.all_problems().find("more after the end of the capture"), std::string::npos)
      << reading.all_problems();
}

TEST_F(Capture, a_writer_that_is_killed_leaves_all_that_it_got) {
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  if (child == 0) {
    CaptureWriter writer(path(), {});
    for (unsigned count = 0;; ++count) {
      writer.received("piece " + std::to_string(count) + "\n");
      if (count == 500 && write(ready[1], "x", 1) != 1) _exit(1);
    }
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  const Reading reading = read_capture(path());
  EXPECT_NE(reading.received.find("piece 500\n"), std::string::npos);
  EXPECT_NE(reading.all_problems().find("no end: the recorder was killed"), std::string::npos)
      << reading.all_problems();
}

TEST_F(Capture, a_full_disk_is_an_error_that_names_the_file) {
  if (access("/dev/full", W_OK) != 0) GTEST_SKIP() << "no /dev/full";
  try {
    CaptureWriter writer("/dev/full", {});
    FAIL() << "it took everything";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("/dev/full"), std::string::npos);
  }
}

TEST_F(Capture, the_image_comes_back_as_it_was) {
  qm::test::Random random;
  std::string image;
  while (image.size() < 300'000) image += static_cast<char>(random.below(200));
  std::ofstream(folder() / "elf", std::ios::binary) << image;
  {
    CaptureWriter writer(path(), {});
    writer.image(folder() / "elf");
    writer.received("x");
    writer.end("");
  }
  EXPECT_TRUE(read_capture(path()).complete);
  EXPECT_TRUE(extract_image(path(), folder() / "again"));
  EXPECT_EQ(read_file(folder() / "again"), image);
  (void)written(3);
  EXPECT_FALSE(extract_image(path(), folder() / "again"));
}

TEST_F(Capture, an_image_larger_than_the_capture_says_is_not_unpacked) {
  const std::string image(std::size_t{8} << 20, 'a');  // 8 KiB in the file
  std::ofstream(folder() / "elf", std::ios::binary) << image;
  for (const std::size_t told : {image.size(), image.size() - 1, std::size_t{1000}}) {
    {
      CaptureWriter writer(path(), {{"image-bytes", std::to_string(told)}});
      writer.image(folder() / "elf");
      writer.end("");
    }
    EXPECT_EQ(extract_image(path(), folder() / "again"), told == image.size());
    EXPECT_LE(std::filesystem::file_size(folder() / "again"), told);
  }
}

/// @returns the bytes in the block ```@p name of the document.
std::string documented(const std::string& name) {
  const std::string text = read_file(QM_CAPTURE_DOCUMENT);
  const std::size_t begin = text.find("```" + name + "\n");
  if (begin == std::string::npos) return "";
  std::string bytes;
  static const std::regex kByte("[0-9a-f]{2}");
  const std::string block = text.substr(begin, text.find("\n```", begin) - begin).substr(4 + name.size());
  for (std::sregex_iterator at(block.begin(), block.end(), kByte), end; at != end; ++at) {
    bytes += static_cast<char>(std::stoi(at->str(), nullptr, 16));
  }
  return bytes;
}

TEST_F(Capture, the_document_shows_the_bytes_that_are_written) {
  {
    CaptureWriter writer(path(), {{"line", "unix:line"}}, 0x0807060504030201);
    writer.set_clock(1500);
    writer.received("qm> ");
    writer.set_clock(2'000'000);
    writer.end("Ctrl-C");
  }
  std::string hex;
  for (const char byte : read_file(path())) {
    char text[4];
    std::snprintf(text, sizeof text, "%02x ", static_cast<unsigned char>(byte));
    hex += text;
  }
  EXPECT_EQ(documented("capture"), read_file(path())) << hex;
}

TEST_F(Capture, a_long_run_of_marks_within_it_is_passed_over_in_linear_time) {
  // A reader that tried every byte of the run against all bytes after it would not end before the test's timeout.
  const std::string whole = written(20);
  std::ofstream(path(), std::ios::binary)
      << whole.substr(0, whole.size() / 2) << std::string(2'000'000, '\xc7') << whole.substr(whole.size() / 2);
  const Reading reading = read_capture(path());
  EXPECT_NE(reading.all_problems().find("are damaged"), std::string::npos) << reading.all_problems();
}

}  // namespace host_capture_test
