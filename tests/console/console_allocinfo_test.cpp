// The holders of memory on the running demo: the rows of allocinfo, read in the way of programs for Linux's
// /proc/allocinfo, are compared with the bytes that kmemstat reports as allocated. Also the charges for allocations in
// a helper and in an interrupt.

#include "machine.hpp"

#include <qm/test/allocinfo.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/pattern.hpp>

#include <map>
#include <string>

namespace console_allocinfo_test {

using qm::test::Allocinfo;
using qm::test::AllocinfoRow;
using qm::test::Machine;
using qm::test::MachineTest;

class CallSites : public MachineTest {
 protected:
  static std::string run(std::string_view line) {
    const Machine::Answer answer = machine().request(line);
    EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
    return answer.text;
  }

  static Allocinfo rows(std::string_view line = "allocinfo") {
    Allocinfo info = qm::test::parse_allocinfo(run(line));
    EXPECT_EQ(info.wrong, "");
    return info;
  }

  /// @returns the allocated bytes of each cache and of the heap's large blocks, from kmemstat's column Alloc Amt.
  ///          Numbers and the allocator's own memory are left out, because no site is charged for them.
  static std::map<std::string, std::int64_t> held() {
    std::map<std::string, std::int64_t> bytes;
    for (const auto& row : qm::test::find_all(run("kmemstat -v"), R"((\S+) +: ([AS]) : +\d+: +\d+: +(\d+):)")) {
      const std::string& name = row[1];
      if (name == "dma_buffer" || name.starts_with("kmem_") || name.starts_with("kpages_")) continue;
      if (row[2] == "S" || name == "kheap") bytes[name] = std::stoll(row[3]);
    }
    return bytes;
  }

  /// Repeats until no allocation happened between two reports of allocated bytes, and calls @p compare with the
  /// allocinfo from between them. The demo's tasks sometimes replace an object, and the two cannot be compared then.
  template <class Compare>
  static void once_quiet(Compare compare) {
    std::string last;
    for (int attempt = 0; attempt < 100; ++attempt) {
      const auto before = held();
      const Allocinfo info = rows();
      if (before != held()) continue;
      last = compare(info, before);
      if (last.empty()) return;  // an object may be between two owners
    }
    ADD_FAILURE() << "never equal: " << last;
  }

  static std::string equal(const Allocinfo& info, const std::map<std::string, std::int64_t>& held) {
    std::int64_t sum = 0;
    for (const auto& [name, bytes] : held) sum += bytes;
    const std::int64_t rows = info.size_but_of("qm");
    return rows == sum ? "" : "rows " + std::to_string(rows) + ", held " + std::to_string(sum);
  }
};

TEST_F(CallSites, add_up_to_what_users_hold_after_churn_on_all_harts) {
  run("workload run churn 1500");
  once_quiet(equal);
  run("workload run neutral 200");  // packets are freed on other harts than those that allocated them
  once_quiet(equal);
  run("workload run leak 300");  // and some are not freed
  once_quiet([](const Allocinfo& info, const auto& held) {
    const AllocinfoRow* leaked = info.of("packet_alloc");
    if (leaked == nullptr || leaked->size != held.at("packet")) return std::string("packets");
    return equal(info, held);
  });
}

TEST_F(CallSites, add_up_whatever_is_traced) {
  for (const char* how : {"", " counts", " every 3"}) {
    run(std::string("slab_trace start *") + how);
    run("workload run neutral 100");
    run("workload run leak 200");
    run("slab_trace stop *");
    run("workload run churn 200");  // frees look for records
    once_quiet(equal);
    run("slab_trace reset *");
  }
}

TEST_F(CallSites, charge_each_way_to_allocate_as_the_document_says) {
  constexpr unsigned kRounds = 40;
  run("workload start sites " + std::to_string(kRounds));
  ASSERT_TRUE(machine().wait_for_text("objects held"));
  once_quiet(equal);
  const Allocinfo info = rows();
  const std::uint64_t of_a_hart = kRounds * 5;
  std::map<std::string, std::pair<std::uint64_t, std::int64_t>> sums;  // calls and bytes by function
  std::uint64_t all = 0;
  for (const AllocinfoRow& row : info.rows) {
    auto& [calls, bytes] = sums[row.function];
    calls += row.calls;
    bytes += row.size;
    if (row.file.ends_with("sites.cpp") || row.function == "<untagged>") all += row.calls;
    EXPECT_TRUE(row.is_accurate()) << row.function;
  }
  // Every second object in each hart's list has been freed: half of each of 5 kinds in turn.
  const std::uint64_t half = kRounds * qm::test::harts() / 2;
  EXPECT_EQ(all, of_a_hart * qm::test::harts() / 2);
  EXPECT_EQ(sums["sites_hooked"].first, 2 * half);
  EXPECT_EQ(sums["sites_hooked"].second,
            static_cast<std::int64_t>(half * (192 + 512)));  // its realloc took over the charge
  EXPECT_EQ(sums["sites_converted"].first, half);
  EXPECT_EQ(sums["sites_converted"].second, static_cast<std::int64_t>(half * 112));
  ASSERT_NE(info.of("sites_converted"), nullptr);
  EXPECT_EQ(info.of("sites_converted")->others.at("requested"), std::to_string(half * 100));
  EXPECT_EQ(sums["record_alloc"].first, half);
  EXPECT_EQ(sums["record_alloc"].second, static_cast<std::int64_t>(half * 48));
  EXPECT_EQ(sums["<untagged>"].first, half);
  EXPECT_EQ(sums.count("report_alloc_at"), 0U) << "a converted helper holds nothing";
  EXPECT_EQ(sums.count("sites_untagged"), 0U);
  run("workload stop");
  machine().settle();
  EXPECT_EQ(rows().of("sites_hooked"), nullptr);
  EXPECT_EQ(rows().of("<untagged>"), nullptr);
  once_quiet(equal);
}

TEST_F(CallSites, charge_an_interrupt_to_its_own_site_whatever_it_interrupts) {
  run("workload start churn 100000");
  const std::int64_t each = 48;
  for (int i = 0; i < 10; ++i) {
    const Allocinfo info = rows();
    const AllocinfoRow* tick = info.of("tick_interrupt");
    ASSERT_NE(tick, nullptr);
    EXPECT_LE(tick->calls, 4 * qm::test::harts());
    EXPECT_GE(tick->calls, 3 * qm::test::harts());
    EXPECT_EQ(tick->size, static_cast<std::int64_t>(tick->calls) * each);
  }
  run("workload stop");
  machine().settle();
  once_quiet([](const Allocinfo& info, const auto& held) {
    const AllocinfoRow* tick = info.of("tick_interrupt");
    if (tick == nullptr || tick->size != held.at("tick_event")) return std::string("ticks");
    return equal(info, held);
  });
}

TEST_F(CallSites, say_which_rows_have_missed_what_was_allocated_while_off) {
  run("allocinfo off");
  run("workload start sites 10");
  ASSERT_TRUE(machine().wait_for_text("objects held"));
  const Allocinfo off = rows();
  const AllocinfoRow* missed = off.of("record_alloc");
  ASSERT_NE(missed, nullptr);
  EXPECT_EQ(missed->size, 0);
  EXPECT_FALSE(missed->is_accurate());
  EXPECT_NE(run("allocinfo").find(", state off: complete\n"), std::string::npos);
  run("allocinfo on");
  run("workload stop");
  machine().settle();
  for (const AllocinfoRow& row : rows().rows) {
    if (row.file.ends_with("sites.cpp")) ADD_FAILURE() << row.function << " still says " << row.size;
  }
}

}  // namespace console_allocinfo_test
