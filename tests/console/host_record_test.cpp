// What the target sends is recorded and checked: complete and equal to its own statistics, or what is missing is told.

#include "machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

#include <qm/test/folder.hpp>

namespace {

struct Outcome {
  int status = -1;
  std::string text;
};

/// Runs `qm ARGUMENTS`, which need no quotes but those given.
Outcome qm(const std::string& arguments) {
  std::FILE* const out = popen((std::string(QM_TOOL) + " " + arguments + " 2>&1").c_str(), "r");
  Outcome outcome;
  if (out == nullptr) return outcome;
  char bytes[4096];
  for (std::size_t count; (count = std::fread(bytes, 1, sizeof bytes, out)) != 0;) outcome.text.append(bytes, count);
  const int status = pclose(out);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return outcome;
}

class Record : public testing::Test {
 protected:
  [[nodiscard]] std::string capture() const { return (folder_ / "capture").string(); }
  /// Boots, records @p commands, and powers off.
  [[nodiscard]] Outcome record(unsigned harts, const std::vector<std::string>& commands, const std::string& append = "") const {
    std::string arguments = "run --image " + qm::test::demo().image.string() + " --harts " + std::to_string(harts) + " --record " +
                            capture() + (append.empty() ? "" : " --append '" + append + "'");
    for (const std::string& command : commands) arguments += " -c '" + command + "'";
    return qm(arguments);
  }

 private:
  qm::test::TemporaryFolder folder_;
};

std::uint64_t number_behind(const std::string& text, const std::string& before) {
  const std::size_t at = text.find(before);
  return at == std::string::npos ? 0 : std::stoull(text.substr(at + before.size()));
}

TEST_F(Record, a_workload_replays_to_the_devices_own_statistics) {
  const Outcome run = record(4, {"kmemtrace start", "workload run churn 1000", "kmemtrace stop"});
  ASSERT_EQ(run.status, 0) << run.text;
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 0) << check.text;
  EXPECT_NE(check.text.find("equal to the device's statistics"), std::string::npos) << check.text;
  EXPECT_EQ(number_behind(run.text, "stream 1: events "), number_behind(check.text, "stream 1: ")) << run.text << check.text;
}

TEST_F(Record, frees_on_another_hart_are_those_of_the_workload) {
  const Outcome run = record(8, {"kmemtrace start packet", "workload run pingpong 300", "kmemtrace stop"});
  ASSERT_EQ(run.status, 0) << run.text;
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 0) << check.text;
  EXPECT_EQ(number_behind(run.text, "pingpong: "), 300u) << run.text;
  EXPECT_EQ(number_behind(check.text, "freed on another hart: "), 300u) << check.text;
}

TEST_F(Record, the_first_allocation_after_boot_is_there) {
  const Outcome run = record(2, {"kmemtrace stop"}, "kmemtrace=on");
  ASSERT_EQ(run.status, 0) << run.text;
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 0) << check.text;
  EXPECT_NE(check.text.find(", from boot"), std::string::npos) << check.text;
}

TEST_F(Record, rings_that_are_too_small_make_it_incomplete_by_so_many_events) {
  const Outcome run = record(4, {"kmemtrace ring 1024", "kmemtrace start", "workload run churn 1000", "kmemtrace stop"});
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 1) << check.text;
  std::uint64_t lost = 0;
  static const std::regex kLost("problem: stream 1: hart [0-9]+ lost ([0-9]+) events");
  for (std::sregex_iterator at(check.text.begin(), check.text.end(), kLost), end; at != end; ++at) lost += std::stoull((*at)[1]);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(lost, number_behind(run.text, ", lost ")) << run.text << check.text;
}

}  // namespace
