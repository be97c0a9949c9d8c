// The tool qm as a user starts it, with a fake QEMU: exit statuses, messages, and the terminal on a pty.

#include <gtest/gtest.h>

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <qm/host/qemu.hpp>
#include <qm/test/await_text.hpp>
#include <qm/test/folder.hpp>
#include <qm/wire/frame.hpp>

namespace host_qm_test {

using Clock = std::chrono::steady_clock;

struct Outcome {
  int status = -1;  // 128 + the signal, if a signal killed it
  std::string out, error;
};

int status_of(pid_t pid) {
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Only in a child: replaces the process by qm with @p arguments.
[[noreturn]] void become_qm(const std::vector<std::string>& arguments) {
  std::vector<char*> pointers{const_cast<char*>(QM_TOOL)};
  for (const std::string& argument : arguments) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  execv(pointers[0], pointers.data());
  _exit(126);
}

class QmTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TMPDIR", folder_.path().c_str(), 1);
    setenv("QM_TRANSCRIPTS", (folder_ / "transcripts").c_str(), 1);
    setenv("QM_QEMU", QM_FAKE_QEMU, 1);
    unsetenv("QM_FAKE");
  }
  void TearDown() override {
    for (const char* name : {"TMPDIR", "QM_TRANSCRIPTS", "QM_QEMU", "QM_FAKE"}) unsetenv(name);
  }

  /// Runs `qm ARGUMENTS` without a terminal and waits for its end.
  /// @param[in] input the file for its standard input.
  static Outcome qm(const std::vector<std::string>& arguments, const std::string& input = "/dev/null") {
    int out[2], error[2];
    EXPECT_EQ(pipe2(out, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(error, O_CLOEXEC), 0);
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open(input.c_str(), O_RDONLY), 0);
      dup2(out[1], 1);
      dup2(error[1], 2);
      become_qm(arguments);
    }
    close(out[1]);
    close(error[1]);
    Outcome outcome;
    bool open_out = true, open_error = true;
    while (open_out || open_error) {
      pollfd watched[2] = {{open_out ? out[0] : -1, POLLIN, 0}, {open_error ? error[0] : -1, POLLIN, 0}};
      if (poll(watched, 2, -1) < 0) continue;
      char bytes[4096];
      const auto take = [&](int descriptor, std::string& text) {
        const ssize_t count = read(descriptor, bytes, sizeof bytes);
        if (count > 0) text.append(bytes, static_cast<std::size_t>(count));
        return count > 0;
      };
      if (watched[0].revents != 0) open_out = take(out[0], outcome.out);
      if (watched[1].revents != 0) open_error = take(error[0], outcome.error);
    }
    close(out[0]);
    close(error[0]);
    outcome.status = status_of(pid);
    return outcome;
  }
  static Outcome run(std::vector<std::string> arguments, const std::string& input = "/dev/null") {
    arguments.insert(arguments.begin(), {"run", "--image", QM_FAKE_QEMU});
    return qm(arguments, input);
  }
  [[nodiscard]] bool a_transcript_has(const std::string& needle) const {
    return qm::test::await_text(folder_ / "transcripts", needle);
  }
  void expect_transcript_named(const Outcome& outcome) {
    EXPECT_NE(outcome.error.find("transcript: " + (folder_ / "transcripts").string()), std::string::npos)
        << outcome.error;
  }

  qm::test::TemporaryFolder folder_;
};

TEST_F(QmTest, run_prints_the_text_of_commands_and_ends_with_0) {
  const Outcome outcome = run({"-c", "echo one", "-c", "echo two", "-c", " "});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "one\ntwo\n");
  EXPECT_EQ(outcome.error, "warning: this is no target\n");
}

