// Stacks with their live objects: the counts add up with the records, and the groups are those of the printed objects
// by their frames.

#include "machine.hpp"

#include <qm/test/harts.hpp>
#include <qm/test/pattern.hpp>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace trace_stacks_test {

using qm::host::ReportRow;
using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::CommandStatus;

/// An object or a stack of a report, with its frames.
struct Entry {
  ReportRow row;
  std::string names;  ///< names of the frames, innermost first, one on each line
  std::vector<std::uint64_t> addresses;
};

/// The entries of the kind @p kind.
std::vector<Entry> entries(const std::vector<ReportRow>& rows, std::string_view kind) {
  std::vector<Entry> found;
  for (const ReportRow& row : rows) {
    if (row.kind == kind) found.push_back({row, {}, {}});
    if (row.kind != "frame" || found.empty()) continue;
    found.back().names += std::string(row.text("function")) + "\n";
    found.back().addresses.push_back(row.number("address"));
  }
  return found;
}

/// The output of slab_stacks.
struct Stacks {
  std::vector<Entry> rows;
  std::uint64_t shown = 0, hidden = 0, objects = 0, bytes = 0;
  std::string verdict;

  explicit Stacks(const std::vector<ReportRow>& report) : rows(entries(report, "stack")) {
    EXPECT_FALSE(report.empty());
    if (report.empty() || report.back().kind != "end") return;
    const ReportRow& end = report.back();
    shown = end.number("stacks");
    hidden = end.number("hidden");
    objects = end.number("objects");
    bytes = end.number("bytes");
    verdict = end.text("verdict");
  }
};

class StacksTest : public MachineTest {
 protected:
  static std::string run(const std::string& line) {
    const Machine::Answer answer = machine().request(line);
    EXPECT_EQ(answer.status, CommandStatus::kOk) << line << "\n" << answer.text;
    return answer.text;
  }
  /// Compares `slab_stacks CACHE` with `slab_trace print CACHE`. @returns the stacks.
  static Stacks expect_agreement(const std::string& cache) {
    const Stacks stacks(machine().rows("slab_stacks " + cache));
    const std::vector<ReportRow> report = machine().rows("slab_trace print " + cache);
    const std::vector<Entry> objects = entries(report, "object");
    EXPECT_EQ(stacks.objects, objects.size());
    EXPECT_EQ(stacks.verdict, report.back().text("verdict"));
    std::uint64_t bytes = 0;
    std::map<std::string, std::uint64_t> by_names;
    std::set<std::vector<std::uint64_t>> distinct;
    for (const Entry& object : objects) {
      bytes += object.row.number("size_bytes");
      ++by_names[object.names + std::to_string(object.row.number("truncated"))];
      distinct.insert(object.addresses);
    }
    EXPECT_EQ(stacks.bytes, bytes);
    std::map<std::string, std::uint64_t> shown;
    std::uint64_t sum = 0;
    std::uint64_t least = UINT64_MAX;
    for (const Entry& stack : stacks.rows) {
      const std::uint64_t count = stack.row.number("objects");
      shown[stack.names + std::to_string(stack.row.number("truncated"))] += count;
      sum += count;
      EXPECT_LE(stack.row.number("bytes"), least) << "largest first";
      least = stack.row.number("bytes");
    }
    EXPECT_EQ(shown, by_names);
    EXPECT_EQ(sum, stacks.objects);
    EXPECT_EQ(stacks.rows.size(), distinct.size());
    EXPECT_EQ(stacks.rows.size(), stacks.shown);
    return stacks;
  }
};

