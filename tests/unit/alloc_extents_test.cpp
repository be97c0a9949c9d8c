// Extents: slabs share segments of base, which come when a slab wants a place, ahead of it where an operation has time,
// and go when they are free as a whole.

#include <support/system_fixture.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <qm/fault.hpp>

namespace {

using namespace qm;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kExtent = 8 * kPage;

std::vector<Segment> extents() {
  std::vector<Segment> found;
  ArenaWalk walk(base_arena());
  Segment segment;
  while (walk.next(segment)) {
    if (segment.kind == TagKind::kAllocated && segment.owner == SegmentOwner::kSlabs) found.push_back(segment);
  }
  return found;
}

std::size_t free_pages() {
  std::size_t pages = 0;
  for (const Segment& extent : extents()) pages += static_cast<std::size_t>(__builtin_popcountl(extent.free_pages));
  return pages;
}

bool has_place_for_four() {
  const auto all = extents();
  return std::any_of(all.begin(), all.end(), [](const Segment& extent) {
    return (extent.free_pages & 0xf) == 0xf || (extent.free_pages & 0xf0) == 0xf0;
  });
}

class ExtentsTest : public qm::test::SystemTest {
 protected:
  void TearDown() override {
    for (Cache* cache : caches_) EXPECT_EQ(Cache::destroy(cache), Status::kOk);
    EXPECT_TRUE(base_arena().validate());
    SystemTest::TearDown();
  }
  /// Its slabs have @p bytes, two objects: half a slab has no room for one beside its header.
  Cache& cache_of_slabs(std::size_t bytes) {
    names_.push_back(std::make_unique<std::string>("slabs_" + std::to_string(caches_.size())));
    CacheConfig config;
    config.name = names_.back()->c_str();
    config.object_size = bytes / 2 - 40;
    config.flags = cache_flags::kDirect;
    Cache* const cache = Cache::create(config);
    EXPECT_NE(cache, nullptr);
    EXPECT_EQ(cache->slab_bytes(), bytes);
    caches_.push_back(cache);
    return *cache;
  }
  static std::uintptr_t slab_of(const void* object, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(object) & ~(bytes - 1);
  }
  std::vector<Cache*> caches_;
  std::vector<std::unique_ptr<std::string>> names_;
};

TEST_F(ExtentsTest, slabs_of_caches_share_one_and_have_pages_of_their_own) {
  Cache& one = cache_of_slabs(kPage);
  Cache& two = cache_of_slabs(2 * kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  void* const large = four.allocate();
  void* const middle = two.allocate();
  void* const small = one.allocate();
  const auto all = extents();
  for (const auto& [object, bytes] : {std::pair{large, 4 * kPage}, {middle, 2 * kPage}, {small, kPage}}) {
    const std::uintptr_t slab = slab_of(object, bytes);
    const auto extent = std::find_if(all.begin(), all.end(), [=](const Segment& segment) {
      return slab >= segment.start && slab - segment.start < segment.size;
    });
    ASSERT_NE(extent, all.end()) << bytes;
    EXPECT_EQ(extent->size, kExtent);
    EXPECT_EQ(extent->start % kExtent, 0U);
    const unsigned long pages = ((1UL << bytes / kPage) - 1) << (slab - extent->start) / kPage;
    EXPECT_EQ(extent->free_pages & pages, 0U) << bytes;
  }
  four.free(large);
  two.free(middle);
  one.free(small);
}

TEST_F(ExtentsTest, are_used_up_before_another_is_drawn) {
  Cache& one = cache_of_slabs(kPage);
  std::vector<void*> objects;
  const std::size_t before = extents().size();
  const std::size_t places = free_pages();
  for (std::size_t i = 0; i < 2 * (places + 16); ++i) objects.push_back(one.allocate());
  EXPECT_EQ(extents().size(), before + 2);
  EXPECT_EQ(free_pages(), 0U);
  for (void* object : objects) one.free(object);
}

TEST_F(ExtentsTest, go_when_nobody_has_a_page_of_them) {
  Cache& one = cache_of_slabs(kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  const std::size_t before = free_bytes();
  std::vector<void*> objects;
  for (int i = 0; i < 200; ++i) objects.push_back((i % 3 == 0 ? four : one).allocate());
  EXPECT_LT(base_arena().stats().free, before - 200 * kPage / 2);
  for (int i = 0; i < 200; ++i) (i % 3 == 0 ? four : one).free(objects[static_cast<std::size_t>(i)]);
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(ExtentsTest, one_that_is_free_as_a_whole_waits_until_it_is_reaped) {
  Cache& one = cache_of_slabs(kPage);
  std::vector<void*> objects;
  const std::size_t before = extents().size();
  const std::size_t places = free_pages();
  for (std::size_t i = 0; i < 2 * (places + 24); ++i) objects.push_back(one.allocate());
  ASSERT_EQ(extents().size(), before + 3);
  for (void* object : objects) one.free(object);
  EXPECT_LE(extents().size(), before + 2);
  one.reap();
  EXPECT_LE(extents().size(), before);
}

TEST_F(ExtentsTest, there_are_none_in_little_memory) {
  restart(std::size_t{1} << 20);
  Cache& one = cache_of_slabs(kPage);
  std::vector<void*> objects;
  for (int i = 0; i < 40; ++i) objects.push_back(one.allocate());
  EXPECT_EQ(extents().size(), 0U);
  for (void* object : objects) {
    ASSERT_NE(object, nullptr);
    one.free(object);
  }
}

TEST_F(ExtentsTest, memory_too_short_for_one_still_serves_slabs) {
  Cache& four = cache_of_slabs(4 * kPage);
  std::vector<std::uintptr_t> blocks;
  while (const std::uintptr_t block = base_arena().allocate(kExtent, Fit::kInstant, nullptr, Effort::kQuiet))
    blocks.push_back(block);
  const std::size_t before = extents().size();
  std::vector<void*> objects;
  while (void* object = four.allocate()) objects.push_back(object);
  EXPECT_EQ(extents().size(), before);
  EXPECT_FALSE(has_place_for_four());
  // What the arena has left is less than a slab, wherever it may lie.
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(base_arena().free(blocks[i]), Status::kOk);
    void* const object = four.allocate();
    EXPECT_NE(object, nullptr) << i;
    objects.push_back(object);
  }
  for (std::size_t i = 4; i < blocks.size(); ++i) EXPECT_EQ(base_arena().free(blocks[i]), Status::kOk);
  for (void* object : objects) four.free(object);
}

TEST_F(ExtentsTest, a_large_request_gets_what_idles_in_them) {
  Cache& one = cache_of_slabs(kPage);
  const std::size_t before = free_bytes();
  std::vector<void*> objects;
  while (void* object = one.allocate()) objects.push_back(object);
  EXPECT_GT(objects.size() * kPage / 2, before - 2 * kExtent);
  for (void* object : objects) one.free(object);
  // All but the books' own in one piece: none of it may have stayed with the extents.
  const std::size_t most = before / 2;
  const std::uintptr_t block = base_arena().allocate(most);
  ASSERT_NE(block, 0U);
  EXPECT_EQ(base_arena().free(block, most), Status::kOk);
}

TEST_F(ExtentsTest, nobody_else_can_give_one_back) {
  Cache& one = cache_of_slabs(kPage);
  void* const object = one.allocate();
  const std::uintptr_t start = extents().back().start;
  EXPECT_EQ(base_arena().free(start, kExtent), Status::kNotFound);
  EXPECT_EQ(base_arena().free(start), Status::kNotFound);
  EXPECT_EQ(base_arena().resize_in_place(start, kExtent, kPage), Status::kNotFound);
  one.free(object);
}

TEST_F(ExtentsTest, a_slab_can_be_refused_its_place) {
  Cache& one = cache_of_slabs(kPage);
  void* const first = one.allocate();
  fault::set_acquisition_test([](fault::Resource resource) noexcept { return resource != fault::Resource::kSegment; });
  void* const second = one.allocate();
  EXPECT_NE(second, nullptr);  // of the first one's slab
  EXPECT_EQ(one.allocate(0, Effort::kQuiet), nullptr);
  fault::set_acquisition_test(nullptr);
  one.free(second);
  one.free(first);
}

// After operations that could only fill a magazine there is a place for what a later one makes.
TEST_F(ExtentsTest, a_place_for_the_largest_slab_is_drawn_ahead) {
  std::vector<void*> blocks;
  for (int i = 0; i < 4000; ++i) {
    blocks.push_back(heap::allocate(64));
    if (i % 64 != 63) continue;
    EXPECT_TRUE(has_place_for_four()) << i;
  }
  for (void* block : blocks) heap::free(block);
}

}  // namespace
