/// Memory of any size that is given to initialize(): it is refused, or serves blocks.

#include <support/system_fixture.hpp>

#include <algorithm>

#include <qm/detail/page_map.hpp>
#include <qm/heap.hpp>

namespace alloc_pool_test {

using namespace qm;

class PoolTest : public qm::test::SystemTest {
 protected:
  /// Bytes that blocks do not get, at most.
  static constexpr std::size_t kOverhead = std::max<std::size_t>(8 * PageMap::kPageBytes, 10 * 1024);
};

TEST_F(PoolTest, a_pool_of_any_size_is_refused_or_serves_blocks_until_it_is_full) {
  shutdown();
  std::size_t least = 0;
  for (const std::size_t offset : {std::size_t{0}, std::size_t{16}, std::size_t{4000}}) {
    for (std::size_t bytes = 0; bytes <= std::size_t{64} * 1024; bytes += 16) {
      const MemoryRange range{reinterpret_cast<std::uintptr_t>(qm::test::pool()) + offset, bytes};
      const Status status = initialize({&range, 1}, 1);
      if (status != Status::kOk) {
        ASSERT_TRUE(status == Status::kInvalid || status == Status::kNoMemory) << bytes;
        continue;
      }
      attach_hart(0);
      if (least == 0) least = bytes;
      void* block = heap::allocate(100);
      ASSERT_NE(block, nullptr) << bytes;
      if (bytes % 1024 == 0) {
        std::size_t held = 1;
        while (heap::allocate(100) != nullptr) ++held;
        EXPECT_GE(held * 112 + kOverhead, bytes) << bytes;
      }
      shutdown();
    }
  }
  EXPECT_LE(least, 8 * PageMap::kPageBytes);  // including kpages, which the fixture links
  start(std::size_t{64} * 1024);
}

}  // namespace alloc_pool_test
