// Extents: slabs share segments of base, which are allocated when a slab needs a place, or before that when an
// operation has time, and freed when all of their places are free.

#include <support/system_fixture.hpp>

#include <algorithm>
#include <array>
#include <cstring>

#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/test/seed.hpp>

namespace alloc_extents_test {

using namespace qm;

constexpr std::size_t kPage = 4096;
constexpr std::size_t kExtent = 8 * kPage;

/// Calls @p visit with each extent, in the order of their addresses.
template <class Visit>
void for_each_extent(Visit&& visit) {
  ArenaWalk walk(base_arena());
  Segment segment;
  while (walk.next(segment)) {
    if (segment.kind == TagKind::kAllocated && segment.owner == SegmentOwner::kSlabs) visit(segment);
  }
}

std::size_t extents() {
  std::size_t count = 0;
  for_each_extent([&](const Segment&) { ++count; });
  return count;
}

std::size_t free_pages() {
  std::size_t pages = 0;
  for_each_extent([&](const Segment& extent) {
    for (unsigned page = 0; page < 8; ++page) pages += extent.free_pages >> page & 1;
  });
  return pages;
}

bool has_place_for(unsigned pages) {
  const unsigned long place = (1UL << pages) - 1;
  bool has = false;
  for_each_extent([&](const Segment& extent) {
    for (unsigned page = 0; page < 8; page += pages) has |= (extent.free_pages >> page & place) == place;
  });
  return has;
}

/// The live objects of a test.
struct Objects {
  static constexpr std::size_t kMost = 2500;
  void add(Cache& cache, void* object) {
    ASSERT_LT(count, kMost);
    caches[count] = &cache;
    all[count++] = object;
  }
  void free_all() {
    while (count != 0) --count, caches[count]->free(all[count]);
  }
  std::array<Cache*, kMost> caches;
  std::array<void*, kMost> all;
  std::size_t count = 0;
};
Objects objects, filled_objects;

/// Segments of base.
struct Blocks {
  void take_all(std::size_t bytes, WaitPolicy wait_policy) {
    while (const std::uintptr_t block = base_arena().allocate(bytes, Fit::kInstant, nullptr, wait_policy)) {
      ASSERT_LT(count, all.size());
      all[count++] = block;
    }
  }
  void free_all() {
    while (count != 0) EXPECT_EQ(base_arena().free(all[--count]), Status::kOk);
  }
  std::array<std::uintptr_t, qm::test::kPoolBytes / kPage> all;
  std::size_t count = 0;
};

class ExtentsTest : public qm::test::SystemTest {
 protected:
  void SetUp() override {
    SystemTest::SetUp();
    fill_outside();
  }
  void TearDown() override {
    for (std::size_t i = 0; i < count_; ++i) EXPECT_EQ(Cache::destroy(caches_[i]), Status::kOk);
    filled_.free_all();
    EXPECT_EQ(Cache::destroy(filler_), Status::kOk);
    EXPECT_TRUE(base_arena().validate());
    objects.count = 0;
    SystemTest::TearDown();
  }
  /// Allocates as many slabs as there must be before a slab shares an extent.
  void fill_outside(std::size_t bytes = 8 * kExtent) {
    filler_ = make_cache("filler", kPage);
    for (std::size_t i = 0; i < 2 * bytes / kPage; ++i) filled_.add(*filler_, filler_->allocate());
  }
  static Cache* make_cache(const char* name, std::size_t bytes) {
    CacheConfig config;
    config.name = name;
    config.object_size = bytes / 2 - 40;
    config.flags = cache_flags::kNoMagazines;
    Cache* const cache = Cache::create(config);
    EXPECT_NE(cache, nullptr);
    EXPECT_EQ(cache->slab_bytes(), bytes);
    return cache;
  }
  /// A cache with slabs of @p bytes, for two objects: half a slab has no room for one object and a header.
  Cache& cache_of_slabs(std::size_t bytes) {
    static constexpr std::array<const char*, 3> kNames = {"first", "second", "third"};
    caches_[count_] = make_cache(kNames[count_], bytes);
    return *caches_[count_++];
  }
  static std::uintptr_t slab_of(const void* object, std::size_t bytes) {
    return reinterpret_cast<std::uintptr_t>(object) & ~(bytes - 1);
  }
  /// Creates slabs in extents, with single free pages between them.
  static void spread(Cache& one) {
    std::array<void*, 240> slabs;  // two objects in each slab
    for (void*& object : slabs) object = one.allocate();
    for (std::size_t i = 0; i < slabs.size(); ++i) {
      if (slab_of(slabs[i], 2 * kPage) == slab_of(slabs[i], kPage)) {
        objects.add(one, slabs[i]);
      } else {
        one.free(slabs[i]);
      }
    }
    one.reap();
  }
  std::array<Cache*, 3> caches_;
  std::size_t count_ = 0;
  Cache* filler_ = nullptr;
  Objects& filled_ = filled_objects;
};

TEST_F(ExtentsTest, slabs_of_caches_share_one_and_have_pages_of_their_own) {
  Cache& one = cache_of_slabs(kPage);
  Cache& two = cache_of_slabs(2 * kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  void* const large = four.allocate();
  void* const middle = two.allocate();
  void* const small = one.allocate();
  struct Place {
    void* object;
    std::size_t bytes;
  };
  for (const Place& place : {Place{large, 4 * kPage}, Place{middle, 2 * kPage}, Place{small, kPage}}) {
    const std::uintptr_t slab = slab_of(place.object, place.bytes);
    std::size_t found = 0;
    for_each_extent([&](const Segment& extent) {
      EXPECT_EQ(extent.size, kExtent);
      EXPECT_EQ(extent.start % kExtent, 0U);
      if (slab < extent.start || slab - extent.start >= extent.size) return;
      ++found;
      const unsigned long pages = ((1UL << place.bytes / kPage) - 1) << (slab - extent.start) / kPage;
      EXPECT_EQ(extent.free_pages & pages, 0U) << place.bytes;
    });
    EXPECT_EQ(found, 1U) << place.bytes;
  }
  four.free(large);
  two.free(middle);
  one.free(small);
}

TEST_F(ExtentsTest, slabs_of_one_two_and_four_pages_share_no_page_in_a_random_run) {
  struct Held {
    unsigned char* start;
    std::size_t which;
    int fill;
  };
  static std::array<Held, 500> held;
  std::size_t count = 0;
  for (const std::size_t pages : {1U, 2U, 4U}) cache_of_slabs(pages * kPage);
  qm::test::Random random;
  const auto is_intact = [&](const Held& one) {
    const std::size_t size = caches_[one.which]->object_size();
    return std::all_of(one.start, one.start + size, [&](unsigned char byte) { return byte == one.fill; });
  };
  for (unsigned step = 0; step < 10000; ++step) {
    // Grows and shrinks: the extents become full of holes, and whole again.
    if (random.chance(step / 1000 % 2 != 0 ? 35 : 65) ? count < held.size() : count == 0) {
      Held& one = held[count];
      one.which = random.chance(70) ? 0 : random.between(1, 2);
      one.start = static_cast<unsigned char*>(caches_[one.which]->allocate());
      if (one.start == nullptr) continue;
      one.fill = static_cast<int>(random.below(256));
      std::memset(one.start, one.fill, caches_[one.which]->object_size());
      ++count;
    } else {
      Held& one = held[random.below(count)];
      ASSERT_TRUE(is_intact(one)) << step;
      caches_[one.which]->free(one.start);
      one = held[--count];
    }
    if (step % 100 == 0) {
      caches_[random.below(3)]->reap();
      ASSERT_TRUE(base_arena().validate()) << step;
    }
  }
  EXPECT_GT(extents(), 0U);
  while (count != 0) {
    --count;
    EXPECT_TRUE(is_intact(held[count]));
    caches_[held[count].which]->free(held[count].start);
  }
}

TEST_F(ExtentsTest, are_used_up_before_another_is_drawn) {
  Cache& one = cache_of_slabs(kPage);
  const std::size_t before = extents();
  const std::size_t places = free_pages();
  for (std::size_t i = 0; i < 2 * (places + 16); ++i) objects.add(one, one.allocate());
  EXPECT_EQ(extents(), before + 2);
  EXPECT_EQ(free_pages(), 0U);
  objects.free_all();
}

TEST_F(ExtentsTest, go_when_nobody_has_a_page_of_them) {
  Cache& one = cache_of_slabs(kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  std::size_t before = 0;
  for (int times = 0; times < 2; ++times) {  // the boundary tags that the first pass allocates remain
    before = free_bytes();
    for (int i = 0; i < 200; ++i) {
      Cache& cache = i % 3 == 0 ? four : one;
      objects.add(cache, cache.allocate());
    }
    EXPECT_LT(base_arena().stats().free, before - 100 * kPage);
    objects.free_all();
  }
  EXPECT_EQ(free_bytes(), before);
}

TEST_F(ExtentsTest, one_that_is_free_as_a_whole_waits_until_it_is_reaped) {
  Cache& one = cache_of_slabs(kPage);
  const std::size_t before = extents();
  const std::size_t places = free_pages();
  for (std::size_t i = 0; i < 2 * (places + 24); ++i) objects.add(one, one.allocate());
  ASSERT_EQ(extents(), before + 3);
  objects.free_all();
  EXPECT_LE(extents(), before + 2);
  one.reap();
  EXPECT_LE(extents(), before);
}

TEST_F(ExtentsTest, there_are_none_in_little_memory) {
  filled_.count = 0;
  restart(std::size_t{1} << 20);
  fill_outside();
  Cache& one = cache_of_slabs(kPage);
  for (int i = 0; i < 40; ++i) {
    void* const object = one.allocate();
    ASSERT_NE(object, nullptr);
    objects.add(one, object);
  }
  EXPECT_EQ(extents(), 0U);
  objects.free_all();
}

TEST_F(ExtentsTest, there_are_none_for_few_slabs) {
  filled_.count = 0;
  restart(qm::test::kPoolBytes);
  fill_outside(4 * kExtent);
  EXPECT_EQ(extents(), 0U);
  filled_.free_all();
  // Freed slabs do not count.
  for (int times = 0; times < 10; ++times) {
    for (std::size_t i = 0; i < 64; ++i) filled_.add(*filler_, filler_->allocate());
    filled_.free_all();
    filler_->reap();
  }
  EXPECT_EQ(extents(), 0U);
}

TEST_F(ExtentsTest, memory_too_short_for_one_still_serves_slabs) {
  Cache& four = cache_of_slabs(4 * kPage);
  Blocks blocks;
  blocks.take_all(kExtent, WaitPolicy::kQuiet);
  ASSERT_GT(blocks.count, 4U);
  const std::size_t before = extents();
  while (void* object = four.allocate()) objects.add(four, object);
  EXPECT_LE(extents(), before);
  EXPECT_FALSE(has_place_for(4));
  // Each free part of the arena is smaller than a slab, wherever it lies.
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(base_arena().free(blocks.all[i]), Status::kOk);
    void* const object = four.allocate();
    EXPECT_NE(object, nullptr) << i;
    objects.add(four, object);
  }
  for (std::size_t i = 4; i < blocks.count; ++i) EXPECT_EQ(base_arena().free(blocks.all[i]), Status::kOk);
  objects.free_all();
}

TEST_F(ExtentsTest, a_large_request_gets_what_idles_in_them) {
  Cache& one = cache_of_slabs(kPage);
  const std::size_t before = free_bytes();
  while (void* object = one.allocate()) objects.add(one, object);
  EXPECT_GT(objects.count * kPage / 2, before - 2 * kExtent);
  objects.free_all();
  // Half of the memory in one piece: no free part of it may have stayed with the extents.
  const std::size_t most = before / 2;
  const std::uintptr_t block = base_arena().allocate(most);
  ASSERT_NE(block, 0U);
  EXPECT_EQ(base_arena().free(block, most), Status::kOk);
}

TEST_F(ExtentsTest, a_slab_finds_the_last_place_though_few_lie_outside) {
  Cache& one = cache_of_slabs(kPage);
  do objects.add(one, one.allocate());
  while (free_pages() < 4);
  filled_.free_all();  // the slabs outside of extents are freed
  filler_->reap();
  const std::size_t kept = extents();
  Blocks blocks;
  blocks.take_all(kPage, WaitPolicy::kQuiet);
  const std::size_t places = free_pages();
  ASSERT_GT(places, 0U);
  std::size_t taken = 0;
  while (void* object = one.allocate(0, WaitPolicy::kQuiet)) {
    objects.add(one, object);
    ++taken;
  }
  EXPECT_GE(taken, 2 * places);
  EXPECT_EQ(free_pages(), 0U);
  EXPECT_EQ(extents(), kept);
  blocks.free_all();
  objects.free_all();
}

TEST_F(ExtentsTest, places_are_used_up_though_few_slabs_lie_outside) {
  Cache& one = cache_of_slabs(kPage);
  spread(one);
  filled_.free_all();  // the slabs outside of extents are freed
  filler_->reap();
  const std::size_t places = free_pages();
  ASSERT_GT(places, 20U);
  for (std::size_t i = 0; i < 20; ++i) objects.add(one, one.allocate()), objects.add(one, one.allocate());
  EXPECT_LE(free_pages(), places - 20);
  objects.free_all();
}

TEST_F(ExtentsTest, who_lacks_memory_gets_every_page_that_no_slab_has) {
  Cache& one = cache_of_slabs(kPage);
  Cache& two = cache_of_slabs(2 * kPage);
  for (int i = 0; i < 40; ++i) objects.add(two, two.allocate());
  spread(one);
  Blocks blocks;
  blocks.take_all(kPage, WaitPolicy::kQuiet);
  const std::size_t places = free_pages();
  ASSERT_GT(places, 20U);
  EXPECT_EQ(base_arena().stats().in_extents, places * kPage);
  const std::size_t before = blocks.count + boundary_tags_stats().pages;
  blocks.take_all(kPage, WaitPolicy::kReclaim);
  EXPECT_EQ(blocks.count + boundary_tags_stats().pages, before + places);
  EXPECT_EQ(free_pages(), 0U);
  EXPECT_EQ(base_arena().stats().in_extents, 0U);
  EXPECT_TRUE(base_arena().validate());
  for (std::size_t i = 0; i < objects.count; ++i) {
    ObjectPlace place;
    ASSERT_TRUE(objects.caches[i]->locate(reinterpret_cast<std::uintptr_t>(objects.all[i]), place));
    EXPECT_EQ(place.object, objects.all[i]);
  }
  blocks.free_all();
  objects.free_all();
}

TEST_F(ExtentsTest, pieces_of_one_that_was_dissolved_have_no_call_site) {
  static const CallSite kSite = QM_SITE_VALUE("here.cpp", "here", nullptr, 1);
  // The boundary tags of the pieces are used ones.
  static std::array<std::uintptr_t, 100> pages;
  for (std::uintptr_t& page : pages)
    ASSERT_NE(page = base_arena().allocate(kPage, Fit::kInstant, &kSite, WaitPolicy::kQuiet), 0U);
  for (const std::uintptr_t page : pages) EXPECT_EQ(base_arena().free(page, kPage), Status::kOk);
  Cache& one = cache_of_slabs(kPage);
  spread(one);
  const std::size_t before = extents();
  Blocks blocks;
  blocks.take_all(kPage, WaitPolicy::kReclaim);
  ASSERT_LT(extents(), before);
  ArenaWalk walk(base_arena());
  Segment segment;
  while (walk.next(segment)) EXPECT_EQ(segment.site, nullptr);
  blocks.free_all();
  objects.free_all();
}

TEST_F(ExtentsTest, that_are_free_as_a_whole_go_with_the_reap_of_a_cache_that_has_pages_of_them) {
  Cache& one = cache_of_slabs(kPage);
  const auto whole = [] {
    std::size_t count = 0;
    for_each_extent([&](const Segment& extent) { count += (extent.free_pages & 0xff) == 0xff ? 1 : 0; });
    return count;
  };
  for (unsigned i = 0; i < 200 && whole() == 0; ++i) {
    for (unsigned j = 0; j < 16; ++j) objects.add(one, one.allocate());
    objects.free_all();
  }
  ASSERT_GT(whole(), 0U);
  one.reap();
  EXPECT_EQ(whole(), 0U);
}

TEST_F(ExtentsTest, a_slab_of_one_that_was_dissolved_goes_back_by_itself) {
  const std::size_t before = free_bytes() + boundary_tags_stats().pages * kPage;
  Cache& one = cache_of_slabs(kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  for (int times = 0; times < 3; ++times) {
    for (int i = 0; i < 10; ++i) objects.add(four, four.allocate());
    spread(one);
    const std::size_t idle = free_pages() * kPage;
    ASSERT_GT(idle, 0U);
    const std::size_t free = base_arena().stats().free;
    const std::size_t tags = boundary_tags_stats().pages;
    EXPECT_EQ(base_arena().reap(), idle);
    EXPECT_EQ(base_arena().stats().free + (boundary_tags_stats().pages - tags) * kPage, free + idle);
    EXPECT_EQ(free_pages(), 0U);
    for_each_extent([&](const Segment& extent) { EXPECT_EQ(extent.free_pages, 0U); });
    EXPECT_TRUE(base_arena().validate());
    objects.free_all();
    EXPECT_TRUE(base_arena().validate());
  }
  EXPECT_EQ(free_bytes() + boundary_tags_stats().pages * kPage, before);
  EXPECT_EQ(extents(), 0U);
  // Such a slab does not count as outside of extents, either.
  filled_.free_all();
  filler_->reap();
  for (int i = 0; i < 100; ++i) objects.add(one, one.allocate());
  EXPECT_EQ(extents(), 0U);
  objects.free_all();
}

TEST_F(ExtentsTest, a_walk_that_has_shown_one_shows_none_of_its_slabs) {
  Cache& one = cache_of_slabs(kPage);
  spread(one);
  ArenaWalk walk(base_arena());
  Segment segment;
  do ASSERT_TRUE(walk.next(segment));
  while (segment.kind != TagKind::kAllocated || segment.owner != SegmentOwner::kSlabs || segment.free_pages == 0 ||
         segment.free_pages == 0xff);
  EXPECT_GT(base_arena().reap(), 0U);
  Segment next;
  ASSERT_TRUE(walk.next(next));
  EXPECT_GE(next.start + next.size, segment.start + kExtent) << "but for what was free at its end";
  if (next.kind != TagKind::kFree) {
    EXPECT_GE(next.start, segment.start + kExtent);
  }
  objects.free_all();
}

TEST_F(ExtentsTest, one_stays_whole_where_there_are_no_tags) {
  Cache& one = cache_of_slabs(kPage);
  spread(one);
  const std::size_t idle = free_pages() * kPage;
  fault::set_acquisition_test(
      [](fault::Resource resource, const Arena*) noexcept { return resource != fault::Resource::kTag; });
  const std::size_t first = base_arena().reap();
  EXPECT_LT(first, idle);
  EXPECT_EQ(free_pages() * kPage, idle - first);
  EXPECT_TRUE(base_arena().validate());
  fault::set_acquisition_test(nullptr);
  EXPECT_EQ(base_arena().reap(), idle - first);
  EXPECT_EQ(free_pages(), 0U);
  objects.free_all();
}

TEST_F(ExtentsTest, without_boundary_tags_a_page_of_one_becomes_some) {
  Cache& one = cache_of_slabs(kPage);
  Cache& two = cache_of_slabs(2 * kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  // The number of spare tags that base has at the end depends on how often it has split free segments.
  std::size_t most_places = 0;
  for (std::size_t first = 1; first <= 4; ++first) {
    spread(one);
    // Only single pages between slabs are free.
    while (has_place_for(4)) objects.add(four, four.allocate());
    while (has_place_for(2)) objects.add(two, two.allocate());
    RegistryCursor<Cache> caches;  // afterwards a drain can free no slab
    while (Cache* cache = caches.next()) cache->reap();
    Arena eater;
    ArenaConfig config;
    config.name = "eater";
    config.start = 1;
    config.size = 1 << 20;
    config.quantum = 1;
    ASSERT_EQ(eater.initialize(config), Status::kOk);
    const auto eat_tags = [&eater] {
      while (boundary_tags_stats().free != 0) ASSERT_NE(eater.allocate(1), 0U);
    };
    Blocks blocks;
    blocks.all[blocks.count++] = base_arena().allocate(first * kPage);
    eat_tags();
    while (const std::uintptr_t block = base_arena().allocate(kPage, Fit::kInstant, nullptr, WaitPolicy::kQuiet)) {
      blocks.all[blocks.count++] = block;
      eat_tags();
    }
    const std::size_t places = free_pages();
    most_places = std::max(most_places, places);
    const std::size_t before = blocks.count + boundary_tags_stats().pages;
    blocks.take_all(kPage, WaitPolicy::kReclaim);
    EXPECT_EQ(free_pages(), 0U) << first;
    EXPECT_EQ(blocks.count + boundary_tags_stats().pages, before + places) << first;
    EXPECT_TRUE(base_arena().validate());
    blocks.free_all();
    objects.free_all();
    EXPECT_TRUE(base_arena().validate());
    for (std::uintptr_t at = 1; eater.free(at, 1) == Status::kOk; ++at) {
    }
    EXPECT_EQ(eater.destroy(), Status::kOk);
  }
  EXPECT_GE(most_places, 20U);
}

TEST_F(ExtentsTest, a_report_counts_what_idles_in_them) {
  Cache& one = cache_of_slabs(kPage);
  objects.add(one, one.allocate());
  const std::size_t idle = free_pages() * kPage;
  ASSERT_GT(idle, 0U);
  static ExhaustionReport told;
  configure_exhaustion({.report = [](const ExhaustionReport& report) noexcept { told = report; }});
  EXPECT_EQ(base_arena().allocate(base_arena().stats().total, Fit::kInstant, nullptr, WaitPolicy::kAtomic), 0U);
  configure_exhaustion({});
  EXPECT_GE(told.in_slabs, idle);
  EXPECT_LT(told.in_slabs, idle + 16 * kPage);
  const std::size_t before = base_arena().stats().free;
  reclaim();
  EXPECT_LE(base_arena().stats().free - before, told.recoverable);
  EXPECT_GE(base_arena().stats().free - before, idle - kPage);
  objects.free_all();
}

TEST_F(ExtentsTest, what_lay_there_before_is_no_object) {
  Cache& one = cache_of_slabs(kPage);
  Cache& four = cache_of_slabs(4 * kPage);
  std::array<void*, 400> pages;
  for (void*& object : pages) object = one.allocate();
  for (void* object : pages) one.free(object);
  one.reap();
  for (int i = 0; i < 100; ++i) objects.add(four, four.allocate());
  for (void* object : pages) {
    ObjectPlace place;
    EXPECT_FALSE(one.locate(reinterpret_cast<std::uintptr_t>(object), place)) << object;
  }
  objects.free_all();
}

TEST_F(ExtentsTest, nobody_else_can_give_one_back) {
  Cache& one = cache_of_slabs(kPage);
  void* const object = one.allocate();
  std::uintptr_t start = 0;
  for_each_extent([&](const Segment& extent) { start = extent.start; });
  EXPECT_EQ(base_arena().free(start, kExtent), Status::kNotFound);
  EXPECT_EQ(base_arena().free(start), Status::kNotFound);
  EXPECT_EQ(base_arena().resize_in_place(start, kExtent, kPage), Status::kNotFound);
  one.free(object);
}

TEST_F(ExtentsTest, a_slab_can_be_refused_its_place) {
  Cache& one = cache_of_slabs(kPage);
  void* const first = one.allocate();
  fault::set_acquisition_test(
      [](fault::Resource resource, const Arena*) noexcept { return resource != fault::Resource::kSegment; });
  void* const second = one.allocate();
  EXPECT_NE(second, nullptr);  // from the slab of the first one
  EXPECT_EQ(one.allocate(0, WaitPolicy::kQuiet), nullptr);
  fault::set_acquisition_test(nullptr);
  one.free(second);
  one.free(first);
}

// Soon after a place was used there is a new one: an operation that could have filled a magazine has allocated it.
TEST_F(ExtentsTest, a_place_for_the_largest_slab_is_drawn_ahead) {
  static std::array<void*, 4000> blocks;
  unsigned without = 0;
  for (void*& block : blocks) {
    block = heap::allocate(64);
    without = has_place_for(4) ? 0 : without + 1;
    ASSERT_LT(without, 20U) << &block - blocks.data();
  }
  for (void* block : blocks) heap::free(block);
}

}  // namespace alloc_extents_test
