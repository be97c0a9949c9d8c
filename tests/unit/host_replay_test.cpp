// `qm replay`: replays a trace or a capture on the allocator, and prints the cost of settings.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <qm/test/command.hpp>
#include <qm/test/folder.hpp>
#include <qm/test/read_file.hpp>

#include "capture_encoder.hpp"
#include "synthetic.hpp"

namespace host_replay_test {

/// A line of the table.
struct Row {
  std::uint64_t peak = 0;
  double misses = 0, arenas = 0, nanoseconds = 0;
};

struct Outcome : qm::test::Outcome {
  std::map<std::string, Row> rows;
};

class Replay : public testing::Test {
 protected:
  [[nodiscard]] std::string path() const { return (folder_ / "input").string(); }
  void write(const std::string& text) const { std::ofstream(path()) << text; }

  [[nodiscard]] Outcome replay() const {
    return read_table(qm::test::run_command(std::string(QM_TOOL) + " replay " + path() + " 2>&1"));
  }
  /// The same while the program is stopped repeatedly, as if others needed the processor.
  [[nodiscard]] Outcome disturbed_replay() const {
    const std::string said = (folder_ / "said").string();
    const pid_t pid = fork();
    if (pid == 0) {
      dup2(open(said.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
      execl(QM_TOOL, QM_TOOL, "replay", path().c_str(), nullptr);
      _exit(126);
    }
    using std::chrono::milliseconds;
    int status = 0;
    for (int stops = 0; waitpid(pid, &status, WNOHANG) == 0; ++stops) {
      std::this_thread::sleep_for(milliseconds(1));
      if (stops >= 200) continue;
      kill(pid, SIGSTOP);
      std::this_thread::sleep_for(milliseconds(20));
      kill(pid, SIGCONT);
    }
    return read_table({WEXITSTATUS(status), qm::test::read_file(said)});
  }
  [[nodiscard]] static Outcome read_table(qm::test::Outcome whole) {
    Outcome outcome{std::move(whole), {}};
    std::istringstream lines(outcome.text);
    for (std::string line; std::getline(lines, line);) {
      if (line.size() < 28) continue;
      const std::string name = line.substr(0, line.find_last_not_of(' ', 27) + 1);
      std::istringstream words(line.substr(28));
      Row row;
      std::string over, percent;
      if (words >> row.peak >> over >> percent >> row.misses >> row.arenas >> row.nanoseconds) outcome.rows[name] = row;
    }
    return outcome;
  }
  /// Expects @p text to be refused with the reason @p why, which names the place.
  void expect_refused(const std::string& text, const std::string& why) const {
    write(text);
    const Outcome outcome = replay();
    EXPECT_EQ(outcome.status, 1) << outcome.text;
    EXPECT_NE(outcome.text.find(why), std::string::npos) << outcome.text;
  }

 private:
  qm::test::TemporaryFolder folder_;
};

TEST_F(Replay, of_a_trace_says_what_settings_cost) {
  std::string trace = "# pairs, then blocks that stay\n";
  for (int i = 0; i < 1000; ++i) trace += "a 0 100\nf 0\n";
  for (int slot = 0; slot < 1000; ++slot) trace += "a " + std::to_string(slot) + " 500\n";
  trace += "a 1000 5000\nr 1000 9000\nr 0 600\n";
  write(trace);
  const Outcome outcome = replay();
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("3003 operations on 1 hart, at most 509100 bytes"), std::string::npos) << outcome.text;
  ASSERT_EQ(outcome.rows.size(), 14u) << outcome.text;
  const Row& now = outcome.rows.at("as they are");
  EXPECT_GT(now.peak, 509'100u);
  EXPECT_LT(now.peak, 800'000u);
  // A thousand blocks move in magazines of 1 or of 61 objects.
  EXPECT_GT(outcome.rows.at("magazines of 1 at first").misses, outcome.rows.at("magazines of 61 at first").misses);
  EXPECT_GT(now.arenas, 2 * outcome.rows.at("slabs of 32 KiB").arenas);
  EXPECT_LT(now.peak, outcome.rows.at("slabs of 32 KiB").peak);
  EXPECT_GE(outcome.rows.at("no quantum caches").arenas, now.arenas);
  EXPECT_EQ(outcome.text.find("failed"), std::string::npos) << outcome.text;
}

TEST_F(Replay, of_threads_stands_for_so_many_harts) {
  std::string trace;
  for (int i = 0; i < 500; ++i) {
    const std::string slot = std::to_string(i);
    trace += "t 0\na " + slot + " 64\nt 3\nf " + slot + "\n";
  }
  write(trace);
  const Outcome outcome = replay();
  ASSERT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_NE(outcome.text.find("1000 operations on 4 harts"), std::string::npos) << outcome.text;
  // Every object crosses harts: magazines of one object are exchanged each time.
  EXPECT_GT(outcome.rows.at("magazines of 1 at first").misses, outcome.rows.at("magazines of 61 at first").misses);
}

TEST_F(Replay, of_a_capture_has_its_caches_and_says_if_events_are_missing) {
  for (const bool whole : {true, false}) {
    std::filesystem::remove(path());
    {
      qm::host::CaptureWriter writer(path(), {{"recorder", "host_replay_test"}}, 1);
      qm::test::Defects defects;
      if (!whole) defects.overrun = [](std::uint64_t event) { return event == 100; };
      qm::test::CaptureEncoder encoder(writer, defects);
      qm::test::SyntheticOptions options;
      options.events = 5000;
      qm::test::Synthetic(options).deliver(encoder);
      writer.end("made");
    }
    const Outcome outcome = replay();
    EXPECT_EQ(outcome.status, 0) << outcome.text;
    EXPECT_EQ(outcome.text.find("INCOMPLETE") == std::string::npos, whole) << outcome.text;
    EXPECT_EQ(outcome.rows.size(), 14u) << outcome.text;
  }
}

TEST_F(Replay, refuses_what_it_cannot_read_and_says_where) {
  expect_refused("", "nothing in it can be replayed");
  expect_refused("hello\n", "line 1 is no operation: neither a capture nor a trace");
  expect_refused("a 0 8\na 0 8\n", "line 2 allocates a slot that is taken");
  expect_refused("a 0 8\nf 1\n", "line 2 is about a slot that is free");
  expect_refused("a 0\n", "line 1 is no operation");
  expect_refused("a 0 8 9\n", "line 1 is no operation");
  expect_refused("a 99999999 8\n", "line 1 has a slot above");
  expect_refused("a -1 8\n", "line 1 is no operation");
  expect_refused("\x89QMC no capture", "capture");
  std::filesystem::remove(path());
  EXPECT_EQ(replay().status, 1);
}

TEST_F(Replay, of_nothing_but_empty_blocks_has_no_share_of_what_was_asked) {
  write("a 0 0\nf 0\n");
  const Outcome outcome = replay();
  EXPECT_EQ(outcome.status, 0) << outcome.text;
  EXPECT_EQ(outcome.text.find("inf"), std::string::npos) << outcome.text;
}

TEST_F(Replay, times_are_the_allocators_however_busy_the_machine_is) {
  std::string trace;
  for (int round = 0; round < 300; ++round) {
    for (int slot = 0; slot < 50; ++slot)
      trace += "a " + std::to_string(slot) + " " + std::to_string(16 + 8 * slot) + "\n";
    for (int slot = 0; slot < 50; ++slot) trace += "f " + std::to_string(slot) + "\n";
  }
  write(trace);
  const Outcome alone = replay(), disturbed = disturbed_replay();
  ASSERT_TRUE(disturbed.status == 0 && !alone.rows.empty() && !disturbed.rows.empty()) << disturbed.text;
  const auto less = [](const auto& a, const auto& b) { return a.second.nanoseconds < b.second.nanoseconds; };
  const double shortest = std::min_element(alone.rows.begin(), alone.rows.end(), less)->second.nanoseconds;
  const double longest = std::max_element(disturbed.rows.begin(), disturbed.rows.end(), less)->second.nanoseconds;
  EXPECT_LT(longest, 6 * shortest) << alone.text << disturbed.text;
}

}  // namespace host_replay_test
