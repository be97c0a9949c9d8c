// qm report, export, diff and symbolize as a user starts them: their input and output, and the errors that they report.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <qm/test/command.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/read_file.hpp>

#include "capture_encoder.hpp"
#include "synthetic.hpp"

namespace analysis_commands_test {

using qm::test::Defects;
using qm::test::Outcome;
using qm::test::read_file;

bool has(const std::string& text, const std::string& needle) { return text.find(needle) != std::string::npos; }

class Commands : public testing::Test {
 protected:
  [[nodiscard]] std::string path(const std::string& name) const { return (folder_ / name).string(); }
  [[nodiscard]] std::string file(const std::string& name, const std::string& bytes) const {
    std::ofstream(folder_ / name, std::ios::binary) << bytes;
    return path(name);
  }
  /// Runs the shell command `BEFORE qm ARGUMENTS`.
  [[nodiscard]] static Outcome qm(const std::string& arguments, const std::string& before = "") {
    return qm::test::run_command(before + QM_TOOL " " + arguments + " 2>&1");
  }
  /// @returns a capture with a stream for each of @p streams.
  [[nodiscard]] std::string capture(const std::vector<Defects>& streams = {{}}) const {
    qm::host::CaptureWriter writer(path("capture"), {}, 1);
    std::uint16_t number = 0;
    for (const Defects& defects : streams) {
      qm::test::CaptureEncoder encoder(writer, defects);
      qm::test::Synthetic({.events = 2000, .stream = ++number}).deliver(encoder);
    }
    writer.end("made");
    return path("capture");
  }

