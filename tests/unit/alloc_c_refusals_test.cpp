// Every function of <qm/qm.h> and <qm/trace/trace.h>, before qm_init() and with impossible arguments: the result is a
// status, 0 or NULL, never a fault. As <qm/qm.h> says, qm_cache_free() of a NULL cache is not covered.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/cache.hpp>
#include <qm/hal/port.hpp>
#include <qm/misuse.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/trace.h>

namespace alloc_c_refusals_test {

alignas(4096) unsigned char ram[1 << 20];
alignas(4096) unsigned char more[1 << 16];

bool visit(const qm_trace_record*, void*) { return true; }

qm_cache* create(const char* name, std::size_t size, std::size_t align = 0, std::uint32_t flags = 0) {
  return qm_cache_create(name, size, align, flags, nullptr, nullptr, nullptr, nullptr);
}

/// The expectations until qm_init() has returned QM_OK.
void expect_nothing() {
  EXPECT_EQ(qm_add_memory(ram, sizeof ram), QM_INVALID);
  EXPECT_EQ(qm_attach_hart(), QM_INVALID);
  EXPECT_EQ(qm_detach_hart(), QM_INVALID);
  EXPECT_EQ(qm_reclaim(), 0U);
  EXPECT_EQ(qm_base_arena(), nullptr);
  EXPECT_EQ(qm_page_arena(), nullptr);
  EXPECT_EQ(qm_arena_create("arena", 8, 8, 1, nullptr, nullptr, nullptr, 0), nullptr);
  for (const std::uint32_t flags : {std::uint32_t{0}, QM_NO_TOUCH, QM_NO_TRACE}) {
    EXPECT_EQ(create("cache", 10, 0, flags), nullptr);
  }
  qm::Status why = qm::Status::kOk;
  EXPECT_EQ(qm::Cache::create({.name = "cache", .object_size = 10}, &why), nullptr);
  EXPECT_EQ(why, qm::Status::kInvalid);
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{5000}, sizeof ram, SIZE_MAX}) {
    EXPECT_EQ(qm_malloc(size), nullptr);
    EXPECT_EQ(qm_calloc(1, size), nullptr);
    EXPECT_EQ(qm_realloc(nullptr, size), nullptr);
    EXPECT_EQ(qm_realloc(ram, size), nullptr);
    for (const std::size_t alignment : {16, 64, 8192}) EXPECT_EQ(qm_aligned_alloc(alignment, size), nullptr);
    qm_free_sized(ram, size);
  }
  qm_free(nullptr);
  qm_free(ram);
  qm_free(ram + 1);
  EXPECT_EQ(qm_usable_size(ram), 0U);
  EXPECT_EQ(qm_trace_init(nullptr), QM_UNSAFE);
  EXPECT_EQ(qm_trace_start("*"), QM_UNSAFE);
  EXPECT_EQ(qm_trace_stop("*"), QM_UNSAFE);
  EXPECT_EQ(qm_trace_reset("*"), QM_UNSAFE);
  EXPECT_EQ(qm_trace_foreach(nullptr, visit, nullptr, nullptr), QM_UNSAFE);
  EXPECT_EQ(qm_trace_foreach("cache", visit, nullptr, nullptr), QM_UNSAFE);
}

class CRefusals : public testing::Test {
 protected:
  void TearDown() override {
    qm::trace::shutdown();
    qm::shutdown();
  }
};

// Runs first: nothing in the process has been set up.
TEST_F(CRefusals, before_init) { expect_nothing(); }

TEST_F(CRefusals, a_failed_init_leaves_nothing_and_another_succeeds) {
  const struct {
    void* at;
    std::size_t bytes;
  } bad[] = {{nullptr, sizeof ram}, {ram, SIZE_MAX}, {ram, 0}, {ram, 2 * 4096 - 1}, {ram + 1, 2 * 4096}, {nullptr, 0}};
  for (const auto& range : bad) {
    EXPECT_EQ(qm_init(range.at, range.bytes), QM_INVALID);
    expect_nothing();
  }
  EXPECT_EQ(qm_init(ram, sizeof ram), QM_OK);
  EXPECT_EQ(qm_init(ram, sizeof ram), QM_BUSY);
  void* block = qm_malloc(100);
  EXPECT_NE(block, nullptr);
  qm_free(block);
}

