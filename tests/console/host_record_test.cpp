// The target's output is recorded and checked: it is complete and equal to its own statistics, or losses are reported.

#include "machine.hpp"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <qm/host/stream_reader.hpp>
#include <qm/host/target.hpp>
#include <qm/test/command.hpp>
#include <qm/test/pattern.hpp>
#include <qm/test/folder.hpp>

#include "capture_encoder.hpp"

namespace host_record_test {

namespace host = qm::host;

using qm::test::Outcome;

/// Runs `qm ARGUMENTS`; the arguments need no quotes except those given.
Outcome qm(const std::string& arguments) {
  return qm::test::run_command(std::string(QM_TOOL) + " " + arguments + " 2>&1");
}

class Record : public testing::Test {
 protected:
  [[nodiscard]] std::string capture() const { return (folder_ / "capture").string(); }
  /// Boots, records @p commands, and powers off. @param[in] options of `qm run`.
  [[nodiscard]] Outcome record(unsigned harts, const std::vector<std::string>& commands, const std::string& append = "",
                               const std::string& options = "") const {
    std::string arguments = "run --image " + qm::test::demo().image.string() + " --harts " + std::to_string(harts) +
                            " --record " + capture() + " " + options +
                            (append.empty() ? "" : " --append '" + append + "'");
    for (const std::string& command : commands) arguments += " -c '" + command + "'";
    return qm(arguments);
  }

 private:
  qm::test::TemporaryFolder folder_;
};

/// Stores a capture's only stream, and writes it again without the event numbered @p without.
class Rewritten : public host::EventHandler {
 public:
  Rewritten(const std::string& path, std::uint64_t without)
      : writer_(path, {{"recorder", "host_record_test"}}),
        encoder_(writer_, {.omit = [=](std::uint64_t at) { return at == without; }}) {}
  void on_header(const host::Definitions& definitions) override { definitions_ = &definitions; }
  void on_event(const host::Event& event) override { events_.push_back(event); }
  void on_statistics(const host::Statistics& statistics) override { last_ = statistics; }
  void on_end(const host::CaptureEnd&) override {
    encoder_.on_header(*definitions_);
    for (const host::Event& event : events_) encoder_.on_event(event);
    encoder_.on_statistics(last_);
    encoder_.on_stream_end(last_.ticks);
    writer_.end("rewritten");
  }
  [[nodiscard]] std::size_t events() const { return events_.size(); }

 private:
  host::CaptureWriter writer_;
  qm::test::CaptureEncoder encoder_;
  const host::Definitions* definitions_ = nullptr;
  std::vector<host::Event> events_;
  host::Statistics last_;
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
  EXPECT_EQ(number_behind(run.text, "stream 1: events "), number_behind(check.text, "stream 1: "))
      << run.text << check.text;
}

TEST_F(Record, without_one_of_its_events_is_not_equal_to_the_devices_statistics) {
  const Outcome run = record(4, {"kmemtrace start", "workload run churn 200", "kmemtrace stop"});
  ASSERT_EQ(run.status, 0) << run.text;
  const std::string copy = capture() + ".copy";
  std::uint64_t events = ~std::uint64_t{0};
  for (const std::uint64_t without : {events, std::uint64_t{0}, events / 2, events - 1}) {
    std::filesystem::remove(copy);
    {
      Rewritten rewritten(copy, without);
      host::read_events(capture(), rewritten);
      events = rewritten.events();
    }
    const Outcome check = qm("check " + copy);
    const bool whole = without > events;
    EXPECT_EQ(check.status, whole ? 0 : 1) << without << check.text;
    EXPECT_EQ(check.text.find("  equal to the device's statistics") != std::string::npos, whole) << check.text;
  }
}

TEST_F(Record, in_raw_frames_is_as_good_and_shorter) {
  const Outcome run = record(4, {"kmemtrace start", "workload run churn 2000", "kmemtrace stop"}, "", "--raw");
  ASSERT_EQ(run.status, 0) << run.text;
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 0) << check.text;
  const std::uint64_t events = number_behind(run.text, "stream 1: events ");
  const std::uint64_t bytes = number_behind(run.text, " s, ");
  EXPECT_EQ(events, number_behind(check.text, "stream 1: "));
  EXPECT_LT(bytes, events * 9) << run.text;  // including boot, definitions and statistics
}

