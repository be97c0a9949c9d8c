// The console client against a fake target at the other end of a socket pair.

#include <gtest/gtest.h>

#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>

#include <fake_console.hpp>
#include <qm/host/console.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/read_file.hpp>

namespace host_console_test {

using namespace qm::host;
using qm::wire::CommandStatus;

constexpr Milliseconds kLong{20'000};
constexpr Milliseconds kShort{150};

/// A fake console on its own thread, and a client attached to it.
class ConsoleTest : public testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends_), 0);
    server_ = std::thread([end = ends_[1]] {
      qm::test::FakeConsole fake(end);
      fake.boot();
      fake.serve();
      close(end);
    });
    console_.emplace(Transport(ends_[0], "socket pair"), transcript_);
  }
  void TearDown() override {
    console_.reset();
    server_.join();
    std::filesystem::remove(transcript_.path());
  }
  Console& console() { return *console_; }
  std::string transcript() { return qm::test::read_file(transcript_.path()); }
  /// @returns the fault and the message of the exception that @p act throws.
  template <class Act>
  static std::pair<std::optional<Fault>, std::string> fault_of(Act act) {
    try {
      act();
    } catch (const Error& error) {
      return {error.fault(), error.what()};
    }
    return {};
  }
  void expect_protocol_fault(const std::string& command, const std::string& part) {
    const auto [fault, message] = fault_of([&] { (void)console().execute(command, kLong); });
    EXPECT_EQ(fault, Fault::kProtocol) << command;
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("\"" + command + "\""), std::string::npos) << message;
  }
  void expect_next_command_works() {
    const CommandResult next = console().execute("echo next", kLong);
    EXPECT_EQ(next.text, "next\n");
    EXPECT_EQ(next.status, CommandStatus::kOk);
  }

 private:
  int ends_[2] = {-1, -1};
  std::thread server_;
  Transcript transcript_{std::filesystem::temp_directory_path() /
                         ("host_console_test-" + std::to_string(getpid()) + ".transcript")};
  std::optional<Console> console_;
};

TEST_F(ConsoleTest, gets_raw_frames_and_goes_on_saying_that_it_is_there) {
  EXPECT_TRUE(console().use_raw_frames(kLong));
  const CommandResult echo = console().execute("echo raw", kLong);
  EXPECT_EQ(echo.text, "raw\n");
  const auto end = Clock::now() + Milliseconds(qm::wire::kHeartbeatMs * 5 / 2);
  while (Clock::now() < end) (void)console().pump(end);
  // The first request, and the repetitions that the time requires.
  EXPECT_GE(std::stoi(console().execute("forms", kLong).text), 3);
  EXPECT_EQ(console().broken_frames(), 0u);
  EXPECT_EQ(console().ignored_frames(), 0u);
}

TEST_F(ConsoleTest, hello_says_who_is_there) {
  console().wait_for_prompt(kLong);
  EXPECT_EQ(console().hello(kLong).text, "fake console");
}

TEST_F(ConsoleTest, execute_joins_the_output_and_returns_the_status) {
  const CommandResult echo = console().execute("echo hello there", kLong);
  EXPECT_EQ(echo.text, "hello there\n");
  EXPECT_TRUE(echo.ok());
  const CommandResult fail = console().execute("fail", kLong);
  EXPECT_EQ(fail.text, "error: it was to fail\n");
  EXPECT_EQ(fail.status, CommandStatus::kFailed);
  const CommandResult unknown = console().execute("nonsense", kLong);
  EXPECT_EQ(unknown.status, CommandStatus::kUnknownCommand);
  EXPECT_EQ(unknown.text, "error: unknown command \"nonsense\" (try help)\n");
}