/// The ranges are checked before anything is set up, and a later failure is undone.
TEST_F(CRefusals, a_failed_initialize_of_several_ranges_is_undone) {
  const auto range = [](unsigned char* at, std::size_t bytes) {
    return qm::MemoryRange{reinterpret_cast<std::uintptr_t>(at), bytes};
  };
  const qm::MemoryRange overlapping[] = {range(ram, sizeof ram), range(ram + sizeof ram / 2, sizeof ram / 2)};
  EXPECT_EQ(qm::initialize(overlapping, 1), qm::Status::kOverlap);
  expect_nothing();
  const qm::MemoryRange wrapping[] = {range(ram, sizeof ram), range(more, SIZE_MAX)};
  EXPECT_EQ(qm::initialize(wrapping, 1), qm::Status::kInvalid);
  expect_nothing();
  const qm::MemoryRange apart[] = {range(ram, sizeof ram), range(more, sizeof more)};
  EXPECT_EQ(qm::initialize(apart, 1), qm::Status::kOk);
}

TEST_F(CRefusals, harts_that_there_are_not) {
  ASSERT_EQ(qm_init(ram, sizeof ram), QM_OK);
  EXPECT_EQ(qm::attach_hart(qm::hal::Port::kMaxHarts), qm::Status::kInvalid);
  EXPECT_EQ(qm::attach_hart(UINT32_MAX), qm::Status::kInvalid);
  EXPECT_EQ(qm::detach_hart(qm::hal::Port::kMaxHarts), qm::Status::kInvalid);
  EXPECT_EQ(qm_attach_hart(), QM_OK);
  EXPECT_EQ(qm_detach_hart(), QM_OK);
}

TEST_F(CRefusals, memory_that_is_none) {
  ASSERT_EQ(qm_init(ram, sizeof ram), QM_OK);
  EXPECT_EQ(qm_add_memory(nullptr, sizeof more), QM_INVALID);
  EXPECT_EQ(qm_add_memory(more, SIZE_MAX), QM_INVALID);
  EXPECT_EQ(qm_add_memory(more, 4095), QM_INVALID);
  EXPECT_EQ(qm_add_memory(more + 1, 4096), QM_INVALID);
  // Including the first page, which holds boundary tags and does not belong to the arena.
  for (std::size_t page = 0; page < 20; ++page) EXPECT_EQ(qm_add_memory(ram + 4096 * page, 4096), QM_OVERLAP);
  EXPECT_EQ(qm_add_memory(more, sizeof more), QM_OK);
  EXPECT_EQ(qm_add_memory(more, sizeof more), QM_OVERLAP);
}