/// The files of the call sites that allocated objects of caches.
class Sites : public host::EventHandler {
 public:
  void on_header(const host::Definitions& definitions) override { definitions_ = &definitions; }
  void on_event(const host::Event& event) override { numbers_.insert(event.call_site); }
  void on_end(const host::CaptureEnd&) override {
    for (const std::uint32_t number : numbers_) {
      const auto found = definitions_->call_sites.find(number);
      if (found != definitions_->call_sites.end()) files += found->second.file + " ";
    }
  }
  std::string files;

 private:
  const host::Definitions* definitions_ = nullptr;
  std::set<std::uint32_t> numbers_;
};

TEST_F(Record, has_the_call_sites_of_an_image_that_has_them) {
  const Outcome run = record(2, {"kmemtrace start", "workload run churn 100", "kmemtrace stop"});
  ASSERT_EQ(run.status, 0) << run.text;
  Sites sites;
  host::read_events(capture(), sites);
  EXPECT_NE(sites.files.find("churn.cpp"), std::string::npos) << sites.files;
}

TEST(Pace, a_host_that_takes_115200_baud_gets_it_while_events_wait) {
  host::QemuOptions options = qm::test::demo();
  options.harts = 4;
  host::Target target = host::Target::boot(options);
  ASSERT_TRUE(target.execute("kmemtrace start").ok());
  // The line cannot carry all events, so some wait when the workload has ended. An emulator without processor time sends
  // nothing for a while, so the best second of five counts; the waiting events may come at once afterwards.
  constexpr unsigned kBaud = 115200;
  constexpr double kCould = kBaud / 10.0;
  std::uint64_t bytes = 0;
  double best = 0;
  unsigned seconds = 0;
  target.console().transport().pace(kBaud);
  ASSERT_TRUE(target.execute("workload run churn 1000").ok());
  auto begun = host::Clock::now();
  target.console().on_line([&](host::Direction direction, std::string_view part) {
    const std::chrono::duration<double> passed = host::Clock::now() - begun;
    if (direction != host::Direction::kReceived || seconds == 5 || best >= 0.9) return;
    bytes += part.size();
    if (passed.count() < 1) return;
    best = std::max(best, static_cast<double>(bytes) / (passed.count() * kCould));
    ++seconds;
    bytes = 0;
    begun = host::Clock::now();
    if (seconds == 5 || best >= 0.9) target.console().transport().pace(0);
  });
  ASSERT_TRUE(target.execute("kmemtrace stop").ok());
  std::printf("%.1f %% of what the line could take, in the best of %u seconds\n", 100 * best, seconds);
  EXPECT_GT(seconds, 0u) << "too few events waited for it to be a measurement";
  EXPECT_GE(best, 0.9);
  target.console().on_line({});
  (void)target.power_off();
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
  const Outcome run =
      record(4, {"kmemtrace ring 1024", "kmemtrace start", "workload run churn 1000", "kmemtrace stop"});
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 1) << check.text;
  std::uint64_t lost = 0;
  static const std::regex kLost("problem: stream 1: hart [0-9]+ lost ([0-9]+) events");
  for (std::sregex_iterator at(check.text.begin(), check.text.end(), kLost), end; at != end; ++at)
    lost += std::stoull((*at)[1]);
  EXPECT_GT(lost, 0u);
  EXPECT_EQ(lost, number_behind(run.text, ", lost ")) << run.text << check.text;
}

TEST_F(Record, of_a_run_that_is_interrupted_is_complete) {
  const std::string run = std::string(QM_TOOL) + " run --image " + qm::test::demo().image.string() + " --record " +
                          capture() + " -c 'kmemtrace start packet*' -c 'workload run churn 100000000'";
  // Interrupted when frames of the stream have been recorded; if the run ends before that, there is no wait.
  const std::string size = "$(wc -c <" + capture() + ")";
  const Outcome ended = qm::test::run_command(
      run + " >" + capture() + ".said 2>&1 & qm=$!; until grep -q '^stream 1' " + capture() +
      ".said; do kill -0 $qm || break; sleep 0.1; done; first=" + size + "; until [ " + size +
      " -gt $((first + 500)) ]; do kill -0 $qm || break; sleep 0.1; done; kill -INT $qm; wait $qm; s=$?; cat " +
      capture() + ".said; exit $s");
  EXPECT_EQ(ended.status, 130) << ended.text;
  const Outcome check = qm("check " + capture());
  EXPECT_EQ(check.status, 0) << ended.text << check.text;
}