TEST_F(StacksTest, of_64_call_paths_add_up_with_the_records_and_group_as_their_frames_do) {
  run("slab_trace start stacks");
  run("workload run stacks 104");
  const Stacks stacks = expect_agreement("stacks");
  EXPECT_EQ(stacks.objects, 104U);
  EXPECT_EQ(stacks.rows.size(), 64U);
  // 104 objects from 64 paths: the first 40 paths have one more than the others.
  run("slab_stacks threshold 2");
  const Stacks large(machine().rows("slab_stacks stacks"));
  run("slab_stacks threshold 1");
  EXPECT_EQ(large.shown, 40U);
  EXPECT_EQ(large.hidden, 24U);
  EXPECT_EQ(large.rows.size(), 40U);
  for (const Entry& row : large.rows) EXPECT_EQ(row.row.number("objects"), 2U);
  run("workload stop");
  const Stacks empty(machine().rows("slab_stacks stacks"));
  EXPECT_EQ(empty.objects, 0U);
  EXPECT_EQ(empty.hidden, 64U) << "none is forgotten";
}

/// @returns a number in the row of @p name in kmemstat's output. @param[in] column counted from the object size on.
std::uint64_t kmemstat_of(Machine& machine, const std::string& name, unsigned column) {
  const std::string text = machine.request("kmemstat -v").text;
  const qm::test::Match row = qm::test::find(text, "\n *" + name + " *: [AS] : *([0-9]+): *([0-9]+): *([0-9]+):");
  EXPECT_FALSE(row.empty()) << text;
  return row.empty() ? 0 : std::stoull(row[1 + column]);
}

TEST(TracedMemory, of_10000_objects_from_64_paths_is_what_is_promised_for_each_object_and_each_stack) {
  constexpr std::uint64_t kObjects = 10000;
  constexpr unsigned kTotal = 1, kHeld = 2;
  Machine machine;
  ASSERT_EQ(machine.request("slab_trace start stacks").status, CommandStatus::kOk);
  const std::uint64_t trace = kmemstat_of(machine, "ktrace", kHeld);
  ASSERT_EQ(kmemstat_of(machine, "kmem_trace", kTotal), 0U);
  ASSERT_EQ(machine.request("workload start stacks 10000").status, CommandStatus::kOk);
  std::string status;
  do {
    status = machine.request("slab_trace status stacks").text;
  } while (status.find("recorded 10000, dropped 0, live 10000,") == std::string::npos &&
           status.find("complete") != std::string::npos);
  // The pool of records and, in `ktrace`, the handles.
  const std::uint64_t bytes =
      kmemstat_of(machine, "kmem_trace", kTotal) + kmemstat_of(machine, "ktrace", kHeld) - trace;
  // Each other hart may have free records of its own, and may have added a chunk at the same time as this hart: nothing
  // prevents two harts without a free record from adding one each.
  const std::uint64_t free_elsewhere = (qm::test::harts() - 1) * (60ull * 28 + 4096);
  constexpr std::uint64_t kStacks = 8192;  // for the 64 paths: the first region of stacks, made with the first path
  EXPECT_LE(2 * (bytes - std::min(bytes, free_elsewhere + kStacks)), 57 * kObjects) << "28.5 each";

  const Stacks stacks(machine.rows("slab_stacks stacks"));
  EXPECT_EQ(stacks.rows.size(), 64U);
  EXPECT_EQ(stacks.objects, kObjects);
  EXPECT_EQ(stacks.bytes, 64 * kObjects);
  std::uint64_t objects = 0, most = 0;
  for (const Entry& row : stacks.rows) {
    objects += row.row.number("objects");
    const std::uint64_t depth = row.addresses.size();
    most += std::max<std::uint64_t>(8 + 8 * depth, 56);
  }
  EXPECT_EQ(objects, kObjects);
  const qm::test::Match used = qm::test::find(status, ", stacks ([0-9]+) of ");
  ASSERT_FALSE(used.empty()) << status;
  EXPECT_LE(std::stoull(used[1]), most);

  // 10000 objects from 64 paths: the first 16 paths have one more than the others.
  EXPECT_EQ(machine.request("slab_stacks threshold 157").status, CommandStatus::kOk);
  const Stacks large(machine.rows("slab_stacks stacks"));
  EXPECT_EQ(large.rows.size(), 16U);
  EXPECT_EQ(large.hidden, 48U);
  for (const Entry& row : large.rows) EXPECT_EQ(row.row.number("objects"), 157U);
  EXPECT_EQ(large.objects, kObjects) << "hidden ones count";
}

