#pragma once
/// A new allocator for each test, over memory of the test.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/system.hpp>

namespace qm::test {

inline constexpr std::size_t kPoolBytes = std::size_t{4} << 20;

/// The memory of the tests. Its page-map leaves are the same wherever the program is loaded: a leaf is made with the
/// first slab that needs it and stays, and the counts in a test must not depend on the program's address.
inline std::byte* pool() {
  static_assert(PageMap::kLeafBytes % kPoolBytes == 0 || kPoolBytes % PageMap::kLeafBytes == 0);
  static std::byte memory[2 * kPoolBytes];
  const auto start = reinterpret_cast<std::uintptr_t>(memory);
  return memory + (kPoolBytes - start % kPoolBytes) % kPoolBytes;
}

/// The object size of the class that serves @p size bytes.
inline std::size_t class_size(std::size_t size) {
  unsigned number = 1;
  while (heap::class_bytes(number) < size) ++number;
  return heap::class_bytes(number);
}

/// Makes the heap create the cache of the class that serves @p size bytes: the first operations of a class use blocks,
/// and each of them makes progress towards the class's cache. Without magazines those do that are as large as an object.
inline void make_class(std::size_t size) {
  for (int steps = 8; steps != 0; --steps) heap::free(heap::allocate(class_size(size)));
}

class SystemTest : public testing::Test {
 protected:
  void SetUp() override { start(kPoolBytes); }
  void TearDown() override { shutdown(); }

  void start(std::size_t bytes, unsigned harts = 1) {
    const MemoryRange range{reinterpret_cast<std::uintptr_t>(pool()), bytes};
    ASSERT_EQ(initialize({&range, 1}, harts), Status::kOk);
    ASSERT_EQ(page_arena().quantum() % PageMap::kPageBytes, 0U);  // and every test relies on it
    attach_hart(0);
  }
  void restart(std::size_t bytes, unsigned harts = 1) {
    shutdown();
    start(bytes, harts);
  }

  /// @returns the free bytes of base after all idle memory has been reclaimed.
  static std::size_t free_bytes() {
    reclaim();
    return base_arena().stats().free;
  }
};

}  // namespace qm::test