TEST(Top, shows_what_caches_hold_and_how_fast_they_are_used) {
  host::QemuOptions options = qm::test::demo();
  options.board = "virt";  // its line is a socket
  host::Qemu qemu(options);
  {
    host::Transcript transcript;
    host::Console console(qemu.connect(host::Clock::now() + host::Milliseconds(20'000)), transcript);
    console.wait_for_prompt(host::Milliseconds(60'000));
  }
  const std::string place = "unix:" + qemu.socket().string();
  const Outcome top = qm("top " + place + " --every 0.5 --for 4");
  EXPECT_EQ(top.status, 0) << top.text;
  // Without a terminal it prints tables, here about the background tasks: with a rate, and without losses.
  static const std::regex kRow("\n[a-z0-9_]+ +[0-9]+ +~?[0-9]+ +[+-][0-9]+ +[1-9][0-9]* +[0-9]+ [^\n]*\n");
  EXPECT_TRUE(std::regex_search(top.text, kRow)) << top.text;
  EXPECT_NE(top.text.find("dropped 0, lost on the line 0\n"), std::string::npos) << top.text;
  EXPECT_NE(top.text.find("since the stream began", top.text.find("since the stream began") + 1), std::string::npos)
      << top.text;
  // The bytes that it shows must equal the console's for a cache that nothing else uses.
  (void)qm("exec --serial " + place + " 'workload run leak 200'");
  const Outcome packet = qm("top " + place + " --every 0.5 --for 2 --sort name --filter packe");
  const Outcome lines = qm("exec --serial " + place + " 'kmemstat -b packet'");
  const auto shown = qm::test::find(packet.text, "\npacket +([0-9]+) +([0-9]+) +[+]0 +0 +0 ");
  const auto held = qm::test::find(lines.text, "\npacket +512 +([0-9]+) ");
  ASSERT_FALSE(shown.empty() || held.empty()) << packet.text << lines.text;
  EXPECT_EQ(std::stoull(shown[1]) * 512, std::stoull(held[1])) << packet.text << lines.text;
  EXPECT_EQ(packet.text.find("\ninode "), std::string::npos) << "the filter leaves it out: " << packet.text;
  EXPECT_NE(packet.text.find("; by name\n"), std::string::npos) << packet.text;
  EXPECT_NE(qm("top " + place + " --sort weight").status, 0);
  // It has stopped the stream that it started.
  const Outcome status = qm("exec --serial " + place + " 'kmemtrace status'");
  EXPECT_NE(status.text.find("state off"), std::string::npos) << status.text;
  (void)qm("exec --serial " + place + " poweroff");
}

TEST(Json, has_the_rows_of_a_report_and_the_status_of_each_command) {
  const qm::test::Outcome outcome =
      qm::test::run_command(std::string(QM_TOOL) + " run --image " + qm::test::demo().image.string() +
                            " --json -c 'slab_trace start packet' -c 'workload run leak 100 list' -c 'slab_trace print "
                            "packet' -c free -c nosuch");
  EXPECT_EQ(outcome.status, 1) << "one of them failed";
  std::set<unsigned long long> leaked, printed;
  std::istringstream lines(outcome.text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.starts_with("{\"row\":\"") && line.ends_with("}")) << line;
    if (const auto found = qm::test::find(line, "\"row\":\"leaked\",\"address\":\"(0x[0-9a-f]+)\""); !found.empty())
      leaked.insert(std::stoull(found[1], nullptr, 16));
    if (const auto found = qm::test::find(line, "\"row\":\"object\",\"address\":\"(0x[0-9a-f]+)\""); !found.empty()) {
      printed.insert(std::stoull(found[1], nullptr, 16));
      EXPECT_FALSE(
          qm::test::find(line, "\"frames\":\\[\\{\"address\":\"0x[0-9a-f]+\",\"function\":\"packet_alloc\"").empty())
          << line;
    }
  }
  EXPECT_FALSE(leaked.empty());
  EXPECT_EQ(leaked, printed);
  const std::string& text = outcome.text;
  EXPECT_NE(text.find("\"outstanding\":" + std::to_string(leaked.size()) + ",\"recorded\":"), std::string::npos)
      << text;
  EXPECT_NE(text.find("{\"row\":\"memory\",\"total_bytes\":"), std::string::npos) << text;
  EXPECT_NE(text.find("{\"row\":\"status\",\"command\":\"nosuch\",\"status\":\"unknown command\",\"number\":3}\n"),
            std::string::npos)
      << text;
}

}  // namespace host_record_test
