/// Call sites: which site is charged, the amount, and what reverses the charge.

#define QM_MODULE "test"

#include <gtest/gtest.h>

#include <string_view>

#include <qm/arena.hpp>
#include <qm/detail/call_sites.hpp>
#include <qm/heap.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/inline_cache.hpp>
#include <qm/object_cache.hpp>

#include <support/system_fixture.hpp>

#include "alloc_call_sites.h"

namespace alloc_call_sites_test {

using qm::Cache;
using qm::CallSite;
using qm::call_sites::Row;

QM_INLINE_CACHE(Inlined);
QM_DEFINE_INLINE_CACHE(Inlined);

/// @returns the row of one site.
Row row_of(const CallSite* site) {
  for (std::size_t i = 0; i < qm::call_sites::count(); ++i) {
    const Row row = qm::call_sites::row(i);
    if (row.site == site) return row;
  }
  return {};
}
Row row_of(Cache* cache, void* object) { return row_of(cache->site_of(object)); }
Row untagged() { return row_of(&qm_untagged_site); }

/// @returns usable_size() of the one block in a row: in a checking build the requested size.
std::uint64_t usable(const Row& row) { return row.bytes - (qm::kChecked ? row.waste : 0); }

/// The charge of a heap block: for an object of a cache without the bytes before it, else with its header and note.
std::size_t charged(const void* block) {
  constexpr std::size_t kHeaderAndNote = 24;
  return qm::heap::usable_size(block) +
         (qm::page_map.tag(reinterpret_cast<std::uintptr_t>(block)) == 0 ? kHeaderAndNote : 0);
}

bool is_allocators(const Row& row) { return row.site->module != nullptr && std::string_view(row.site->module) == "qm"; }

/// @returns the sum over all rows except those of the allocator itself.
Row users() {
  Row sum;
  for (std::size_t i = 0; i < qm::call_sites::count(); ++i) {
    const Row row = qm::call_sites::row(i);
    if (is_allocators(row)) continue;
    sum.bytes += row.bytes;
    sum.waste += row.waste;
    sum.calls += row.calls;
  }
  return sum;
}

class CallSites : public qm::test::SystemTest {
 protected:
  static Cache* make(const char* name, std::size_t size, std::size_t alignment = 0) {
    qm::CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.alignment = alignment;
    return Cache::create(config);
  }
};

TEST_F(CallSites, an_object_is_charged_to_its_line_until_it_is_freed) {
  Cache* cache = make("packets", 100);
  void* object = QM_ALLOC(cache->allocate);
  const unsigned line = __LINE__ - 1;
  const Row row = row_of(cache, object);
  ASSERT_NE(row.site, nullptr);
  EXPECT_EQ(row.site->line, line);
  EXPECT_NE(std::string_view(row.site->file).find("alloc_call_sites_test.cpp"), std::string_view::npos);
  EXPECT_EQ(std::string_view(row.site->function), "TestBody");
  EXPECT_EQ(std::string_view(row.site->module), "test");
  EXPECT_EQ(row.bytes, cache->object_size());
  EXPECT_EQ(row.calls, 1U);
  cache->free(object);
  EXPECT_EQ(row_of(row.site).bytes, 0U);
  EXPECT_EQ(row_of(row.site).calls, 0U);
}

TEST_F(CallSites, what_has_no_site_is_charged_to_the_untagged_row) {
  Cache* cache = make("packets", 64);
  void* object = cache->allocate();
  void* block = qm::heap::allocate(100);
  void* large = qm_malloc(100000);
  EXPECT_EQ(untagged().calls, 3U);
  EXPECT_EQ(usable(untagged()), 64U + charged(block) + charged(large));
  cache->free(object);
  qm::heap::free(block);
  qm_free(large);
  EXPECT_EQ(untagged().calls, 0U);
  EXPECT_EQ(untagged().bytes, 0U);
}

TEST_F(CallSites, a_converted_helper_is_charged_to_its_caller_and_one_with_a_hook_to_itself) {
  void* converted = qm_test_converted(50);
  const unsigned line = __LINE__ - 1;
  void* unconverted = qm_test_unconverted(50);
  void* plain = qm_test_plain(50);
  const CallSite* site = qm::heap::site_of(converted);
  ASSERT_NE(site, nullptr);
  EXPECT_EQ(site->line, line);
  EXPECT_EQ(std::string_view(site->module), "test");
  site = qm::heap::site_of(unconverted);
  ASSERT_NE(site, nullptr);
  EXPECT_EQ(std::string_view(site->function), "qm_test_unconverted");
  EXPECT_EQ(std::string_view(site->module), "ctest");
  EXPECT_EQ(qm::heap::site_of(plain), &qm_untagged_site);
  qm::heap::free(converted);
  qm::heap::free(unconverted);
  qm::heap::free(plain);
}

TEST_F(CallSites, of_nested_hooks_the_innermost_counts) {
  Cache* cache = make("packets", 64);
  // A helper with a parameter for a site and a hook inside: the parameter is not the site that it allocates with.
  const auto helper_at = [cache](const CallSite*) { return QM_ALLOC(cache->allocate); };
  const unsigned line = __LINE__ - 1;
  void* object = QM_AT(helper_at);
  ASSERT_NE(cache->site_of(object), nullptr);
  EXPECT_EQ(cache->site_of(object)->line, line);
  cache->free(object);
}

TEST_F(CallSites, c_has_hooks_for_all_that_allocates) {
  Cache* cache = make("packets", 64);
  EXPECT_EQ(qm_test_hooks_of_c(cache), 0);
  EXPECT_EQ(users().bytes, 0U);
  void* blocks[3];
  qm_test_take_in_c(blocks);
  for (void* block : blocks) {
    const CallSite* site = qm::heap::site_of(block);
    ASSERT_NE(site, nullptr);
    EXPECT_EQ(std::string_view(site->module), "ctest");
    EXPECT_EQ(row_of(site).calls, 1U);
    EXPECT_EQ(usable(row_of(site)), charged(block));
    qm_free(block);
    EXPECT_EQ(row_of(site).bytes, 0U);
  }
}

TEST_F(CallSites, every_way_to_allocate_and_free_keeps_the_sums) {
  Cache* cache = make("packets", 40, 8);
  ASSERT_EQ(Inlined::create({.name = "inlined", .object_size = 48}), qm::Status::kOk);
  void* bulk[40];
  ASSERT_EQ(QM_ALLOC(cache->allocate_bulk, bulk, 40), 40U);
  void* inlined = QM_ALLOC(Inlined::allocate);
  void* zeroed = QM_ALLOC(qm::heap::allocate_zeroed, 5, 100);
  void* aligned = QM_ALLOC(qm::heap::allocate_aligned, 128, 100);
  void* page = QM_ALLOC(qm::heap::allocate_aligned, 4096, 5000);
  const std::size_t blocks = charged(zeroed) + charged(aligned) + charged(page);
  EXPECT_EQ(users().calls, 44U);
  EXPECT_EQ(usable(users()), 40 * 40 + 48 + blocks);
  EXPECT_EQ(untagged().calls, 0U);
  cache->free_bulk(bulk, 40);
  Inlined::free(inlined);
  qm::heap::free_sized(zeroed, 500);
  qm::heap::free_sized(aligned, 100, 128);
  qm::heap::free(page);
  EXPECT_EQ(users().calls, 0U);
  EXPECT_EQ(users().bytes, 0U);
  EXPECT_EQ(Inlined::destroy(), qm::Status::kOk);
  auto made = qm::ObjectCache<unsigned long>::create("numbers");
  unsigned long* number = QM_ALLOC(made.make, 7UL);
  EXPECT_EQ(users().bytes, sizeof(unsigned long));
  made.destroy(number);
  EXPECT_EQ(users().bytes, 0U);
}

TEST_F(CallSites, a_hooked_realloc_moves_the_charge_and_a_plain_one_leaves_it) {
  for (const std::size_t size : {std::size_t{50}, std::size_t{100000}}) {
    void* block = QM_ALLOC(qm::heap::allocate, size);
    const CallSite* first = qm::heap::site_of(block);
    for (const std::size_t to : {size + 3, size * 3, size * 3 + 1, size}) {
      block = qm::heap::reallocate(block, to);
      EXPECT_EQ(qm::heap::site_of(block), first);
      EXPECT_EQ(usable(row_of(first)), charged(block));
      EXPECT_EQ(row_of(first).calls, 1U);
    }
    for (const std::size_t to : {size, size + 3, size * 3}) {
      block = QM_ALLOC(qm::heap::reallocate, block, to);
      const CallSite* second = qm::heap::site_of(block);
      EXPECT_NE(second, first);
      EXPECT_EQ(row_of(first).bytes, 0U);
      EXPECT_EQ(usable(row_of(second)), charged(block));
      EXPECT_EQ(row_of(second).calls, 1U);
    }
    qm::heap::free(block);
    EXPECT_EQ(users().bytes, 0U);
  }
}

TEST_F(CallSites, a_row_says_how_much_of_the_heaps_blocks_nobody_asked_for) {
  for (const std::size_t size : {50, 100}) qm::test::make_class(size);
  void* blocks[40];  // the first through the slow half
  for (void*& block : blocks) block = QM_ALLOC(qm::heap::allocate, 50);
  const CallSite* site = qm::heap::site_of(blocks[0]);
  EXPECT_EQ(row_of(site).bytes, 40 * 64U);
  EXPECT_EQ(row_of(site).waste, 40 * 14U);
  EXPECT_EQ(qm::heap::reallocate(blocks[0], 60), blocks[0]);
  EXPECT_EQ(row_of(site).waste, 39 * 14U + 4U);
  blocks[1] = qm::heap::reallocate(blocks[1], 100);
  EXPECT_EQ(row_of(site).bytes, 39 * 64U + 112U);
  EXPECT_EQ(row_of(site).waste, 38 * 14U + 4U + 12U);
  qm::heap::free_sized(blocks[2], 50);
  EXPECT_EQ(row_of(site).waste, 37 * 14U + 4U + 12U);
  blocks[2] = nullptr;
  qm::call_sites::set_on(false);
  void* missed = QM_ALLOC(qm::heap::allocate, 1);
  EXPECT_EQ(row_of(qm::heap::site_of(missed)).waste, 0U);
  qm::heap::free(missed);
  qm::call_sites::set_on(true);
  for (void* block : blocks) qm::heap::free(block);
  EXPECT_EQ(row_of(site).waste, 0U);
  EXPECT_EQ(users().bytes, 0U);
  Cache* cache = make("packets", 100);
  void* object = QM_ALLOC(cache->allocate, 70);
  EXPECT_EQ(row_of(cache, object).waste, 0U);  // for caches it is not known
  cache->free(object);
}

TEST_F(CallSites, a_destroyed_tag_changes_nothing_but_rows) {
  Cache* cache = make("packets", 64);
  for (const std::uint32_t tag :
       {0xffffffffU, 0x80000000U, 7U, 1U, static_cast<std::uint32_t>(qm::call_sites::count() * qm::kRowBytes + 31)}) {
    auto* object = static_cast<std::uint32_t*>(QM_ALLOC(cache->allocate));
    void* block = QM_ALLOC(qm::heap::allocate, 50);
    object[-1] = tag;
    static_cast<std::uint32_t*>(block)[-1] = tag;
    cache->free(object);
    qm::heap::free(block);
  }
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(cache->stats().misuses, 0U);
  EXPECT_TRUE(cache->validate());
}

TEST_F(CallSites, a_row_misses_exactly_what_was_allocated_while_off_and_says_so) {
  Cache* cache = make("packets", 64);
  const auto take = [cache] { return QM_ALLOC(cache->allocate); };
  const auto take_block = [] { return QM_ALLOC(qm::heap::allocate, 50000); };
  void* before = take();
  void* block_before = take_block();
  const CallSite* site = cache->site_of(before);
  const CallSite* block_site = qm::heap::site_of(block_before);
  const std::size_t block_bytes = charged(block_before);
  qm::call_sites::set_on(false);
  EXPECT_FALSE(qm::call_sites::is_on());
  void* missed = take();
  void* block_missed = take_block();
  EXPECT_EQ(cache->site_of(missed), site);
  EXPECT_EQ(qm::heap::site_of(block_missed), block_site);
  EXPECT_EQ(row_of(site).bytes, 64U);
  EXPECT_FALSE(row_of(site).is_accurate);
  EXPECT_EQ(row_of(block_site).bytes, block_bytes);
  EXPECT_FALSE(row_of(block_site).is_accurate);
  cache->free(before);  // whether counting is off or not: a counted object is subtracted when it is freed
  qm::heap::free(block_before);
  EXPECT_EQ(row_of(site).bytes, 0U);
  EXPECT_EQ(row_of(block_site).bytes, 0U);
  qm::call_sites::set_on(true);
  void* after = take();
  EXPECT_EQ(row_of(site).calls, 1U);
  cache->free(missed);
  qm::heap::free(block_missed);
  EXPECT_EQ(row_of(site).calls, 1U);
  EXPECT_TRUE(row_of(site).is_accurate);
  EXPECT_TRUE(row_of(block_site).is_accurate);
  cache->free(after);
  EXPECT_EQ(users().bytes, 0U);
}

TEST_F(CallSites, misuse_leaves_the_rows_as_they_were) {
  Cache* cache = make("packets", 64);
  Cache* other = make("others", 64);
  void* object = QM_ALLOC(cache->allocate);
  void* kept = QM_ALLOC(other->allocate);
  cache->free(nullptr);
  cache->free(static_cast<std::byte*>(object) + 8);
  cache->free(reinterpret_cast<void*>(std::uintptr_t{8}));
  EXPECT_EQ(row_of(cache, object).bytes, 64U);
  const CallSite* site = cache->site_of(object);
  cache->free(object);
  cache->free(object);  // a double free
  EXPECT_EQ(row_of(site).bytes, 0U);
  EXPECT_EQ(row_of(other, kept).bytes, 64U);
}

TEST_F(CallSites, numbers_and_what_is_the_allocators_own_are_charged_to_no_user) {
  qm::Arena ids;
  ASSERT_EQ(ids.initialize({.name = "ids", .start = 1, .size = 1000, .quantum = 1}), qm::Status::kOk);
  EXPECT_NE(QM_ALLOC(ids.allocate, 5, qm::Fit::kNext), 0U);
  const std::uintptr_t page = qm::page_arena().allocate(4096);
  EXPECT_NE(page, 0U);
  Cache* cache = make("packets", 64);
  EXPECT_EQ(users().bytes, 0U);
  std::uint64_t own = 0;
  for (std::size_t i = 0; i < qm::call_sites::count(); ++i) {
    const Row row = qm::call_sites::row(i);
    if (is_allocators(row)) own += row.bytes;
  }
  EXPECT_GT(own, 0U);  // the structure of the cache `packets`
  EXPECT_EQ(Cache::destroy(cache), qm::Status::kOk);
}

TEST_F(CallSites, an_object_keeps_its_alignment_and_its_size_beside_its_tag) {
  for (const std::size_t alignment : {1U, 2U, 8U, 16U, 64U, 256U}) {
    Cache* cache = make("aligned", 24 * alignment, alignment);
    ASSERT_NE(cache, nullptr);
    EXPECT_EQ(cache->object_size(), 24 * alignment);
    void* objects[20];
    for (void*& object : objects) {
      object = QM_ALLOC(cache->allocate);
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % alignment, 0U);
      __builtin_memset(object, 0xff, cache->object_size());
    }
    for (void* object : objects) cache->free(object);
    EXPECT_EQ(users().bytes, 0U);
    EXPECT_EQ(Cache::destroy(cache), qm::Status::kOk);
  }
}

