/// The RAM that allocator and trace use before the first allocation: on the target, with all of the board's memory.

#include <gtest/gtest.h>

#include <array>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>

extern "C" {
extern const char __qm_trace_data_start[], __qm_trace_data_end[], __qm_trace_bss_start[], __qm_trace_bss_end[];
extern const char __tls_blocks[], __tls_first_block_end[];
}

namespace alloc_footprint_test {

using namespace qm;

TEST(Footprint, bootstrap_takes_at_most_32_KiB_of_RAM) {
  const firmware::BootInfo& info = firmware::boot_info();
  std::array<MemoryRange, 16> memory;
  std::size_t count = 0;
  for (const hal::MemoryRange& range : info.memory) {
    if (count < memory.size()) memory[count++] = {range.low, range.bytes()};
  }
  ASSERT_EQ(initialize({memory.data(), count}, info.hart_count), Status::kOk);
  attach_hart(0);
  trace::Config config;
  config.object_base = memory[0].start;
  ASSERT_EQ(trace::initialize(config), Status::kOk);
  // The page of the first boundary tags is not counted among those of base.
  const std::size_t pages = base_arena().stats().allocated + SlabLayer::kPageBytes;
  const auto own = static_cast<std::size_t>(__qm_trace_data_end - __qm_trace_data_start) +
                   static_cast<std::size_t>(__qm_trace_bss_end - __qm_trace_bss_start) +
                   info.hart_count * static_cast<std::size_t>(__tls_first_block_end - __tls_blocks);
  EXPECT_GT(own, 1000U);
  EXPECT_LE(pages + own, 32768U) << "pages " << pages << ", data, bss and hart-locals " << own;
  trace::shutdown();
  shutdown();
}

}  // namespace alloc_footprint_test