TEST_F(QmTest, run_refuses_what_would_not_repeat) {
  for (const std::vector<std::string>& with :
       {std::vector<std::string>{"--keep"}, {"--raw"}, {"--pace", "9600"}, {"-c", " reboot"}, {"-c", "two\nlines"}}) {
    std::vector<std::string> arguments{"--icount", "-c", "echo one"};
    arguments.insert(arguments.end(), with.begin(), with.end());
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << with.back();
    EXPECT_NE(outcome.error.find("--icount"), std::string::npos) << outcome.error;
  }
  // An image that does not support commands among its boot options.
  const Outcome outcome = run({"--icount", "-c", "echo one"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "one\n");
  EXPECT_NE(outcome.error.find(" takes no commands with its boot options"), std::string::npos) << outcome.error;
}

TEST_F(QmTest, run_goes_on_after_a_failed_command_and_ends_with_1) {
  const Outcome outcome = run({"-c", "fail", "-c", "echo two"});
  EXPECT_EQ(outcome.status, 1) << outcome.error;
  EXPECT_EQ(outcome.out, "error: it was to fail\ntwo\n");
  EXPECT_EQ(run({"-c", std::string(300, 'x')}).status, 1);
  EXPECT_EQ(run({"-c", std::string(3000, 'x')}).status, 1);
  EXPECT_EQ(run({"-c", "two\nlines"}).status, 1);
}

TEST_F(QmTest, run_does_a_script_up_to_the_first_that_fails_and_says_where) {
  const auto script = [&](const char* name, const char* text) {
    const std::string path = (folder_ / name).string();
    std::ofstream(path) << text;
    return path;
  };
  const std::string good = script("good", "# what it is for\n\necho one\r\n  # indented\necho two\n");
  Outcome outcome = run({"-f", good});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "one\ntwo\n");
  const std::string bad = script("bad", "echo one\n\nfail\necho two\n");
  outcome = run({"--file", bad});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.out, "one\nerror: it was to fail\n");
  EXPECT_NE(outcome.error.find("qm: " + bad + ":3: failed: fail\n"), std::string::npos) << outcome.error;
  EXPECT_EQ(run({"-f", script("ends", "echo one\npoweroff 42\n")}).status, 42);
  // The same for standard input, with -f - and without.
  for (const std::vector<std::string>& how : std::vector<std::vector<std::string>>{{}, {"-f", "-"}}) {
    outcome = run(how, good);
    EXPECT_EQ(outcome.status, 0) << outcome.error;
    EXPECT_EQ(outcome.out, "one\ntwo\n");
    outcome = run(how, bad);
    EXPECT_EQ(outcome.status, 1);
    EXPECT_EQ(outcome.out, "one\nerror: it was to fail\n");
    EXPECT_NE(outcome.error.find("qm: standard input:3: failed: fail\n"), std::string::npos) << outcome.error;
  }
  EXPECT_EQ(run({"-c", "echo three"}, good).out, "three\n") << "given commands are those that run";
  for (const std::vector<std::string>& wrong :
       std::vector<std::vector<std::string>>{{"-f", script("empty", "# nothing\n")},
                                             {"-f", "/nonexistent/script"},
                                             {"-f", good, "-c", "help"},
                                             {"demo", "-f", good},
                                             {"-f", good, "--icount"}}) {
    outcome = run(wrong);
    EXPECT_EQ(outcome.status, 2) << wrong[1];
    EXPECT_NE(outcome.error, "") << wrong[1];
  }
}

TEST_F(QmTest, run_ends_with_the_status_of_a_typed_poweroff) {
  EXPECT_EQ(run({"-c", "poweroff 42", "-c", "echo never"}).status, 42);
  EXPECT_EQ(run({"-c", "fail", "-c", "poweroff"}).status, 0);
  EXPECT_EQ(run({"-c", "poweroff 0X7"}).status, 7);
  EXPECT_EQ(run({"-c", "poweroff 42", "-c", "echo never"}).out, "");
}

TEST_F(QmTest, run_goes_on_after_a_reboot_when_the_target_has_booted) {
  const Outcome outcome = run({"-c", "echo one", "-c", "reboot", "-c", "echo two", "-c", "reboot"});
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "one\ntwo\n");
  EXPECT_EQ(outcome.error.find("Quartermaster"), std::string::npos) << "the banner: " << outcome.error;
}

