// A system keeps its deadlines while it answers: under deterministic time the worst lateness of the 1 ms ticks during a dump of
// 2000 records is that without a dump. And Ctrl-C ends a dump within a record.
//
// That the first can fail is seen with an image whose dump holds interrupts masked from its first record to its last.

#include "machine.hpp"

#include <cstdint>
#include <filesystem>
#include <regex>
#include <string>
#include <vector>

namespace {

using qm::test::Machine;

constexpr unsigned kRecords = 2000;

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

/// The worst of several windows without a dump, in which the line is used as well.
std::vector<std::uint64_t> without_dump(Machine& machine) {
  run(machine, "harts reset");
  for (int i = 0; i < 60; ++i) run(machine, "kmemstat");
  return worst_lateness(machine);
}

std::vector<std::uint64_t> with_dump(Machine& machine) {
  run(machine, "harts reset");
  const std::string report = run(machine, "slab_trace print packet");
  std::size_t objects = 0;
  for (std::size_t at = report.find("\nObj "); at != std::string::npos; at = report.find("\nObj ", at + 1)) ++objects;
  EXPECT_GE(objects, kRecords);
  EXPECT_TRUE(report.ends_with(": complete\n")) << report.substr(report.size() - 300);
  return worst_lateness(machine);
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
  const auto quiet = without_dump(machine);
  const auto dumping = with_dump(machine);
  ASSERT_EQ(quiet.size(), dumping.size());
  ASSERT_FALSE(quiet.empty());
  for (std::size_t hart = 0; hart < quiet.size(); ++hart) {
    EXPECT_LE(dumping[hart] * 10, quiet[hart] * 11)
        << "hart " << hart << ": " << dumping[hart] << " during the dump, " << quiet[hart] << " without";
  }
}

TEST(Deadlines, are_seen_to_be_missed_when_interrupts_are_masked_over_a_dump) {
  qm::host::QemuOptions options = deterministic();
  options.image = options.image.parent_path() / ".." / ".." / "tests" / "console" / "defect_masked_dump.elf";
  ASSERT_TRUE(std::filesystem::exists(options.image)) << options.image;
  Machine machine(options);
  load(machine);
  const auto quiet = without_dump(machine);
  const auto dumping = with_dump(machine);
  ASSERT_FALSE(quiet.empty());
  EXPECT_GT(dumping[0] * 10, quiet[0] * 11);
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