TEST_F(ConsoleTest, execute_hands_on_the_output_as_it_comes) {
  std::vector<std::string> pieces;
  (void)console().execute("echo hello", kLong, [&](std::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_EQ(pieces, (std::vector<std::string>{"hel", "lo\n"}));
}

TEST_F(ConsoleTest, a_request_leaves_no_trace_in_the_text) {
  console().wait_for_prompt(kLong);
  console().clear_text();
  (void)console().execute("echo hello", kLong);
  EXPECT_EQ(console().text(), "");
}

TEST_F(ConsoleTest, type_command_returns_what_stands_between_echo_and_prompt) {
  console().wait_for_prompt(kLong);
  EXPECT_EQ(console().type_command("echo one two", kLong), "one two\n");
  EXPECT_EQ(console().type_command("nonsense", kLong), "error: unknown command \"nonsense\" (try help)\n");
  EXPECT_EQ(console().type_command("", kLong), "");
}

TEST_F(ConsoleTest, wait_for_text_returns_the_place_behind_it_or_times_out) {
  const std::size_t place = console().wait_for_text("1 harts", kLong);
  EXPECT_EQ(console().text().substr(place, 7), ", 1 MiB");
  const auto [fault, message] = fault_of([&] { (void)console().wait_for_text("2 harts", kShort); });
  EXPECT_EQ(fault, Fault::kTimedOut);
  EXPECT_NE(message.find("\"2 harts\" within 0.150 s"), std::string::npos) << message;
}

TEST_F(ConsoleTest, a_target_that_does_not_answer_times_out_and_the_next_command_works) {
  const auto [fault, message] = fault_of([&] { (void)console().execute("hang", kShort); });
  EXPECT_EQ(fault, Fault::kTimedOut);
  EXPECT_NE(message.find("\"hang\": no answer"), std::string::npos) << message;
  expect_next_command_works();
}

TEST_F(ConsoleTest, a_frame_that_comes_in_two_halves_is_whole) {
  const CommandResult slow = console().execute("slow", kLong);
  EXPECT_EQ(slow.text, "some output\n");
  EXPECT_TRUE(slow.ok());
}

TEST_F(ConsoleTest, a_target_that_dies_in_a_command_is_noticed_at_once) {
  const auto [fault, message] = fault_of([&] { (void)console().execute("die", kLong); });
  EXPECT_EQ(fault, Fault::kDied);
  EXPECT_NE(console().text().find("panic: it was to die"), std::string::npos);
  EXPECT_EQ(fault_of([&] { (void)console().execute("echo again", kLong); }).first, Fault::kDied);
}

TEST_F(ConsoleTest, noise_and_foreign_frames_around_an_answer_do_not_touch_it) {
  console().wait_for_prompt(kLong);
  console().clear_text();
  const CommandResult result = console().execute("garbage", kLong);
  EXPECT_EQ(result.text, "some output\n");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(console().text(), "noise \x1b[31m  more\r\nand text\r\n");
  EXPECT_EQ(console().ignored_frames(), 1u);
  EXPECT_EQ(console().broken_frames(), 2u);
}

TEST_F(ConsoleTest, a_lost_frame_fails_the_command_and_not_the_next) {
  (void)console().execute("echo first", kLong);
  expect_protocol_fault("lose", "1 frames of the target were lost");
  EXPECT_EQ(console().lost_frames(), 1u);
  expect_next_command_works();
}

TEST_F(ConsoleTest, a_damaged_frame_fails_the_command_and_not_the_next) {
  expect_protocol_fault("corrupt", "arrived broken (wrong checksum)");
  expect_next_command_works();
}

TEST_F(ConsoleTest, a_target_of_the_last_version_is_refused_by_name) {
  const auto [fault, message] = fault_of([&] { (void)console().execute("version", kLong); });
  EXPECT_EQ(fault, Fault::kVersion);
  EXPECT_EQ(message, "\"version\": the target speaks protocol version 1, this program 2");
}

TEST_F(ConsoleTest, a_request_that_arrived_broken_has_failed) {
  expect_protocol_fault("deaf", "arrived broken at the target: wrong checksum");
  expect_next_command_works();
}

TEST_F(ConsoleTest, a_complaint_about_an_earlier_broken_frame_does_not_fail_a_request) {
  console().type("\x1bPmAQIDBA==\x1b\\");
  expect_next_command_works();
}

TEST_F(ConsoleTest, the_text_of_a_long_report_is_whole) {
  console().wait_for_prompt(kLong);
  const std::string long_line(200'000, 'x');
  EXPECT_EQ(console().type_command("echo " + long_line, kLong), long_line + "\n");
}

TEST_F(ConsoleTest, a_refusal_is_a_failed_command_with_its_reason) {
  const CommandResult busy = console().execute("busy", kLong);
  EXPECT_EQ(busy.status, CommandStatus::kBusy);
  EXPECT_EQ(busy.text, "error: another request is waiting\n");
  const CommandResult malformed = console().execute("a\nb", kLong);
  EXPECT_EQ(malformed.status, CommandStatus::kFailed);
  EXPECT_EQ(malformed.text, "error: the payload is malformed\n");
  const CommandResult too_long = console().execute(std::string(256, 'x'), kLong);
  EXPECT_EQ(too_long.status, CommandStatus::kFailed);
  EXPECT_EQ(too_long.text, "error: the payload is too long\n");
  EXPECT_EQ(fault_of([&] { (void)console().execute(std::string(1025, 'x'), kLong); }).first, Fault::kUsage);
  expect_next_command_works();
}

TEST_F(ConsoleTest, a_target_without_rows_is_named_and_the_next_command_works) {
  const auto [fault, why] = fault_of([&] { (void)console().execute_for_rows("free", kLong, {}); });
  EXPECT_EQ(fault, Fault::kProtocol);
  EXPECT_NE(why.find("the target knows no rows"), std::string::npos) << why;
  expect_next_command_works();
}

TEST_F(ConsoleTest, answers_to_another_program_are_ignored) {
  const CommandResult result = console().execute("stale", kLong);
  EXPECT_EQ(result.text, "some output\n");
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(console().ignored_frames(), 2u);
}

TEST_F(ConsoleTest, the_transcript_has_both_directions_and_the_requests_in_clear) {
  console().wait_for_prompt(kLong);
  (void)console().execute("echo hello", kLong);
  const std::string text = transcript();
  EXPECT_NE(text.find(" < Quartermaster 0.0.0 build fake, 1 harts, 1 MiB, formats 2\\r\\n\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find(" > \\ePm"), std::string::npos) << text;
  EXPECT_NE(text.find("echo hello\n"), std::string::npos) << text;
  EXPECT_NE(text.find("ended: ok\n"), std::string::npos) << text;
}

TEST(Bounded, a_transcript_keeps_the_end) {
  const qm::test::TemporaryFolder folder;
  const auto bytes = [&](const char* name) { return qm::test::read_file(folder / name); };
  constexpr std::size_t kMost = 4096;
  Transcript transcript(folder / "t.transcript", kMost);
  std::string line;
  for (int number = 0; number < 2000; ++number) {
    line = "line " + std::to_string(number) + "\n";
    transcript.received(line);
  }
  const std::string end = bytes("t.transcript"), before = bytes("t.older.transcript");
  EXPECT_LE(end.size(), 2 * kMost);
  EXPECT_LE(before.size(), 2 * kMost);
  EXPECT_NE(end.find("* goes on from " + (folder / "t.older.transcript").string()), std::string::npos) << end;
  EXPECT_NE(end.find("< line 1999\\n\n"), std::string::npos) << end;
  EXPECT_GE(end.size() + before.size(), kMost);
  transcript.received(std::string(100'000, 'x'));  // a frame has no line ends
  EXPECT_LE(bytes("t.transcript").size(), 2 * kMost);
}

TEST(Bounded, of_nothing_has_no_file) {
  Transcript transcript = Transcript::none();
  transcript.received("x");
  transcript.note("x");
  EXPECT_TRUE(transcript.path().empty());
}

TEST(Escaped, shows_every_byte) {
  EXPECT_EQ(escaped(std::string_view("a\r\n\t\x1b\\\x00\x7f\xff~", 10)), "a\\r\\n\\t\\e\\\\\\x00\\x7f\\xff~");
}

}  // namespace host_console_test