TEST_F(QmTest, run_ends_with_2_for_wrong_usage) {
  for (const std::vector<std::string>& arguments :
       std::vector<std::vector<std::string>>{{"--harts", "0"},
                                             {"--harts", "9"},
                                             {"--harts", "x"},
                                             {"--ram", "much"},
                                             {"--ram", ""},
                                             {"--ram", "0"},
                                             {"--ram", "00M"},
                                             {"--nonsense"},
                                             {"nonsense"},
                                             {"demo", "-c", "help"},
                                             {"--serial", "unix:x", "--harts", "2"},
                                             {"--serial", "tcp:x", "-c", "help"},
                                             {"-c"},
                                             {"--timeout", "0"}}) {
    const Outcome outcome = run(arguments);
    EXPECT_EQ(outcome.status, 2) << arguments[0] << "\n" << outcome.error;
    EXPECT_NE(outcome.error, "") << arguments[0];
  }
  EXPECT_EQ(qm({"run", "-c", "help"}).status, 2);
  EXPECT_EQ(qm({}).status, 2);
  EXPECT_EQ(qm({"run", "--help"}).status, 0);
}

TEST_F(QmTest, says_its_version_and_names_what_is_no_subcommand) {
  const Outcome version = qm({"--version"});
  EXPECT_EQ(version.status, 0);
  EXPECT_TRUE(version.out.starts_with("qm ")) << version.out;
  const Outcome unknown = qm({"nonsense"});
  EXPECT_EQ(unknown.status, 2);
  EXPECT_EQ(unknown.error, "qm: no subcommand nonsense: qm --help lists them\n");
  const Outcome zero = run({"--timeout", "0"});
  EXPECT_NE(zero.error.find("should be a number above 0"), std::string::npos) << zero.error;
  EXPECT_LT(zero.error.size(), 200u) << zero.error;
}

TEST_F(QmTest, run_leaves_no_folder_behind_however_early_a_signal_comes) {
  for (int tries = 0; tries < 30; ++tries) {
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open("/dev/null", O_RDWR), 1);
      dup2(1, 2);
      become_qm({"run", "--image", QM_FAKE_QEMU, "-c", "hang"});
    }
    usleep(static_cast<useconds_t>(500 * tries));
    kill(pid, SIGTERM);
    (void)status_of(pid);
  }
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path()))
    EXPECT_FALSE(entry.path().filename().string().starts_with("qm-")) << entry.path();
}

TEST_F(QmTest, run_without_a_terminal_and_without_commands_says_so_and_ends_with_2) {
  const Outcome outcome = run({});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_NE(outcome.error.find("not a terminal and has no commands"), std::string::npos) << outcome.error;
}

