// A system keeps its deadlines while it answers: under deterministic time the worst lateness of the 1 ms ticks during a dump of
// 2000 records is that without a dump. And Ctrl-C ends a dump within a record.
//
// One hart alone: a tick is late by a few hundred instructions, and the comparison is strict. Several harts take turns in the
// emulator, of a millisecond, in an order that every access to the line disturbs, and a tick waits for its hart's turn: lateness
// comes in steps of a turn and varies by several from window to window, with a dump and without. So ten turns are allowed for, and
// the median of three dumps is taken. A lock held over a dump makes ticks late by the whole dump, hundreds of turns.
//
// That the first can fail is seen with an image whose dump holds a lock, and so masks interrupts, from its first record to its last.

#include "machine.hpp"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

namespace {

using qm::test::Machine;

constexpr unsigned kRecords = 2000;
constexpr std::uint64_t kTurns = 100000;  // ten turns of 1 ms, in ticks of the timebase

std::string run(Machine& machine, const std::string& line) {
  const Machine::Answer answer = machine.request(line);
  EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text << "\n" << machine.transcript();
  return answer.text;
}

/// Worst lateness of each hart's ticks since the last `harts reset`, in ticks of the timebase.
std::vector<std::uint64_t> worst_lateness(Machine& machine) {
  const std::string text = run(machine, "harts");
  static const std::regex form("worst lateness ([0-9]+) ticks");
  std::vector<std::uint64_t> lateness;
  for (auto at = std::sregex_iterator(text.begin(), text.end(), form); at != std::sregex_iterator(); ++at) {
    lateness.push_back(std::stoull((*at)[1]));
  }
  return lateness;
}

using Lateness = std::vector<std::uint64_t>;  // by hart

/// The worst in windows without a dump, in which the line is used as well.
Lateness without_dump(Machine& machine, int windows) {
  Lateness worst;
  for (int window = 0; window < windows; ++window) {
    run(machine, "harts reset");
    for (int i = 0; i < 25; ++i) run(machine, "kmemstat");
    const Lateness one = worst_lateness(machine);
    if (worst.empty()) worst = one;
    for (std::size_t hart = 0; hart < one.size(); ++hart) worst[hart] = std::max(worst[hart], one[hart]);
  }
  return worst;
}

/// The worst during a dump: the median of @p count dumps, which is odd.
Lateness with_dump(Machine& machine, int count) {
  std::vector<Lateness> dumps;
  for (int i = 0; i < count; ++i) {
    run(machine, "harts reset");
    const std::string report = run(machine, "slab_trace print packet");
    std::size_t objects = 0;
    for (std::size_t at = report.find("\nObj "); at != std::string::npos; at = report.find("\nObj ", at + 1)) ++objects;
    EXPECT_GE(objects, kRecords);
    EXPECT_TRUE(report.ends_with(": complete\n")) << report.substr(report.size() - 300);
    dumps.push_back(worst_lateness(machine));
  }
  Lateness median(dumps[0].size());
  for (std::size_t hart = 0; hart < median.size(); ++hart) {
    std::vector<std::uint64_t> sorted;
    for (const Lateness& dump : dumps) sorted.push_back(dump[hart]);
    std::sort(sorted.begin(), sorted.end());
    median[hart] = sorted[sorted.size() / 2];
  }
  return median;
}

void load(Machine& machine) {
  run(machine, "slab_trace start packet");
  run(machine, "workload run leak 22000");
  run(machine, "workload start churn 4000000000");
}

qm::host::QemuOptions deterministic() {
  qm::host::QemuOptions options = qm::test::demo();
  options.icount = true;
  return options;
}

TEST(Deadlines, ticks_are_no_later_during_a_dump_than_without_one) {
  Machine machine(deterministic());
  load(machine);
  const bool alone = qm::test::demo().harts == 1;
  const auto quiet = without_dump(machine, alone ? 2 : 4);
  const auto dumping = with_dump(machine, alone ? 1 : 3);
  ASSERT_EQ(quiet.size(), dumping.size());
  ASSERT_FALSE(quiet.empty());
  const std::uint64_t allowed = alone ? 0 : kTurns;
  for (std::size_t hart = 0; hart < quiet.size(); ++hart) {
    EXPECT_LE(dumping[hart] * 10, (quiet[hart] + allowed) * 11)
        << "hart " << hart << ": " << dumping[hart] << " during the dump, " << quiet[hart] << " without";
  }
}

TEST(Deadlines, are_seen_to_be_missed_when_a_lock_is_held_over_a_dump) {
  qm::host::QemuOptions options = deterministic();
  options.image = options.image.parent_path() / ".." / ".." / "tests" / "console" / "defect_locked_dump.elf";
  ASSERT_TRUE(std::filesystem::exists(options.image)) << options.image;
  Machine machine(options);
  load(machine);
  const auto quiet = without_dump(machine, 1);
  const auto dumping = with_dump(machine, 1);
  ASSERT_FALSE(quiet.empty());
  EXPECT_GT(dumping[0] * 10, (quiet[0] + kTurns) * 11);
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
  // What QEMU and the sockets held when the key was pressed is on its way already; the rest of the 2000 is not.
  EXPECT_LT(shown, kRecords / 2);
  // Nothing of another record behind the one during which it was seen.
  EXPECT_EQ(text.rfind("\r\n\r\n"), text.rfind("\r\n\r\noutstanding ")) << text.substr(text.size() - 400);
  EXPECT_TRUE(machine.type_line("version").starts_with("Quartermaster "));
}

}  // namespace