TEST(TracedMemory, is_four_bytes_an_object_where_counts_are_kept_and_the_stacks_are_the_same) {
  constexpr std::uint64_t kObjects = 10000;
  Machine machine;
  std::map<std::uint64_t, std::uint64_t> by_records;
  std::uint64_t bytes = 0;
  for (const char* way : {"slab_trace start stacks", "slab_trace start stacks counts"}) {
    ASSERT_EQ(machine.request(way).status, CommandStatus::kOk);
    const std::uint64_t trace = kmemstat_of(machine, "ktrace", 2);
    ASSERT_EQ(machine.request("workload run stacks 10000").status, CommandStatus::kOk);
    bytes = kmemstat_of(machine, "ktrace", 2) - trace;
    const Stacks stacks(machine.rows("slab_stacks stacks"));
    EXPECT_EQ(stacks.objects, kObjects);
    EXPECT_EQ(stacks.bytes, 64 * kObjects);
    std::map<std::uint64_t, std::uint64_t> objects;
    for (const Entry& row : stacks.rows) objects[row.row.number("stack")] = row.row.number("objects");
    if (by_records.empty()) by_records = objects;
    EXPECT_EQ(objects, by_records);
    EXPECT_EQ(machine.request("slab_trace stop stacks").status, CommandStatus::kOk);
    EXPECT_EQ(machine.request("slab_trace reset stacks").status, CommandStatus::kOk);
    EXPECT_EQ(machine.request("workload stop").status, CommandStatus::kOk);
    EXPECT_EQ(machine.request("reap stacks").status, CommandStatus::kOk);
  }
  EXPECT_LE(10 * bytes, 42 * kObjects) << "handles alone";
}

TEST_F(StacksTest, a_sample_stands_for_what_is_out) {
  run("slab_trace stop stacks");
  run("slab_trace reset stacks");
  run("slab_trace start stacks every 10");
  run("workload run stacks 10000");
  const Stacks stacks(machine().rows("slab_stacks stacks"));
  EXPECT_GT(stacks.objects, 8800U);
  EXPECT_LT(stacks.objects, 11200U);
  EXPECT_EQ(stacks.verdict, "incomplete");
  const std::string status = run("slab_trace status stacks");
  EXPECT_NE(status.find(", 28 bytes each, sampled 1 in 10, left out "), std::string::npos) << status;
  run("workload stop");
  EXPECT_EQ(Stacks(machine().rows("slab_stacks stacks")).objects, 0U);
  run("slab_trace stop stacks");
  run("slab_trace reset stacks");
}

TEST_F(StacksTest, of_a_leak_add_up_with_the_records) {
  run("slab_trace start packet");
  run("workload run leak 5000 seed 5");
  const Stacks stacks = expect_agreement("packet");
  EXPECT_GT(stacks.objects, 400U);
  ASSERT_EQ(stacks.rows.size(), 1U);
  EXPECT_TRUE(stacks.rows[0].names.starts_with("packet_alloc\nrx_checksum_error\n")) << stacks.rows[0].names;
}