 private:
  qm::test::TemporaryFolder folder_;
};

std::string stacks(int objects) {
  return std::string("{\"row\":\"stack\",\"objects\":") + std::to_string(objects) +
         ",\"bytes\":" + std::to_string(objects * 512) +
         ",\"stack\":1513210599,\"frames\":[{\"address\":\"0x80201000\",\"function\":\"packet_alloc\"}]}\n" +
         "{\"row\":\"end\",\"verdict\":\"complete\"}\n{\"row\":\"status\",\"number\":0}\n";
}

TEST_F(Commands, diff_reads_a_dump_through_a_pipe_from_its_first_byte_on) {
  // The text before the report is so long that it fills a reader's buffer.
  const std::string before = file("before", "qm> help\n" + stacks(10) + std::string(100'000, '\n'));
  const std::string after = file("after", stacks(14));
  const Outcome piped = qm("diff /dev/stdin " + after, "cat " + before + " | ");
  EXPECT_EQ(piped.status, 0) << piped.text;
  EXPECT_TRUE(has(piped.text, "before stdin: 10 objects")) << piped.text;
  EXPECT_TRUE(has(piped.text, "+4 objects")) << piped.text;
}

TEST_F(Commands, refuse_a_capture_that_comes_through_a_pipe_and_say_why) {
  const std::string good = capture();
  for (const char* const arguments : {"check /dev/stdin", "report /dev/stdin", "export --format csv /dev/stdin",
                                      "replay /dev/stdin", "diff /dev/stdin /dev/null"}) {
    const Outcome outcome = qm(arguments, "cat " + good + " | ");
    EXPECT_EQ(outcome.status, 1) << arguments << outcome.text;
    EXPECT_TRUE(has(outcome.text, "put it into a file first")) << arguments << outcome.text;
  }
}

TEST_F(Commands, refuse_to_write_over_the_capture_that_they_read) {
  const std::string good = capture();
  std::filesystem::create_symlink(good, path("link"));
  const std::string bytes = read_file(good);
  for (const std::string& to : {good, path("link")}) {
    for (const char* const format : {"sqlite", "csv", "perfetto", "pprof", "folded", "speedscope"}) {
      const Outcome outcome = qm(std::string("export --format ") + format + " -o " + to + " " + good);
      EXPECT_EQ(outcome.status, 2) << format << outcome.text;
    }
    EXPECT_EQ(qm("report --html " + to + " " + good).status, 2);
    EXPECT_TRUE(read_file(good) == bytes) << "the capture has changed";
  }
}

TEST_F(Commands, export_to_sqlite_replaces_a_file_and_nothing_else) {
  const std::string good = capture();
  std::filesystem::create_directory(path("folder"));
  const Outcome folder = qm("export --format sqlite -o " + path("folder") + " " + good);
  EXPECT_EQ(folder.status, 1) << folder.text;
  EXPECT_TRUE(std::filesystem::is_directory(path("folder")));
  EXPECT_TRUE(has(folder.text, "needs a regular file")) << folder.text;
  EXPECT_EQ(qm::test::run_command("mkfifo " + path("fifo")).status, 0);
  EXPECT_EQ(qm("export --format sqlite -o " + path("fifo") + " " + good).status, 1);
  EXPECT_TRUE(std::filesystem::is_fifo(path("fifo")));
  // A symbolic link remains one; the old contents of the file are gone.
  std::filesystem::create_symlink(file("old.db", "no database"), path("link.db"));
  for (int again = 0; again < 2; ++again) {
    const Outcome link = qm("export --format sqlite -o " + path("link.db") + " " + good);
    EXPECT_EQ(link.status, 0) << link.text;
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path("link.db")));
  EXPECT_TRUE(read_file(path("old.db")).starts_with("SQLite format 3"));
}

TEST_F(Commands, report_marks_what_is_missing_in_the_stream_that_it_is_of_and_in_no_other) {
  const std::string two = capture({{.overrun = [](std::uint64_t event) { return event >= 1000 && event < 1100; }}, {}});
  const Outcome whole = qm("report " + two);
  EXPECT_EQ(whole.status, 0) << whole.text;
  EXPECT_TRUE(has(whole.text, "stream 2 of 2")) << whole.text;
  EXPECT_FALSE(has(whole.text, "INCOMPLETE")) << whole.text;
  EXPECT_FALSE(has(whole.text, "*\n")) << whole.text;
  const Outcome other = qm("report --stream 1 " + two);
  EXPECT_TRUE(has(other.text, "INCOMPLETE: stream 1: hart 0 lost")) << other.text;
  EXPECT_TRUE(has(other.text, "*\n")) << other.text;
}

TEST_F(Commands, check_and_report_agree_on_how_long_the_stream_was) {
  // At 10 million ticks a second: the last event is within the first millisecond, the stop after 2 s, and the line is
  // empty 18 s later.
  {
    qm::host::CaptureWriter writer(path("slow"), {}, 1);
    qm::test::CaptureEncoder encoder(writer);
    qm::test::Synthetic({.events = 100, .quiet_ticks = 20'000'000, .drain_ticks = 180'000'000}).deliver(encoder);
    writer.end("made");
  }
  const Outcome check = qm("check " + path("slow"));
  EXPECT_TRUE(has(check.text, "100 events of 4 harts in 2.000 s")) << check.text;
  const Outcome report = qm("report " + path("slow"));
  EXPECT_TRUE(has(report.text, "100 events in 2.00 s")) << report.text;
}

TEST_F(Commands, streams_of_two_boots_are_told_apart_by_their_place) {
  qm::host::CaptureWriter writer(path("boots"), {}, 1);
  for (const std::uint64_t boot : {1u, 2u}) {
    qm::test::CaptureEncoder encoder(writer, {.unended = boot == 2});
    qm::test::Synthetic({.events = 2000, .boot = boot}).deliver(encoder);
  }
  writer.end("made");
  const Outcome check = qm("check " + path("boots"));
  EXPECT_EQ(check.status, 1);
  EXPECT_TRUE(has(check.text, "stream 1: 2000 events")) << check.text;
  EXPECT_TRUE(has(check.text, "stream 2: 2000 events")) << check.text;
  EXPECT_TRUE(has(check.text, "problem: stream 2: no end")) << check.text;
  EXPECT_FALSE(has(qm("report --stream 1 " + path("boots")).text, "INCOMPLETE"));
}

TEST_F(Commands, say_that_no_cache_has_a_name_and_count_nothing_as_complete) {
  const std::string good = capture();
  for (const char* const command : {"report", "export --format folded"}) {
    const Outcome outcome = qm(std::string(command) + " --cache 'nosuch*' " + good);
    EXPECT_EQ(outcome.status, 1) << outcome.text;
    EXPECT_TRUE(has(outcome.text, "no cache or arena is called nosuch*")) << outcome.text;
  }
  EXPECT_EQ(qm("report --cache 'cache_*' " + good).status, 0);
}

TEST_F(Commands, report_has_addresses_if_the_image_within_the_capture_was_stripped) {
  // A linked ELF file for RISC-V with empty contents.
  std::string elf(
      "\x7f"
      "ELF\x02\x01\x01",
      7);
  elf.resize(64, 0);
  elf[16] = 2;
  elf[18] = static_cast<char>(243);
  elf[20] = 1;
  elf[52] = 64;
  const std::string path_of_image = file("stripped.elf", elf);
  {
    qm::host::CaptureWriter writer(path("stripped"), {}, 1);
    writer.image(path_of_image);
    qm::test::CaptureEncoder encoder(writer);
    qm::test::Synthetic({.events = 2000}).deliver(encoder);
    writer.end("made");
  }
  const Outcome outcome = qm("report --stacks " + path("stripped"));
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_TRUE(
      has(outcome.text, "qm: addresses instead of names: the image within " + path("stripped") + " has no symbols"))
      << outcome.text;
  EXPECT_TRUE(has(outcome.text, " 0x80204")) << outcome.text;
  EXPECT_EQ(qm("report --elf " + path_of_image + " " + path("stripped")).status, 1) << "asked for by name";
}

TEST_F(Commands, say_that_a_directory_is_no_text) {
  const std::string good = file("good", stacks(1));
  const Outcome outcome = qm("diff " + path("") + " " + good);
  EXPECT_EQ(outcome.status, 1) << outcome.text;
  EXPECT_TRUE(has(outcome.text, "a directory, no file")) << outcome.text;
}

}  // namespace analysis_commands_test