TEST_F(CRefusals, caches) {
  ASSERT_EQ(qm_init(ram, sizeof ram), QM_OK);
  for (std::size_t align = 0; align <= 33; ++align) {
    for (const std::uint32_t flags : {std::uint32_t{0}, QM_NO_TOUCH}) {
      qm_cache* cache = create("aligned", 10, align, flags);
      EXPECT_EQ(cache != nullptr, (align & (align - 1)) == 0) << align;
      EXPECT_EQ(qm_cache_destroy(cache), QM_OK);
    }
  }
  EXPECT_EQ(create("cache", 10, SIZE_MAX), nullptr);
  EXPECT_EQ(create("cache", SIZE_MAX), nullptr);
  EXPECT_EQ(create("cache", 0), nullptr);
  EXPECT_EQ(create(nullptr, 10), nullptr);
  EXPECT_EQ(create("", 10), nullptr);
  EXPECT_EQ(create("with blank", 10), nullptr);
  EXPECT_EQ(create("cache", 10, 0, 4), nullptr);

  void* objects[2] = {};
  qm_cache_counts counts;
  EXPECT_EQ(qm_cache_alloc(nullptr, 0), nullptr);
  EXPECT_EQ(qm_cache_alloc_at(nullptr, nullptr, 0), nullptr);
  EXPECT_EQ(qm_cache_alloc_bulk(nullptr, objects, 2, 0), 0U);
  EXPECT_EQ(qm_cache_alloc_bulk_at(nullptr, nullptr, objects, 2, 0), 0U);
  qm_cache_free_bulk(nullptr, objects, 2);
  EXPECT_EQ(qm_cache_reserve(nullptr, 1), QM_INVALID);
  EXPECT_EQ(qm_cache_quarantine(nullptr, 1), QM_INVALID);
  EXPECT_EQ(qm_cache_reap(nullptr), 0U);
  qm_cache_stats(nullptr, nullptr);
  counts.objects = 1;
  qm_cache_stats(nullptr, &counts);
  EXPECT_EQ(counts.objects, 0U);
  EXPECT_EQ(qm_cache_destroy(nullptr), QM_OK);

  qm_cache* cache = create("cache", 64);
  ASSERT_NE(cache, nullptr);
  EXPECT_EQ(create("cache", 64), nullptr);
  EXPECT_EQ(qm_cache_alloc_bulk(cache, nullptr, 2, 0), 0U);
  qm_cache_free_bulk(cache, nullptr, 2);
  qm_cache_free_bulk(cache, objects, 2);
  qm_cache_free(cache, nullptr);
  qm_cache_stats(cache, nullptr);
  EXPECT_EQ(qm_cache_reserve(cache, SIZE_MAX), QM_NO_MEMORY);
  void* object = qm_cache_alloc(cache, UINT32_MAX);
  EXPECT_NE(object, nullptr);
  EXPECT_EQ(qm_cache_destroy(cache), QM_BUSY);
  qm_cache_free(cache, object);
  EXPECT_EQ(qm_cache_destroy(cache), QM_OK);
  EXPECT_EQ(qm_cache_destroy(cache), QM_NOT_FOUND);
  EXPECT_EQ(qm_cache_destroy(static_cast<qm_cache*>(static_cast<void*>(more))), QM_NOT_FOUND);
}

TEST_F(CRefusals, arenas) {
  ASSERT_EQ(qm_init(ram, sizeof ram), QM_OK);
  const auto make = [](const char* name, std::uintptr_t base, std::size_t size, std::size_t quantum, qm_arena* source,
                       std::size_t qcache_max) {
    return qm_arena_create(name, base, size, quantum, nullptr, nullptr, source, qcache_max);
  };
  EXPECT_EQ(make(nullptr, 0, 0, 1, nullptr, 0), nullptr);
  EXPECT_EQ(make("arena", 0, 0, 0, nullptr, 0), nullptr);
  EXPECT_EQ(make("arena", 1, 1, 1, qm_base_arena(), 0), nullptr);
  EXPECT_EQ(make("arena", 0, 0, 8, nullptr, 12), nullptr);
  EXPECT_EQ(make("arena", 0, 0, 1, nullptr, SIZE_MAX), nullptr);
  EXPECT_EQ(make("arena", SIZE_MAX, SIZE_MAX, 1, nullptr, 0), nullptr);

  EXPECT_EQ(qm_arena_add(nullptr, 8, 8), QM_INVALID);
  EXPECT_EQ(qm_arena_alloc(nullptr, 8, QM_INSTANT_FIT), 0U);
  EXPECT_EQ(qm_arena_xalloc(nullptr, 8, 0, 0, 0, 0, 0, QM_NEXT_FIT), 0U);
  EXPECT_EQ(qm_arena_free(nullptr, 8, 8), QM_INVALID);
  EXPECT_EQ(qm_arena_free(nullptr, 0, 8), QM_OK);
  EXPECT_EQ(qm_arena_xfree(nullptr, 8, 8), QM_INVALID);
  EXPECT_EQ(qm_arena_total_bytes(nullptr), 0U);
  EXPECT_EQ(qm_arena_free_bytes(nullptr), 0U);
  EXPECT_EQ(qm_arena_destroy(nullptr), QM_OK);

  qm_arena* arena = make("arena", 8, 64, 8, nullptr, 0);
  ASSERT_NE(arena, nullptr);
  for (const qm_policy policy : {QM_INSTANT_FIT, QM_BEST_FIT, QM_NEXT_FIT, qm_policy{77}}) {
    EXPECT_EQ(qm_arena_alloc(arena, 0, policy), 0U);
    EXPECT_EQ(qm_arena_alloc(arena, SIZE_MAX, policy), 0U);
    EXPECT_EQ(qm_arena_xalloc(arena, 8, 3, 0, 0, 0, 0, policy), 0U);
    EXPECT_EQ(qm_arena_xalloc(arena, 8, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX, policy), 0U);
  }
  EXPECT_EQ(qm_arena_free(arena, 77, 8), QM_NOT_FOUND);
  EXPECT_EQ(qm_arena_add(arena, 8, 8), QM_OVERLAP);
  EXPECT_EQ(qm_arena_add(arena, SIZE_MAX, SIZE_MAX), QM_INVALID);
  EXPECT_EQ(qm_arena_destroy(qm_base_arena()), QM_INVALID);
  EXPECT_EQ(qm_arena_destroy(arena), QM_OK);
  EXPECT_EQ(qm_arena_destroy(arena), QM_NOT_FOUND);
}

