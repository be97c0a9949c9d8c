#include <support/system_fixture.hpp>

#include <memory_resource>
#include <vector>

#include <qm/memory_resource.hpp>

namespace alloc_memory_resource_test {

using namespace qm;

class MemoryResource : public qm::test::SystemTest {};

TEST_F(MemoryResource, serves_a_container_and_gets_all_of_it_back) {
  {
    std::pmr::vector<int> numbers(&heap_resource());
    for (int i = 0; i < 5000; ++i) numbers.push_back(i);
    for (int i = 0; i < 5000; ++i) ASSERT_EQ(numbers[static_cast<std::size_t>(i)], i);
    EXPECT_GE(heap::usable_size(numbers.data()), 5000 * sizeof(int));
    numbers.resize(3);
    numbers.shrink_to_fit();
    EXPECT_EQ(numbers.back(), 2);
  }
  EXPECT_EQ(heap::misuses(), 0U);
}

TEST_F(MemoryResource, aligns_and_checks_the_size) {
  std::pmr::memory_resource& resource = heap_resource();
  for (std::size_t alignment = 1; alignment <= 4096; alignment *= 2) {
    for (std::size_t size : {1U, 100U, 3000U}) {
      void* block = resource.allocate(size, alignment);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U);
      resource.deallocate(block, size, alignment);
    }
  }
  EXPECT_EQ(heap::misuses(), 0U);
  void* block = resource.allocate(100, 8);
  resource.deallocate(block, 200, 8);
  EXPECT_EQ(heap::misuses(), 1U);
  resource.deallocate(block, 100, 8);
  EXPECT_EQ(heap::misuses(), 1U);
  EXPECT_TRUE(resource.is_equal(heap_resource()));
}

}  // namespace alloc_memory_resource_test
