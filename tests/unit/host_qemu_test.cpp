// QEMU as a child process, with a fake that behaves well or misbehaves.

#include <gtest/gtest.h>

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string>

#include <qm/host/target.hpp>
#include <qm/test/folder.hpp>

namespace host_qemu_test {

using namespace qm::host;

class QemuTest : public testing::Test {
 protected:
  void SetUp() override {
    setenv("TMPDIR", folder_.path().c_str(), 1);
    setenv("QM_TRANSCRIPTS", (folder_ / "transcripts").c_str(), 1);
    unsetenv("QM_FAKE");
    options_.program = QM_FAKE_QEMU;
    options_.image = QM_FAKE_QEMU;
    timeouts_.start = timeouts_.boot = timeouts_.end = Milliseconds(20'000);
  }
  void TearDown() override {
    unsetenv("TMPDIR");
    unsetenv("QM_TRANSCRIPTS");
    unsetenv("QM_FAKE");
  }
  enum class Started { kYes, kNo };
  /// @returns the fault and the message of a boot while the fake misbehaves according to @p mode. The message names a
  ///          transcript iff QEMU was @p started.
  std::pair<std::optional<Fault>, std::string> boot_fault(const char* mode, Started started = Started::kYes) {
    setenv("QM_FAKE", mode, 1);
    try {
      (void)Target::boot(options_, timeouts_);
    } catch (const Error& error) {
      const std::string named = "transcript: " + (folder_ / "transcripts").string();
      EXPECT_EQ(std::string(error.what()).find(named) != std::string::npos, started == Started::kYes) << error.what();
      return {error.fault(), error.what()};
    }
    return {};
  }
  /// @returns the number of entries that QEMUs left behind in the folder for temporary files.
  [[nodiscard]] long leftovers() const {
    const std::filesystem::directory_iterator entries(folder_.path());
    return std::count_if(begin(entries), end(entries),
                         [](const auto& entry) { return entry.path().filename().string().starts_with("qm-"); });
  }

  qm::test::TemporaryFolder folder_;
  QemuOptions options_;
  TargetTimeouts timeouts_;
};

TEST_F(QemuTest, boots_runs_commands_and_powers_off_with_a_status) {
  Target target = Target::boot(options_, timeouts_);
  EXPECT_EQ(target.identity().text, "fake console");
  EXPECT_EQ(target.execute("echo hello").text, "hello\n");
  EXPECT_EQ(target.type_command("echo typed"), "typed\n");
  EXPECT_EQ(leftovers(), 1);
  const ExitStatus ended = target.power_off(42);
  EXPECT_FALSE(ended.by_signal);
  EXPECT_EQ(ended.number, 42);
}

TEST_F(QemuTest, is_killed_and_leaves_nothing_behind) {
  pid_t pid = -1;
  {
    Target target = Target::boot(options_, timeouts_);
    pid = target.qemu()->pid();
    EXPECT_EQ(kill(pid, 0), 0);
  }
  EXPECT_EQ(kill(pid, 0), -1);
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(QemuTest, dies_with_the_process_that_started_it) {
  int report[2];
  ASSERT_EQ(pipe(report), 0);
  const pid_t middle = fork();
  if (middle == 0) {
    Qemu qemu(options_);
    const pid_t pid = qemu.pid();
    if (write(report[1], &pid, sizeof pid) != static_cast<ssize_t>(sizeof pid)) _exit(1);
    kill(getpid(), SIGKILL);
  }
  close(report[1]);
  pid_t pid = -1;
  ASSERT_EQ(read(report[0], &pid, sizeof pid), static_cast<ssize_t>(sizeof pid));
  close(report[0]);
  waitpid(middle, nullptr, 0);
  const auto deadline = Clock::now() + std::chrono::seconds(10);
  while (kill(pid, 0) == 0 && Clock::now() < deadline) usleep(1000);
  EXPECT_NE(kill(pid, 0), 0);
}

TEST_F(QemuTest, kept_stays_and_can_be_attached_to) {
  options_.lifetime = Lifetime::kKept;
  pid_t pid = -1;
  std::filesystem::path directory;
  {
    Qemu qemu(options_);
    pid = qemu.pid();
    directory = qemu.directory();
    (void)qemu.connect(Clock::now() + timeouts_.start);
  }
  EXPECT_TRUE(std::filesystem::exists(directory / "line"));
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
}

TEST_F(QemuTest, that_ends_at_once_is_reported_with_its_own_words) {
  const auto [fault, message] = boot_fault("exit");
  EXPECT_EQ(fault, Fault::kDied);
  EXPECT_NE(message.find("ended with status 7 before it opened its serial line"), std::string::npos) << message;
  EXPECT_NE(message.find("fake QEMU: no such machine"), std::string::npos) << message;
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(QemuTest, that_never_opens_its_line_hangs) {
  timeouts_.start = Milliseconds(200);
  const auto [fault, message] = boot_fault("deaf");
  EXPECT_EQ(fault, Fault::kTimedOut);
  EXPECT_NE(message.find("hangs: it has not opened its serial line"), std::string::npos) << message;
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(QemuTest, that_says_nothing_hangs_in_its_boot) {
  timeouts_.boot = Milliseconds(200);
  const auto [fault, message] = boot_fault("mute");
  EXPECT_EQ(fault, Fault::kNoAnswer);
  EXPECT_NE(message.find("the target hangs while it boots: no prompt"), std::string::npos) << message;
}

TEST_F(QemuTest, that_ends_in_its_boot_is_reported_with_its_status_and_last_words) {
  const auto [fault, message] = boot_fault("crash");
  EXPECT_EQ(fault, Fault::kDied);
  EXPECT_NE(message.find("ended with status 5"), std::string::npos) << message;
  EXPECT_NE(message.find("Quarterm"), std::string::npos) << message;
}

TEST_F(QemuTest, that_dies_in_a_command_is_reported_with_its_last_words) {
  Target target = Target::boot(options_, timeouts_);
  try {
    (void)target.execute("die");
    FAIL() << "it was to die";
  } catch (const Error& error) {
    const std::string message = error.what();
    EXPECT_EQ(error.fault(), Fault::kDied);
    EXPECT_NE(message.find("ended with status 9"), std::string::npos) << message;
    EXPECT_NE(message.find("panic: it was to die"), std::string::npos) << message;
    EXPECT_NE(message.find("transcript: "), std::string::npos) << message;
  }
}

TEST_F(QemuTest, that_stays_after_poweroff_is_killed) {
  setenv("QM_FAKE", "stuck", 1);
  timeouts_.end = Milliseconds(200);
  Target target = Target::boot(options_, timeouts_);
  try {
    (void)target.power_off();
    FAIL() << "it was to stay";
  } catch (const Error& error) {
    EXPECT_EQ(error.fault(), Fault::kTimedOut);
  }
  ASSERT_TRUE(target.qemu()->exit_status());
  EXPECT_TRUE(target.qemu()->exit_status()->by_signal);
}

TEST_F(QemuTest, that_cannot_be_started_is_named) {
  options_.program = "/nonexistent/qemu";
  const auto [fault, message] = boot_fault("", Started::kNo);
  EXPECT_EQ(fault, Fault::kOpen);
  EXPECT_NE(message.find("cannot start QEMU (/nonexistent/qemu): No such file"), std::string::npos) << message;
  EXPECT_EQ(leftovers(), 0);
}

TEST_F(QemuTest, options_that_cannot_be_right_are_refused) {
  options_.harts = 9;
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kUsage);
  options_.harts = 0;
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kUsage);
  options_.harts = 1;
  options_.ram = "";
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kUsage);
  options_.ram = "128M";
  options_.image = folder_ / "nothing";
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kOpen);
}

TEST_F(QemuTest, arguments_say_what_the_options_ask_for) {
  options_.harts = 8;
  options_.append = "trace=* ring=64K";
  options_.icount = options_.single_step = true;
  options_.extra = {"-d", "int"};
  std::string line;
  for (const std::string& argument : Qemu::arguments(options_, "/x/line")) line += argument + "|";
  for (const std::string part :
       {"|-smp|8|", "|-m|128M|", "|-append|trace=* ring=64K|", "|-icount|shift=0,sleep=off|", "|-singlestep|",
        "|-chardev|socket,id=line,path=/x/line,server=on,wait=on|", "|-d|int|"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
}

TEST_F(QemuTest, a_board_is_known_by_its_name) {
  options_.board = "sifive_u";
  options_.harts = 3;
  std::string line;
  for (const std::string& argument : Qemu::arguments(options_, "/x/line")) line += argument + "|";
  for (const std::string part : {"|-machine|sifive_u|", "|-smp|4|", "|-chardev|pipe,id=line,path=/x/line|",
                                 "|-semihosting-config|enable=on,target=native|"}) {
    EXPECT_NE(line.find(part), std::string::npos) << part << " in " << line;
  }
  options_.harts = 5;
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kUsage);
  options_.board = "spike";
  options_.lifetime = Lifetime::kKept;
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kUsage);
  options_.board = "sifive_v";
  EXPECT_EQ(boot_fault("", Started::kNo).first, Fault::kUsage);
}

TEST_F(QemuTest, commands_follow_the_boot_options_and_the_line_is_a_pipe) {
  options_.append = "trace=*";
  options_.commands = {"harts", "free"};
  std::string line;
  for (const std::string& argument : Qemu::arguments(options_, "/x/line")) line += argument + "|";
  EXPECT_NE(line.find("|-append|trace=* -- commands\nharts\nfree\n|"), std::string::npos) << line;
  EXPECT_NE(line.find("|-chardev|file,id=line,path=/x/line|"), std::string::npos) << line;
}

TEST_F(QemuTest, an_image_that_takes_commands_is_known) {
  EXPECT_FALSE(qm::host::takes_commands(options_.image));
  const std::filesystem::path image = folder_ / "takes";
  std::ofstream(image) << "x -- commands\ny";
  EXPECT_TRUE(qm::host::takes_commands(image));
}

TEST_F(QemuTest, several_targets_run_at_once) {
  Target first = Target::boot(options_, timeouts_);
  Target second = Target::boot(options_, timeouts_);
  EXPECT_NE(first.qemu()->socket(), second.qemu()->socket());
  EXPECT_EQ(first.execute("echo first").text, "first\n");
  EXPECT_EQ(second.execute("echo second").text, "second\n");
  EXPECT_EQ(second.power_off(2).number, 2);
  EXPECT_EQ(first.power_off(1).number, 1);
}

}  // namespace host_qemu_test
