#include "trace_fixture.hpp"

#include <qm/heap.hpp>

namespace trace_heap_test {

using namespace qm;

class TraceHeap : public qm::test::TraceTest {
 protected:
  /// @returns the class's cache, which is created if necessary.
  static Cache& traced_class(const char* name, std::size_t size) {
    qm::test::make_class(size);
    RegistryCursor<Cache> caches;
    Cache* cache = caches.find(name);
    EXPECT_EQ(trace::start(name).status, Status::kOk);
    return *cache;
  }
};

TEST_F(TraceHeap, records_the_size_that_was_asked_for) {
  Cache& cache = traced_class("kmalloc_64", 50);
  void* block = heap::allocate(50);
  trace::DumpEntry entry;
  ASSERT_TRUE(trace::find(cache, block, entry));
  EXPECT_EQ(entry.requested, 50U);
  heap::free(block);
  EXPECT_FALSE(trace::find(cache, block, entry));
}

TEST_F(TraceHeap, a_reallocation_in_place_is_the_same_record_with_another_size) {
  Cache& cache = traced_class("kmalloc_64", 50);
  void* block = heap::allocate(50);
  trace::DumpEntry before;
  ASSERT_TRUE(trace::find(cache, block, before));
  ASSERT_EQ(heap::reallocate(block, 63), block);
  trace::DumpEntry after;
  ASSERT_TRUE(trace::find(cache, block, after));
  EXPECT_EQ(after.requested, 63U);
  EXPECT_EQ(after.sequence, before.sequence);
  EXPECT_EQ(after.stack_id, before.stack_id);
  EXPECT_EQ(trace::cache_trace(cache).figures.recorded, 1U);
  // The same while it is draining; a block without a record stays without one.
  void* later = nullptr;
  ASSERT_EQ(trace::stop("kmalloc_64").status, Status::kOk);
  later = heap::allocate(50);
  ASSERT_EQ(heap::reallocate(block, 49), block);
  ASSERT_EQ(heap::reallocate(later, 49), later);
  ASSERT_TRUE(trace::find(cache, block, after));
  EXPECT_EQ(after.requested, 49U);
  EXPECT_FALSE(trace::find(cache, later, after));
  heap::free(block);
  heap::free(later);
  EXPECT_EQ(trace::cache_trace(cache).live, 0U);
}

TEST_F(TraceHeap, a_reallocation_that_moves_leaves_one_record) {
  Cache& from = traced_class("kmalloc_64", 50);
  Cache& to = traced_class("kmalloc_208", 200);
  void* block = heap::allocate(50);
  block = heap::reallocate(block, 200);
  EXPECT_EQ(trace::cache_trace(from).live, 0U);
  EXPECT_EQ(trace::cache_trace(to).live, 1U);
  trace::DumpEntry entry;
  ASSERT_TRUE(trace::find(to, block, entry));
  EXPECT_EQ(entry.requested, 200U);
  EXPECT_EQ(heap::reallocate(block, SIZE_MAX), nullptr);
  EXPECT_EQ(trace::cache_trace(to).live, 1U);
  heap::free(block);
  EXPECT_EQ(trace::cache_trace(to).live, 0U);
}

}  // namespace trace_heap_test
