// Target only: on the host the C++ library itself uses operator new, before the heap is set up.

#include <support/system_fixture.hpp>

#include <new>
#include <vector>

#include <qm/new.hpp>

namespace alloc_operator_new_test {

using namespace qm;

class OperatorNew : public qm::test::SystemTest {
 protected:
  void TearDown() override {
    EXPECT_EQ(heap::misuses(), 0U);
    std::set_new_handler(nullptr);
    SystemTest::TearDown();
  }
};

struct Plain {
  int value = 7;
};
struct alignas(256) Wide {
  char bytes[300] = {};
};
struct Base {
  virtual ~Base() = default;
};
struct Derived : Base {
  char bytes[1000] = {};
};
/// An array of it has a cookie.
struct Counted {
  static inline int alive = 0;
  Counted() { ++alive; }
  ~Counted() { --alive; }
};

template <class T>
T* opaque(T* pointer) {
  asm volatile("" : "+r"(pointer));  // keeps the compiler from removing a pair of new and delete
  return pointer;
}

TEST_F(OperatorNew, charges_a_block_to_the_site_that_it_is_given) {
  auto* plain = opaque(new (QM_SITE) Plain);
  const unsigned line = __LINE__ - 1;
  auto* plains = opaque(new (QM_SITE) Plain[10]);
  auto* wide = opaque(new (QM_SITE) Wide);
  EXPECT_EQ(plain->value, 7);
  EXPECT_EQ(plains[9].value, 7);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide) % 256, 0U);
  if constexpr (kCallSites) {
    ASSERT_NE(heap::site_of(plain), nullptr);
    EXPECT_EQ(heap::site_of(plain)->line, line);
    EXPECT_EQ(heap::site_of(plains)->line, line + 2);
    EXPECT_EQ(heap::site_of(wide)->line, line + 3);
    Plain* untagged = opaque(new Plain);
    EXPECT_EQ(heap::site_of(untagged), &qm_untagged_site);
    delete untagged;
  }
  delete plain;
  delete[] plains;
  delete wide;
}

TEST_F(OperatorNew, gives_and_takes_objects_and_arrays_of_every_alignment) {
  Plain* plain = opaque(new Plain);
  EXPECT_EQ(plain->value, 7);
  EXPECT_GE(heap::usable_size(plain), sizeof(Plain));
  delete plain;
  Wide* wide = opaque(new Wide);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wide) % 256, 0U);
  delete wide;
  Wide* wides = opaque(new Wide[3]);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(wides) % 256, 0U);
  delete[] wides;
  Base* base = opaque<Base>(new Derived);
  EXPECT_GE(heap::usable_size(base), sizeof(Derived));
  delete base;
  Counted* counted = opaque(new Counted[10]);
  EXPECT_EQ(Counted::alive, 10);
  delete[] counted;
  EXPECT_EQ(Counted::alive, 0);
  delete opaque<Plain>(nullptr);
}

TEST_F(OperatorNew, has_every_form_called_by_name) {
  constexpr std::align_val_t kAligned{128};
  const std::nothrow_t& nothrow = std::nothrow;
  operator delete(operator new(100));
  operator delete[](operator new[](100));
  operator delete(operator new(100), 100);
  operator delete[](operator new[](100), 100);
  operator delete(operator new(100, nothrow), nothrow);
  operator delete[](operator new[](100, nothrow), nothrow);
  operator delete(operator new(100, kAligned), kAligned);
  operator delete[](operator new[](100, kAligned), kAligned);
  operator delete(operator new(100, kAligned), 100, kAligned);
  operator delete[](operator new[](100, kAligned), 100, kAligned);
  operator delete(operator new(100, kAligned, nothrow), kAligned, nothrow);
  operator delete[](operator new[](100, kAligned, nothrow), kAligned, nothrow);
}

TEST_F(OperatorNew, serves_the_standard_containers) {
  std::vector<int> numbers;
  for (int i = 0; i < 3000; ++i) numbers.push_back(i);
  EXPECT_EQ(numbers[2999], 2999);
}

TEST_F(OperatorNew, without_memory_the_nothrow_forms_return_null) {
  EXPECT_EQ(operator new(qm::test::kPoolBytes, std::nothrow), nullptr);
  EXPECT_EQ(operator new[](qm::test::kPoolBytes, std::nothrow), nullptr);
  EXPECT_EQ(operator new (SIZE_MAX, std::align_val_t{64}, std::nothrow), nullptr);
  EXPECT_EQ(operator new[](SIZE_MAX, std::align_val_t{64}, std::nothrow), nullptr);
}

void* hoard = nullptr;

TEST_F(OperatorNew, a_handler_frees_something_and_the_allocation_goes_on) {
  constexpr std::size_t kHalf = qm::test::kPoolBytes / 2;
  hoard = operator new(kHalf);
  EXPECT_EQ(std::set_new_handler([] {
              operator delete(hoard);
              hoard = nullptr;
              std::set_new_handler(nullptr);
            }),
            nullptr);
  void* block = operator new(kHalf + 4096);
  EXPECT_NE(block, nullptr);
  EXPECT_EQ(hoard, nullptr);
  EXPECT_EQ(std::get_new_handler(), nullptr);
  operator delete(block);
}

}  // namespace alloc_operator_new_test