TEST_F(StacksTest, a_mark_passes_around_what_gives_all_back_and_names_the_stack_of_a_leak) {
  run("workload run neutral 1");  // creates the classes that it needs
  for (const char* cache : {"packet", "session", "kmalloc*"}) run(std::string("slab_trace start ") + cache);
  run("mark quiet");
  run("workload run neutral 500");
  EXPECT_TRUE(run("expect quiet").starts_with("PASS\n"));
  run("mark leaky");
  const std::string leak = run("workload run leak 200 seed 3");
  const qm::test::Match forgot = qm::test::find(leak, "leak: forgot ([0-9]+) objects");
  ASSERT_FALSE(forgot.empty()) << leak;
  const Machine::Answer answer = machine().request("expect leaky");
  EXPECT_EQ(answer.status, CommandStatus::kFailed);
  EXPECT_TRUE(answer.text.starts_with(" packet_alloc+")) << answer.text;
  EXPECT_NE(answer.text.find("\n rx_checksum_error+"), std::string::npos) << answer.text;
  EXPECT_NE(answer.text.find("\nstack_count: " + forgot[1] + "\n"), std::string::npos) << answer.text;
  const std::string bytes = std::to_string(512 * std::stoul(forgot[1]));
  const std::string error = "error: expect leaky: " + forgot[1] + " objects, " + bytes + " bytes more\n";
  EXPECT_TRUE(answer.text.ends_with(error)) << answer.text;
  const std::string growth = run("growth leaky");
  EXPECT_NE(growth.find("\nstack_count: +" + forgot[1] + "\n"), std::string::npos) << growth;
  EXPECT_NE(growth.find("\npacket "), std::string::npos) << growth;
  EXPECT_TRUE(growth.ends_with(": complete\n")) << growth;
}

/// @returns the stacks of a boot, by id.
std::map<std::uint64_t, std::string> stacks_of_a_boot(unsigned harts, const char* ram) {
  qm::host::QemuOptions options = qm::test::demo();
  options.harts = harts;
  options.ram = ram;
  Machine machine(options);
  for (const char* line : {"slab_trace start stacks", "slab_trace start packet", "workload run leak 50 seed 5",
                           "workload run stacks 64"}) {
    EXPECT_EQ(machine.request(line).status, CommandStatus::kOk) << line;
  }
  std::map<std::uint64_t, std::string> names;
  for (const Entry& row : Stacks(machine.rows("slab_stacks")).rows) names[row.row.number("stack")] = row.names;
  return names;
}

TEST(StackIds, are_the_same_in_two_boots_with_other_harts_and_another_memory) {
  const auto one = stacks_of_a_boot(1, "64M");
  EXPECT_GE(one.size(), 65U);
  EXPECT_EQ(stacks_of_a_boot(3, "256M"), one);
}

TEST_F(StacksTest, are_reported_while_all_harts_churn) {
  run("slab_trace start *");
  run("workload start churn 4000000000");
  for (int i = 0; i < 5; ++i) {
    const Stacks stacks(machine().rows("slab_stacks"));
    std::set<std::uint64_t> ids;
    for (const Entry& row : stacks.rows) {
      EXPECT_TRUE(ids.insert(row.row.number("stack")).second) << row.row.number("stack") << " is there twice";
    }
    EXPECT_EQ(stacks.rows.size(), stacks.shown);
  }
  run("workload stop");
}

TEST(SlowLine, is_told_of_before_a_long_dump_and_an_aborted_one_says_what_it_has_shown) {
  auto options = qm::test::demo();
  options.append = "baud=115200";
  Machine machine(options);
  machine.type_line("slab_trace start stacks");
  machine.type_line("workload run stacks 3000");
  // Less than 10 s at this rate.
  EXPECT_LT(machine.type_line("slab_trace print stacks by stack").size(), 115200u);
  machine.clear();
  machine.send("slab_trace print stacks\r");
  ASSERT_TRUE(machine.wait_for_text("in qm::demo::run_worker"));
  machine.send("\x03");
  ASSERT_TRUE(machine.wait_for_text(": aborted"));
  const qm::test::Match told = qm::test::find(
      machine.text(), "-\r\nnote: 3000 objects, about ([0-9]+) s at 115200 baud; by stack is shorter\r\nObj ");
  ASSERT_FALSE(told.empty()) << machine.text().substr(0, 300);
  EXPECT_GT(std::stoul(told[1]), 60u);
  EXPECT_FALSE(qm::test::find(machine.text(), "note: shown [0-9]+ of 3000 that are out\r\n").empty());
}

}  // namespace trace_stacks_test
