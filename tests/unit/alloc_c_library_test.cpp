// malloc() and its family, and newlib's reentrant forms, as in quartermaster::malloc.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/heap.hpp>

#include <support/system_fixture.hpp>

extern "C" {
void* malloc(std::size_t size);
void free(void* block);
void cfree(void* block);
void* calloc(std::size_t count, std::size_t size);
void* realloc(void* block, std::size_t size);
void* aligned_alloc(std::size_t alignment, std::size_t size);
void* memalign(std::size_t alignment, std::size_t size);
int posix_memalign(void** block, std::size_t alignment, std::size_t size);
std::size_t malloc_usable_size(void* block);
void* _malloc_r(void* reent, std::size_t size);
void _free_r(void* reent, void* block);
void* _calloc_r(void* reent, std::size_t count, std::size_t size);
void* _realloc_r(void* reent, void* block, std::size_t size);
void* _memalign_r(void* reent, std::size_t alignment, std::size_t size);
std::size_t _malloc_usable_size_r(void* reent, void* block);
}

namespace alloc_c_library_test {

using qm::heap::usable_size;

class CLibrary : public qm::test::SystemTest {
 protected:
  static bool zero(const void* block, std::size_t size) {
    for (std::size_t i = 0; i < size; ++i) {
      if (static_cast<const unsigned char*>(block)[i] != 0) return false;
    }
    return true;
  }
};

TEST_F(CLibrary, allocates_from_the_heap) {
  qm::test::make_class(100);
  void* const block = malloc(100);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(malloc_usable_size(block), usable_size(block));
  EXPECT_GE(usable_size(block), 100U);
  free(block);
  EXPECT_EQ(malloc(100), block);  // the object freed last
  cfree(block);
  free(nullptr);
}

// Hides the value from the compiler, which would warn.
volatile std::size_t half = SIZE_MAX / 2;

TEST_F(CLibrary, clears_and_moves) {
  void* const block = calloc(10, 7);
  ASSERT_NE(block, nullptr);
  EXPECT_TRUE(zero(block, 70));
  void* const larger = realloc(block, 5000);
  ASSERT_NE(larger, nullptr);
  EXPECT_TRUE(zero(larger, 70));
  free(larger);
  EXPECT_EQ(calloc(half, 3), nullptr);
}

TEST_F(CLibrary, aligns) {
  void* const first = aligned_alloc(256, 10);
  void* const second = memalign(512, 10);
  void* third = nullptr;
  EXPECT_EQ(posix_memalign(&third, 1024, 10), 0);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first) % 256, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(second) % 512, 0U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(third) % 1024, 0U);
  EXPECT_TRUE(first != nullptr && second != nullptr && third != nullptr);
  free(first);
  free(second);
  free(third);
}

TEST_F(CLibrary, says_why_posix_memalign_fails) {
  void* block = &block;
  EXPECT_EQ(posix_memalign(&block, 48, 10), 22);  // EINVAL
  EXPECT_EQ(posix_memalign(&block, sizeof(void*) / 2, 10), 22);
  EXPECT_EQ(posix_memalign(&block, 64, half), 12);  // ENOMEM
  EXPECT_EQ(block, &block);
}

TEST_F(CLibrary, has_the_reentrant_forms) {
  void* block = _malloc_r(nullptr, 40);
  ASSERT_NE(block, nullptr);
  EXPECT_EQ(_malloc_usable_size_r(nullptr, block), usable_size(block));
  block = _realloc_r(nullptr, block, 400);
  EXPECT_GE(usable_size(block), 400U);
  _free_r(nullptr, block);
  block = _calloc_r(nullptr, 4, 10);
  EXPECT_TRUE(block != nullptr && zero(block, 40));
  _free_r(nullptr, block);
  block = _memalign_r(nullptr, 128, 10);
  EXPECT_TRUE(block != nullptr && reinterpret_cast<std::uintptr_t>(block) % 128 == 0);
  _free_r(nullptr, block);
}

TEST_F(CLibrary, serves_new_from_the_same_heap) {
  auto* const number = new int(7);
  EXPECT_GE(malloc_usable_size(number), sizeof *number);
  delete number;
}

}  // namespace alloc_c_library_test
