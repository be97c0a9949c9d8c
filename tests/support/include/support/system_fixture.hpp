#pragma once
/// A fresh allocator for each test, over memory of the test's own.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/page_map.hpp>
#include <qm/system.hpp>

namespace qm::test {

inline constexpr std::size_t kPoolBytes = std::size_t{4} << 20;

/// The memory of the tests. The page map has the same leaves for it, wherever the program is loaded: a leaf is made with
/// the first slab that needs it and stays, and what a test counts must not depend on where the program lies.
inline std::byte* pool() {
  static_assert(PageMap::kLeafBytes % kPoolBytes == 0 || kPoolBytes % PageMap::kLeafBytes == 0);
  static std::byte memory[2 * kPoolBytes];
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (kPoolBytes - start % kPoolBytes) % kPoolBytes;
}

class SystemTest : public testing::Test {
 protected:
  void SetUp() override { start(kPoolBytes); }
  void TearDown() override { shutdown(); }

  void start(std::size_t bytes, unsigned harts = 1) {
    const MemoryRange range{reinterpret_cast<std::uintptr_t>(pool()), bytes};
    ASSERT_EQ(initialize({&range, 1}, harts), Status::kOk);
    ASSERT_EQ(page_arena().quantum() % PageMap::kPageBytes, 0U);  // and so every test has it
    attach_hart(0);
  }
  void restart(std::size_t bytes, unsigned harts = 1) {
    shutdown();
    start(bytes, harts);
  }

  /// Bytes of base that are free once everything idle has been given back.
  static std::size_t free_bytes() {
    reclaim();
    return base_arena().stats().free;
  }
};

}  // namespace qm::test
