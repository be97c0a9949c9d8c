// A system keeps its deadlines while it answers: in deterministic time, the worst lateness of the 1 ms ticks during a
// dump of 500 records is the same as without a dump. And Ctrl-C ends a dump within one record.
//
// With one hart, a tick is late by a few hundred instructions. Several harts take turns in the emulator, and a turn
// ends when some hart's timer expires. With only the ticks, a turn would last a millisecond, far longer than any
// section of the firmware, so the image makes slices of 20 us (see firmware/boot/src/slices.cpp). A tick then waits for
// its hart's next turn, some 40 us, at random, and the worst value of a window is an extreme value. So the median of
// the dumps is compared with the worst window without a dump; if these are too close, more of both are measured.
//
// An image whose dump holds a lock, and so masks interrupts, from its first record to its last shows that the first
// test can fail.

#include "machine.hpp"

#include <qm/test/harts.hpp>
#include <qm/test/pattern.hpp>
#include <qm/test/seed.hpp>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <string>
#include <vector>

namespace trace_deadlines_test {

using qm::test::Machine;

constexpr unsigned kRecords = 500;
constexpr int kMostRounds = 8;
constexpr int kQuietWindows = 3;  // for each dump; with one hart the lateness is not random, and one window is enough

std::string run(Machine& machine, const std::string& line) {
  const Machine::Answer answer = machine.request(line);
  EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text << "\n" << machine.transcript();
  return answer.text;
}

/// @returns the worst lateness of each hart's ticks since the last `harts reset`, in ticks of the timebase.
std::vector<std::uint64_t> worst_lateness(Machine& machine) {
  const std::string text = run(machine, "harts");
  std::vector<std::uint64_t> lateness;
  for (const qm::test::Match& match : qm::test::find_all(text, "worst lateness ([0-9]+) ticks")) {
    lateness.push_back(std::stoull(match[1]));
  }
  return lateness;
}

using Lateness = std::vector<std::uint64_t>;  // by hart

/// Measures a window without a dump, in which the line is used equally.
Lateness without_dump(Machine& machine) {
  run(machine, "harts reset");
  for (int i = 0; i < 25; ++i) run(machine, "kmemstat -v");
  return worst_lateness(machine);
}

Lateness with_dump(Machine& machine) {
  run(machine, "harts reset");
  const std::string report = run(machine, "slab_trace print packet");
  std::size_t objects = 0;
  for (std::size_t at = report.find("\nObj "); at != std::string::npos; at = report.find("\nObj ", at + 1)) ++objects;
  EXPECT_GE(objects, kRecords);
  EXPECT_TRUE(report.ends_with(": complete\n")) << report.substr(report.size() - 300);
  return worst_lateness(machine);
}

/// The results of the windows of both kinds so far.
struct Comparison {
  std::vector<Lateness> quiet;
  std::vector<Lateness> dumping;

  void add(Machine& machine, int quiet_windows) {
    for (int i = 0; i < quiet_windows; ++i) quiet.push_back(without_dump(machine));
    dumping.push_back(with_dump(machine));
  }
  [[nodiscard]] std::uint64_t worst_quiet(std::size_t hart) const {
    std::uint64_t worst = 0;
    for (const Lateness& window : quiet) worst = std::max(worst, window[hart]);
    return worst;
  }
  [[nodiscard]] std::uint64_t median_dumping(std::size_t hart) const {
    std::vector<std::uint64_t> sorted;
    for (const Lateness& window : dumping) sorted.push_back(window[hart]);
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
  /// Whether ticks during a dump are late by at most 1.1 times as much, on every hart.
  [[nodiscard]] bool holds() const {
    for (std::size_t hart = 0; hart < quiet[0].size(); ++hart) {
      if (median_dumping(hart) * 10 > worst_quiet(hart) * 11) return false;
    }
    return true;
  }
  [[nodiscard]] std::string text() const {
    std::string text;
    for (std::size_t hart = 0; hart < quiet[0].size(); ++hart) {
      text += "hart " + std::to_string(hart) + ": " + std::to_string(median_dumping(hart)) + " ticks during a dump, " +
              std::to_string(worst_quiet(hart)) + " without\n";
    }
    return text;
  }
};

void load(Machine& machine) {
  run(machine, "slab_trace start packet");
  run(machine, "workload run leak 5500");
  run(machine, "workload start churn 4000000000");
}

qm::host::QemuOptions deterministic() {
  qm::host::QemuOptions options = qm::test::demo();
  options.icount = true;
  if (options.harts > 1) options.append = "-- slices=200 seed=" + std::to_string(qm::test::seed());
  return options;
}

TEST(Deadlines, ticks_are_no_later_during_a_dump_than_without_one) {
  Machine machine(deterministic());
  load(machine);
  Comparison comparison;
  const int quiet_windows = qm::test::harts() == 1 ? 1 : kQuietWindows;
  comparison.add(machine, quiet_windows);
  for (int i = 1; i < kMostRounds && !comparison.holds(); ++i) comparison.add(machine, quiet_windows);
  EXPECT_EQ(comparison.quiet[0].size(), qm::test::harts());
  EXPECT_TRUE(comparison.holds()) << comparison.text();
  std::cout << comparison.text();
}

TEST(Deadlines, are_seen_to_be_missed_when_a_lock_is_held_over_a_dump) {
  qm::host::QemuOptions options = deterministic();
  options.image = options.image.parent_path() / ".." / ".." / "tests" / "console" / "defect_locked_dump.elf";
  ASSERT_TRUE(std::filesystem::exists(options.image)) << options.image;
  Machine machine(options);
  load(machine);
  Comparison comparison;
  comparison.add(machine, 1);
  EXPECT_FALSE(comparison.holds()) << comparison.text();
  std::cout << comparison.text();
}

TEST(Deadlines, ctrl_c_ends_a_dump_within_a_record) {
  Machine machine;
  run(machine, "slab_trace start packet");
  run(machine, "workload run leak 22000");
  machine.clear();
  machine.send("slab_trace print packet\r");
  ASSERT_TRUE(machine.wait_for_text("Obj 0x"));
  machine.send("\x03");
  ASSERT_TRUE(machine.wait_for_text(": aborted\r\nqm> ")) << machine.text();
  const std::string& text = machine.text();
  std::size_t shown = 0;
  for (std::size_t at = text.find("Obj "); at != std::string::npos; at = text.find("Obj ", at + 1)) ++shown;
  // Data that QEMU and the sockets held when the key was pressed still arrives; the rest of the 2000 does not.
  EXPECT_LT(shown, 1000u);
  // No further record comes after the one during which the key was noticed.
  EXPECT_EQ(text.rfind("\r\n\r\n"), text.rfind("\r\n\r\nnote: shown ")) << text.substr(text.size() - 400);
  EXPECT_TRUE(machine.type_line("version").starts_with("Quartermaster "));
}

}  // namespace trace_deadlines_test