TEST_F(CRefusals, heap) {
  ASSERT_EQ(qm_init(ram, sizeof ram), QM_OK);
  void* const none[] = {reinterpret_cast<void*>(1), reinterpret_cast<void*>(UINTPTR_MAX), ram, ram + 70'001, more};
  for (void* block : none) {
    qm_free(block);
    qm_free_sized(block, 10);
    EXPECT_EQ(qm_usable_size(block), 0U);
    EXPECT_EQ(qm_realloc(block, 10), nullptr);
  }
  EXPECT_EQ(qm_malloc(SIZE_MAX), nullptr);
  EXPECT_EQ(qm_calloc(SIZE_MAX, 2), nullptr);
  for (const std::size_t alignment : {std::size_t{0}, std::size_t{3}, SIZE_MAX / 2 + 1, SIZE_MAX}) {
    EXPECT_EQ(qm_aligned_alloc(alignment, 10), nullptr);
  }
  EXPECT_EQ(qm_aligned_alloc(64, SIZE_MAX), nullptr);
  for (const std::size_t bytes : {100, 100'000}) {
    void* block = qm_malloc(bytes);
    ASSERT_NE(block, nullptr);
    EXPECT_EQ(qm_realloc(block, SIZE_MAX), nullptr);
    EXPECT_EQ(qm_realloc(block, SIZE_MAX - 100), nullptr);
    qm_free(block);
  }
}

TEST_F(CRefusals, trace) {
  ASSERT_EQ(qm_init(ram, sizeof ram), QM_OK);
  EXPECT_EQ(qm_trace_start("*"), QM_UNSAFE);
  EXPECT_EQ(qm_trace_foreach(nullptr, visit, nullptr, nullptr), QM_UNSAFE);
  qm_trace_config config = {SIZE_MAX, SIZE_MAX, UINTPTR_MAX};
  EXPECT_EQ(qm_trace_init(&config), QM_INVALID);
  ASSERT_EQ(qm_trace_init(nullptr), QM_OK);
  EXPECT_EQ(qm_trace_start(nullptr), QM_NOT_FOUND);
  EXPECT_EQ(qm_trace_start(""), QM_NOT_FOUND);
  EXPECT_EQ(qm_trace_stop(nullptr), QM_NOT_FOUND);
  EXPECT_EQ(qm_trace_reset(nullptr), QM_NOT_FOUND);
  EXPECT_EQ(qm_trace_foreach(nullptr, nullptr, nullptr, nullptr), QM_INVALID);
  EXPECT_EQ(qm_trace_foreach("", visit, nullptr, nullptr), QM_NOT_FOUND);
}

}  // namespace alloc_c_refusals_test
