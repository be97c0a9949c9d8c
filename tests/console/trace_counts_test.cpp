// Full record pools, full stack depots, no memory at all: the numbers of recorded and dropped objects add up to the
// workload's own count, and each report says that it is incomplete.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <cstdint>
#include <string>

namespace trace_counts_test {

using qm::test::Machine;

struct Closing {
  std::uint64_t outstanding = 0;
  std::uint64_t recorded = 0;
  std::uint64_t dropped = 0;
  std::string verdict;
};

Closing closing_line(const std::string& report) {
  const qm::test::Match match =
      qm::test::find(report, "outstanding ([0-9]+), recorded ([0-9]+), dropped ([0-9]+).*: ([a-z]+)\\n$");
  EXPECT_FALSE(match.empty()) << report.substr(report.size() > 400 ? report.size() - 400 : 0);
  if (match.empty()) return {};
  return {std::stoull(match[1]), std::stoull(match[2]), std::stoull(match[3]), match[4]};
}

std::string run(Machine& machine, const std::string& line) {
  const Machine::Answer answer = machine.request(line);
  EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text << "\n" << machine.transcript();
  return answer.text;
}

qm::host::QemuOptions with(const std::string& boot_options) {
  qm::host::QemuOptions options = qm::test::demo();
  options.append = boot_options;
  return options;
}

TEST(Counts, a_full_record_pool_drops_and_says_how_many) {
  Machine machine(with("records=500"));
  run(machine, "slab_trace start stacks");
  EXPECT_EQ(run(machine, "workload run stacks 3000"), "stacks: 3000 objects from 64 paths\n");
  const Closing closing = closing_line(run(machine, "slab_trace print stacks"));
  EXPECT_GT(closing.dropped, 0U);
  EXPECT_EQ(closing.recorded + closing.dropped, 3000U);
  EXPECT_EQ(closing.outstanding, closing.recorded);
  EXPECT_EQ(closing.verdict, "incomplete");
  const std::string status = run(machine, "slab_trace status stacks");
  EXPECT_TRUE(status.ends_with("incomplete\n")) << status;
  run(machine, "workload stop");
  EXPECT_EQ(closing_line(run(machine, "slab_trace print stacks")).outstanding, 0U);
}

TEST(Counts, a_full_stack_depot_keeps_the_records_and_says_that_stacks_are_missing) {
  Machine machine(with("stacks=4096"));
  run(machine, "slab_trace start stacks");
  EXPECT_EQ(run(machine, "workload run stacks 1000"), "stacks: 1000 objects from 64 paths\n");
  const Closing closing = closing_line(run(machine, "slab_trace print stacks"));
  EXPECT_EQ(closing.recorded + closing.dropped, 1000U);
  EXPECT_EQ(closing.outstanding, closing.recorded);
  EXPECT_EQ(closing.verdict, "incomplete");
}

TEST(Counts, with_a_tiny_depot_and_pool_every_report_says_what_is_missing_and_the_system_goes_on) {
  Machine machine(with("stacks=1024 records=200"));
  run(machine, "slab_trace start stacks");
  run(machine, "mark tiny");
  EXPECT_EQ(run(machine, "workload run stacks 400"), "stacks: 400 objects from 64 paths\n");
  // Fewer than 200 records: other harts cannot use the free records in a hart's stash.
  const Closing closing = closing_line(run(machine, "slab_trace print stacks"));
  EXPECT_EQ(closing.recorded + closing.dropped, 400U);
  const std::string dropped = "dropped " + std::to_string(closing.dropped);
  const std::string lost = "without a stack: the stack depot is full\n";
  for (const char* report :
       {"slab_trace print stacks", "slab_trace status", "slab_stacks stacks", "leaks tiny by stack", "growth tiny"}) {
    const std::string text = run(machine, report);
    EXPECT_NE(text.find(dropped), std::string::npos) << report << "\n" << text;
    EXPECT_NE(text.find(lost), std::string::npos) << report << "\n" << text;
    EXPECT_TRUE(text.ends_with(": incomplete\n")) << report << "\n" << text;
  }
  for (const char* report : {"leaks tiny", "marks"}) {
    const std::string text = run(machine, report);
    EXPECT_NE(text.find(dropped + ": incomplete\n"), std::string::npos) << report << "\n" << text;
  }
  const Machine::Answer failed = machine.request("expect tiny");
  EXPECT_EQ(failed.status, qm::wire::CommandStatus::kFailed);
  EXPECT_NE(
      failed.text.find(dropped + ": incomplete\nerror: expect tiny: " + std::to_string(closing.recorded) + " objects"),
      std::string::npos)
      << failed.text;
  run(machine, "workload stop");
  const Machine::Answer unknown = machine.request("expect tiny");
  EXPECT_EQ(unknown.status, qm::wire::CommandStatus::kFailed) << "what was dropped may be out still";
  EXPECT_NE(run(machine, "workload run neutral 20").find("outstanding 0\n"), std::string::npos);
  EXPECT_TRUE(run(machine, "verify").ends_with("faults 0: complete\n"));
}

TEST(Counts, out_of_memory_with_tracing_on_adds_up_and_the_system_goes_on) {
  Machine machine;
  const std::string before = run(machine, "free -v");
  run(machine, "slab_trace start exhaust");
  const std::string text = run(machine, "workload run exhaust");
  const qm::test::Match match =
      qm::test::find(text, "exhaust: ([0-9]+) objects of exhaust\\nexhaust: survived, ([0-9]+) bytes recovered\\n$");
  ASSERT_FALSE(match.empty()) << text;
  EXPECT_GT(std::stoull(match[2]), 100U << 20);
  const Closing closing = closing_line(run(machine, "slab_trace print exhaust"));
  EXPECT_EQ(closing.recorded + closing.dropped, std::stoull(match[1]));
  EXPECT_EQ(closing.outstanding, 0U);
  run(machine, "slab_trace stop exhaust");
  EXPECT_NE(run(machine, "workload run neutral 20").find("outstanding 0\n"), std::string::npos);
}

TEST(Counts, tracing_from_boot_sees_the_first_allocation) {
  Machine machine(with("trace=tick_event,inode"));
  const std::string status = run(machine, "slab_trace status inode");
  EXPECT_NE(status.find(": on "), std::string::npos) << status;
  const std::string report = run(machine, "slab_trace print inode");
  EXPECT_NE(report.find("from before start 0"), std::string::npos) << report;
  EXPECT_NE(report.find("in fs_task\n"), std::string::npos) << report;
}

TEST(Counts, tracing_all_from_boot_has_what_the_allocator_itself_allocated_first) {
  Machine machine(with("trace=* records=20000 stacks=128K"));
  // The object from before is the cache of the trace's own records; then come the caches that serve pages.
  const std::string caches = run(machine, "slab_trace print -v kmem_cache");
  EXPECT_FALSE(qm::test::find(caches,
                              ", from hart 0 boot: size [0-9]+, age [0-9.]+ s, seq 1\n----\n"
                              "#01 [^\n]*start_allocator\n#02 [^\n]*early_main\n#03 [^\n]*qm_boot\n")
                   .empty())
      << caches;
  EXPECT_NE(caches.find("from before start 1: complete"), std::string::npos) << caches;
  for (const char* name : {"kheap", "kpages", "kpages_4096", "dma", "packet"}) {
    const std::string report = run(machine, std::string("slab_trace print ") + name);
    EXPECT_NE(report.find("from before start 0: complete"), std::string::npos) << report;
  }
  // Allocations from the rings are constrained: each is a segment.
  const std::string ring = run(machine, "whatis 0x40000010");
  EXPECT_FALSE(
      qm::test::find(ring,
                     "^arena dma: segment 0x0000000040000000 \\+ 16\n  4096 bytes, allocated\n(  taken at [^\n]*\n)?"
                     "Obj 0x0000000040000000, from hart 0 boot: size 4096, ")
          .empty())
      << ring;
  EXPECT_NE(ring.find("in qm::demo::create_arenas\n"), std::string::npos) << ring;
  const std::string status = run(machine, "slab_trace status");
  EXPECT_FALSE(qm::test::find(
                   status, ", records [0-9]+ of 5[0-9]{5} bytes, stacks [0-9]+ of 131072 bytes, dropped 0: complete\n$")
                   .empty())
      << status;
}

TEST(Counts, a_trace_that_memory_has_no_room_for_is_reported_and_the_system_boots) {
  Machine machine(with("trace=* records=4000000"));
  EXPECT_TRUE(machine.wait_for_text("warning: no trace as large as the boot options say: nothing is traced\r\n"))
      << machine.text();
  EXPECT_NE(run(machine, "slab_trace status").find("traced 0 of "), std::string::npos);
}

}  // namespace trace_counts_test
