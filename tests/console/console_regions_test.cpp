// A board with memory in two regions, and arenas over addresses that the processor does not access.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <string>

namespace console_regions_test {

using qm::test::Machine;

/// The board `virt` with its memory in two nodes of 48 and 80 MiB.
qm::host::QemuOptions two_regions() {
  qm::host::QemuOptions options = qm::test::demo();
  options.ram = "128M";
  for (const char* word : {"-object", "memory-backend-ram,id=m0,size=48M", "-object",
                           "memory-backend-ram,id=m1,size=80M", "-numa", "node,memdev=m0", "-numa", "node,memdev=m1"}) {
    options.extra.emplace_back(word);
  }
  return options;
}

std::string run(Machine& machine, std::string_view line) {
  const Machine::Answer answer = machine.request(line);
  EXPECT_EQ(answer.status, qm::wire::CommandStatus::kOk) << line << "\n" << answer.text;
  return answer.text;
}

unsigned long number_after(const std::string& text, const std::string& label) {
  const std::size_t at = text.find(label);
  EXPECT_NE(at, std::string::npos) << label << " in\n" << text;
  return at == std::string::npos ? 0 : std::stoul(text.substr(at + label.size()));
}

TEST(Regions, serve_as_one_memory) {
  Machine machine(two_regions());
  const std::string text = run(machine, "arena_stats base");
  EXPECT_GE(number_after(text, "Amt total segs: "), 124U << 20);
  EXPECT_GT(number_after(text, "Largest free: "), 70U << 20) << "the larger region";
  EXPECT_LT(number_after(text, "Largest free: "), 81U << 20) << "nothing crosses from one region into the other";
  EXPECT_GE(number_after(text, ", spans "), 3U);
  const std::string exhausted = run(machine, "workload run exhaust");
  EXPECT_GT(number_after(exhausted, "survived, "), 120U << 20) << "both regions were used to the end";
  EXPECT_NE(run(machine, "workload run churn 2000").find("outstanding 0"), std::string::npos);
  EXPECT_EQ(number_after(run(machine, "workload run neutral 200"), "outstanding "), 0U);
}

TEST(Regions, addresses_of_devices_and_numbers_are_handed_out_untouched) {
  Machine machine;
  const std::string dma = run(machine, "arena_stats dma");
  EXPECT_NE(dma.find("\tquantum: 64, qcache_max: 0\n\tsource: none\n"), std::string::npos) << dma;
  EXPECT_EQ(number_after(dma, "Amt total segs: "), 16U << 20);
  EXPECT_GE(number_after(dma, "amt alloc segs "), 4U * 4096) << "the devices' rings";
  EXPECT_NE(dma.find("\t\tdma_buffer\n"), std::string::npos);
  const std::string ids = run(machine, "arena_stats inode_ids");
  EXPECT_EQ(number_after(ids, "Amt total segs: "), 65535U);
  const std::string all = run(machine, "kmemstat -v");
  const char* const arena =
      "\ndma +: A : +64: +16777216: +[0-9]+: +[0-9]+: +0: +[0-9]+: 0\n    dma_buffer +: S : +2048: ";
  EXPECT_FALSE(qm::test::find(all, arena).empty()) << all;
  EXPECT_FALSE(qm::test::find(all, "\ninode_ids +: A : +1: +65535: ").empty()) << all;
  // Memory is distinguished from other addresses: the sum does not include the window.
  EXPECT_LT(number_after(run(machine, "free -v"), "Total Memory : "), 128U << 20);
}

}  // namespace console_regions_test