TEST_F(QmTest, run_ends_with_3_and_the_transcript_when_the_target_dies) {
  const Outcome outcome = run({"-c", "echo one", "-c", "die"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_EQ(outcome.out, "one\n");
  EXPECT_NE(outcome.error.find("\"die\""), std::string::npos) << outcome.error;
  EXPECT_NE(outcome.error.find("ended with status 9"), std::string::npos) << outcome.error;
  EXPECT_NE(outcome.error.find("panic: it was to die"), std::string::npos) << outcome.error;
  expect_transcript_named(outcome);
}

TEST_F(QmTest, run_ends_with_3_and_the_transcript_when_the_target_hangs) {
  const Outcome outcome = run({"--timeout", "0.2", "-c", "hang"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.error.find("\"hang\": no answer"), std::string::npos) << outcome.error;
  expect_transcript_named(outcome);
}

TEST_F(QmTest, run_says_which_when_qemu_dies_or_says_nothing_or_is_not_there) {
  setenv("QM_FAKE", "exit", 1);
  Outcome outcome = run({"-c", "help"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.error.find("ended with status 7 before"), std::string::npos) << outcome.error;
  setenv("QM_FAKE", "mute", 1);
  outcome = run({"--boot-timeout", "0.2", "-c", "help"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.error.find("hangs while it boots"), std::string::npos) << outcome.error;
  setenv("QM_QEMU", "/nonexistent/qemu", 1);
  outcome = run({"-c", "help"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.error.find("cannot start QEMU"), std::string::npos) << outcome.error;
}

TEST_F(QmTest, exec_uses_a_target_that_runs_and_a_second_client_is_told_that_it_is_busy) {
  qm::host::QemuOptions options;
  options.program = options.image = QM_FAKE_QEMU;
  qm::host::Qemu qemu(options);
  const std::string place = "unix:" + qemu.socket().string();
  const qm::host::Transport holder = qemu.connect(Clock::now() + std::chrono::seconds(10));
  // The fake serves one client; the next connection is never accepted.
  const Outcome outcome = qm({"exec", "--serial", place, "--timeout", "1", "echo one"});
  EXPECT_EQ(outcome.status, 3);
  EXPECT_NE(outcome.error.find("does no other program hold the line?"), std::string::npos) << outcome.error;
}

TEST_F(QmTest, exec_runs_commands_and_leaves_the_target_running) {
  qm::host::QemuOptions options;
  options.program = options.image = QM_FAKE_QEMU;
  qm::host::Qemu qemu(options);
  while (!std::filesystem::exists(qemu.socket())) usleep(1000);
  const Outcome outcome = qm({"exec", "--serial", "unix:" + qemu.socket().string(), "echo one", "fail"});
  EXPECT_EQ(outcome.status, 1) << outcome.error;
  EXPECT_EQ(outcome.out, "one\nerror: it was to fail\n");
}

TEST_F(QmTest, exec_finds_its_target_in_the_environment) {
  EXPECT_EQ(qm({"exec", "echo one"}).status, 2);
  qm::host::QemuOptions options;
  options.program = options.image = QM_FAKE_QEMU;
  qm::host::Qemu qemu(options);
  while (!std::filesystem::exists(qemu.socket())) usleep(1000);
  setenv("QM_SERIAL", ("unix:" + qemu.socket().string()).c_str(), 1);
  const Outcome outcome = qm({"exec", "echo one"});
  unsetenv("QM_SERIAL");
  EXPECT_EQ(outcome.status, 0) << outcome.error;
  EXPECT_EQ(outcome.out, "one\n");
}

TEST_F(QmTest, a_line_that_cannot_be_opened_leaves_no_transcript) {
  const std::string place = "unix:" + (folder_ / "nothing").string();
  for (const std::vector<std::string>& command :
       std::vector<std::vector<std::string>>{{"exec", "--serial", place, "help"},
                                             {"record", place},
                                             {"top", place},
                                             {"run", "--serial", place, "-c", "help"}}) {
    const Outcome outcome = qm(command);
    EXPECT_EQ(outcome.status, 3) << command[0];
    EXPECT_EQ(outcome.error, "qm: " + place + ": No such file or directory\n") << command[0];
  }
  EXPECT_FALSE(std::filesystem::exists(folder_ / "transcripts"));
}

TEST_F(QmTest, run_refuses_an_image_of_another_machine_at_once) {
  const std::filesystem::path qemu = folder_ / "qemu-system-riscv64";
  std::filesystem::create_symlink(QM_FAKE_QEMU, qemu);
  setenv("QM_QEMU", qemu.c_str(), 1);
  setenv("QM_FAKE", "mute", 1);
  const auto refused = [](const std::string& image) {
    const Outcome outcome = qm({"run", "--image", image, "-c", "help"});
    EXPECT_EQ(outcome.status, 1) << outcome.error;
    return outcome.error;
  };
  const std::string tool = QM_FAKE_QEMU;
  EXPECT_EQ(refused(tool), "qm: " + tool + ": an ELF file, but not for RISC-V\n");
  const std::string text = (folder_ / "text").string();
  std::ofstream(text) << "no image at all";
  EXPECT_EQ(refused(text), "qm: " + text + ": no ELF file\n");
  Elf32_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS32;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_machine = EM_RISCV;
  const std::string small = (folder_ / "small").string();
  std::ofstream(small, std::ios::binary).write(reinterpret_cast<const char*>(&header), sizeof header);
  EXPECT_EQ(refused(small),
            "qm: " + small + ": an image for RISC-V of 32 bits, which qemu-system-riscv64 does not run\n");
  EXPECT_FALSE(std::filesystem::exists(folder_ / "transcripts"));
}

TEST_F(QmTest, exec_that_is_interrupted_ends_its_request_on_the_target) {
  for (const int number : {SIGINT, SIGTERM, SIGHUP}) {
    qm::host::QemuOptions options;
    options.program = options.image = QM_FAKE_QEMU;
    qm::host::Qemu qemu(options);
    while (!std::filesystem::exists(qemu.socket())) usleep(1000);
    const std::string place = "unix:" + qemu.socket().string();
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open("/dev/null", O_RDWR), 1);
      dup2(1, 2);
      become_qm({"exec", "--serial", place, "run"});
    }
    ASSERT_TRUE(a_transcript_has(": run\n"));
    kill(pid, number);
    EXPECT_EQ(status_of(pid), 130);
    EXPECT_TRUE(a_transcript_has("ended: " + std::string(name(qm::wire::CommandStatus::kAborted))));
    std::filesystem::remove_all(folder_ / "transcripts");
  }
}

/// qm on a pty, like in a terminal window.
class QmTerminalTest : public QmTest {
 protected:
  void start(const std::vector<std::string>& arguments) {
    master_ = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC);
    ASSERT_EQ(grantpt(master_), 0);
    ASSERT_EQ(unlockpt(master_), 0);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY | O_CLOEXEC);
    const winsize size{24, columns_, 0, 0};
    ASSERT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
    ASSERT_EQ(tcgetattr(slave_, &before_), 0);
    pid_ = fork();
    if (pid_ == 0) {
      setsid();
      ioctl(slave_, TIOCSCTTY, 0);
      dup2(slave_, 0);
      dup2(slave_, 1);
      dup2(slave_, 2);
      std::vector<std::string> all{"run", "--image", QM_FAKE_QEMU};
      all.insert(all.end(), arguments.begin(), arguments.end());
      become_qm(all);
    }
  }
  void type(const std::string& keys) {
    ASSERT_EQ(write(master_, keys.data(), keys.size()), static_cast<ssize_t>(keys.size()));
  }
  /// Reads the terminal's output until it contains @p needle.
  bool shows(const std::string& needle) {
    const auto deadline = Clock::now() + std::chrono::seconds(20);
    while (screen_.find(needle) == std::string::npos && Clock::now() < deadline) {
      pollfd watched{master_, POLLIN, 0};
      if (poll(&watched, 1, 100) <= 0) continue;
      char bytes[512];
      const ssize_t count = read(master_, bytes, sizeof bytes);
      if (count <= 0) break;
      screen_.append(bytes, static_cast<std::size_t>(count));
    }
    return screen_.find(needle) != std::string::npos;
  }
  [[nodiscard]] bool mode_is_restored() const {
    termios after{};
    return tcgetattr(slave_, &after) == 0 && after.c_lflag == before_.c_lflag && after.c_iflag == before_.c_iflag &&
           after.c_oflag == before_.c_oflag;
  }
  [[nodiscard]] bool is_raw() const {
    termios now{};
    return tcgetattr(slave_, &now) == 0 && (now.c_lflag & ICANON) == 0;
  }
  int ended() {
    const int status = status_of(pid_);
    EXPECT_TRUE(mode_is_restored());
    pollfd watched{master_, POLLIN, 0};
    char bytes[4096];
    while (poll(&watched, 1, 0) > 0 && (watched.revents & POLLIN) != 0) {
      const ssize_t count = read(master_, bytes, sizeof bytes);
      if (count <= 0) break;
      screen_.append(bytes, static_cast<std::size_t>(count));
    }
    return status;
  }
  void TearDown() override {
    close(master_);
    close(slave_);
    QmTest::TearDown();
  }

  unsigned short columns_ = 80;
  int master_ = -1, slave_ = -1;
  pid_t pid_ = -1;
  termios before_{};
  std::string screen_;
};

TEST_F(QmTerminalTest, shows_text_passes_keys_and_leaves_on_control_a_x) {
  start({});
  ASSERT_TRUE(shows("qm> ")) << screen_;
  EXPECT_TRUE(is_raw());
  type("echo hello\r");
  ASSERT_TRUE(shows("echo hello\r\nhello\r\nqm> ")) << screen_;
  type("\x01?");
  ASSERT_TRUE(shows("Ctrl-A x leaves, Ctrl-A Ctrl-A sends Ctrl-A")) << screen_;
  type("\x01\x01\r");
  ASSERT_TRUE(shows("unknown command \"\x01\"")) << screen_;
  type("\x01x");
  EXPECT_EQ(ended(), 0);
}

TEST_F(QmTerminalTest, never_shows_a_byte_of_a_frame) {
  start({});
  ASSERT_TRUE(shows("qm> "));
  // The fake answers a broken frame with an error frame.
  type("\x1bPmAQIDBA==\x1b\\echo after\r");
  ASSERT_TRUE(shows("echo after\r\nafter\r\nqm> ")) << screen_;
  EXPECT_EQ(screen_.find("\x1bP"), std::string::npos) << screen_;
  EXPECT_EQ(screen_.find("AQ"), std::string::npos) << screen_;
  type("\x01x");
  EXPECT_EQ(ended(), 0);
}

TEST_F(QmTerminalTest, survives_a_resized_window_and_ends_with_a_typed_poweroff) {
  start({});
  ASSERT_TRUE(shows("qm> "));
  for (int i = 0; i < 20; ++i) {
    winsize size{static_cast<unsigned short>(24 + i), 80, 0, 0};
    ASSERT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
    kill(pid_, SIGWINCH);
  }
  type("echo resized\r");
  ASSERT_TRUE(shows("resized\r\nqm> ")) << screen_;
  type("poweroff 7\r");
  EXPECT_EQ(ended(), 7) << screen_;
}

TEST_F(QmTerminalTest, tells_the_target_how_wide_a_narrow_window_is_and_when_that_changes) {
  columns_ = 40;
  start({});
  ASSERT_TRUE(shows("qm> "));
  type("\r");  // the fake takes the message for a command
  ASSERT_TRUE(shows("unknown command \"\x1b[8;24;40t\"")) << screen_;
  screen_.clear();
  winsize size{30, 200, 0, 0};
  ASSERT_EQ(ioctl(master_, TIOCSWINSZ, &size), 0);
  // The change of the window and the key are independent; either may come first.
  for (int i = 0; i < 50 && screen_.find("\x1b[8;30;80t\"") == std::string::npos; ++i) {
    type("\r");
    ASSERT_TRUE(shows("qm> "));
    if (screen_.find("\x1b[8") == std::string::npos) screen_.clear();
    pollfd watched{master_, POLLIN, 0};
    (void)poll(&watched, 1, 100);
  }
  ASSERT_TRUE(shows("unknown command \"\x1b[8;30;80t\"")) << screen_;
  type("\x01x");
  EXPECT_EQ(ended(), 0);
}

TEST_F(QmTerminalTest, restores_the_terminal_when_a_signal_ends_it) {
  for (const int number : {SIGTERM, SIGHUP, SIGINT, SIGSEGV}) {
    start({});
    ASSERT_TRUE(shows("qm> "));
    ASSERT_TRUE(is_raw());
    kill(pid_, number);
    EXPECT_NE(ended(), 0);
    screen_.clear();
    close(master_);
    close(slave_);
  }
  long left = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    left += entry.path().filename().string().starts_with("qm-") ? 1 : 0;
  }
  EXPECT_EQ(left, 0);
  start({});
  ASSERT_TRUE(shows("qm> "));
  type("\x01x");
  EXPECT_EQ(ended(), 0);
}

TEST_F(QmTerminalTest, says_when_the_target_dies_and_ends_with_3) {
  setenv("QM_FAKE", "crash", 1);
  start({});
  EXPECT_EQ(ended(), 3);
  EXPECT_NE(screen_.find("ended with status 5"), std::string::npos) << screen_;
  EXPECT_NE(screen_.find("transcript: "), std::string::npos) << screen_;
}

TEST_F(QmTerminalTest, says_when_the_target_says_nothing_and_ends_with_3) {
  setenv("QM_FAKE", "mute", 1);
  start({"--boot-timeout", "0.2"});
  EXPECT_EQ(ended(), 3);
  EXPECT_NE(screen_.find("it has said nothing at all"), std::string::npos) << screen_;
}

}  // namespace host_qm_test