TEST_F(CallSites, a_checking_build_names_who_allocates_without_a_site) {
  Cache* cache = make("packets", 64);
  const auto take = [&]() __attribute__((noinline)) { return cache->allocate(); };
  for (int i = 0; i < 3; ++i) cache->free(take());
  cache->free(QM_ALLOC(cache->allocate));
  qm_free(qm_malloc(50));
  if (!qm::kChecked) {
    EXPECT_EQ(qm::call_sites::untagged_caller(0).address, 0U);
    return;
  }
  EXPECT_EQ(qm::call_sites::untagged_caller(0).calls, 3U);
  EXPECT_EQ(qm::call_sites::untagged_caller(1).calls, 1U);
  EXPECT_EQ(qm::call_sites::untagged_caller(2).address, 0U);
}

TEST_F(CallSites, a_new_start_charges_again_and_knows_no_callers_of_the_one_before) {
  Cache* cache = make("packets", 64);
  for (int i = 0; i < 3; ++i) cache->free(cache->allocate());
  qm::call_sites::set_on(false);
  restart(qm::test::kPoolBytes);
  EXPECT_TRUE(qm::call_sites::is_on());
  EXPECT_EQ(qm::call_sites::untagged_caller(0).address, 0U);
  EXPECT_EQ(qm::call_sites::untagged_caller(0).calls, 0U);
}

TEST_F(CallSites, a_walk_of_the_heap_shows_the_site_of_each_block) {
  std::array<void*, 4> blocks{};
  for (void*& block : blocks) block = QM_ALLOC(qm::heap::allocate, 3000);
  const unsigned line = __LINE__ - 1;
  qm::heap::free(blocks[1]);
  unsigned shown = 0;
  qm::ArenaWalk walk(*qm::RegistryCursor<qm::Arena>().find("kheap"));
  qm::Segment segment;
  while (walk.next(segment)) {
    if (segment.kind == qm::TagKind::kFree) EXPECT_EQ(segment.site, nullptr);
    for (const unsigned i : {0U, 2U, 3U}) {
      if (segment.start != reinterpret_cast<std::uintptr_t>(blocks[i])) continue;
      ++shown;
      ASSERT_NE(segment.site, nullptr);
      EXPECT_EQ(segment.site->line, line);
    }
  }
  EXPECT_EQ(shown, 3U);
  for (const unsigned i : {0U, 2U, 3U}) qm::heap::free(blocks[i]);
}

}  // namespace alloc_call_sites_test
