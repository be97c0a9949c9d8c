/// The exact number of instructions of the fast path: see cost.hpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>

#include <qm/config.h>
#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/hal/port.hpp>
#include <qm/heap.hpp>
#include <qm/inline_cache.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/rewind.hpp>
#include <qm/system.hpp>
#include <qm/test/harts.hpp>
#include <qm/trace/live_trace.hpp>

#include "cost.hpp"

namespace {

using qm::test::counter_is_exact;
using qm::test::instructions;

QM_INLINE_CACHE(Inlined);
QM_DEFINE_INLINE_CACHE(Inlined);

#if defined(QM_FAST_PATH_SECTIONS)
constexpr bool kSections = true;
#else
constexpr bool kSections = false;
#endif
#if defined(__OPTIMIZE__)
constexpr bool kOptimised = true;
#else
constexpr bool kOptimised = false;
#endif

#if defined(__OPTIMIZE_SIZE__)
constexpr unsigned long kJumps = 2;  // over the calls of the slow halves, which lie in between
#else
constexpr unsigned long kJumps = 0;
#endif

constexpr unsigned long kPairs = 200;

/// @returns the instructions of a loop of kPairs pairs: the least of a few runs, because on several harts another
///          hart's tick may be counted too.
template <class Loop>
unsigned long cost(Loop loop) {
  unsigned long least = ~0UL;
  for (int run = 0; run < 24; ++run) {
    const qm::hal::InterruptGuard masked;
    const unsigned long before = instructions();
    loop(kPairs);
    const unsigned long spent = instructions() - before;
    if (spent < least) least = spent;
  }
  return least;
}

/// @returns the cost of an allocation and a free with the loop around them, at a call site that does nothing else. A
///          build with call sites has a hook there.
unsigned long pair_cost(qm::Cache* cache) {
#if defined(QM_CALL_SITES)
#define QM_PASS_SITE "  la a1, qm_untagged_site\n"
#else
#define QM_PASS_SITE ""
#endif
  return cost([cache](unsigned long left) {
    asm volatile(
        "1:\n"
        "  mv a0, %[cache]\n" QM_PASS_SITE
        "  call qm_cache_allocate\n"
        "  mv a1, a0\n"
        "  mv a0, %[cache]\n"
        "  call qm_cache_free\n"
        "  addi %[left], %[left], -1\n"
        "  bnez %[left], 1b\n"
        : [left] "+r"(left)
        : [cache] "r"(cache)
        : "ra", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "memory");
  });
}

#if defined(QM_CALL_SITES)
#define QM_MALLOC "  la a0, qm_untagged_site\n  li a1, 50\n  call qm_malloc_at\n"
#else
#define QM_MALLOC "  li a0, 50\n  call qm_malloc\n"
#endif

/// The same for a block of the heap.
unsigned long heap_pair_cost() {
  return cost([](unsigned long left) {
    // clang-format off
    asm volatile(
        "1:\n" QM_MALLOC
        "  call qm_free\n"
        "  addi %[left], %[left], -1\n"
        "  bnez %[left], 1b\n"
        : [left] "+r"(left)
        :
        : "ra", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "memory");
    // clang-format on
  });
}

/// Two blocks that are freed alternately, and allocated in the order in which they return.
unsigned long two_pairs_cost(void* first, void* second) {
  return cost([&](unsigned long left) {
    // clang-format off
    asm volatile(
        "1:\n"
        "  mv a0, %[first]\n"
        "  call qm_free\n"
        "  mv a0, %[second]\n"
        "  call qm_free\n" QM_MALLOC
        "  mv %[second], a0\n" QM_MALLOC
        "  mv %[first], a0\n"
        "  addi %[left], %[left], -1\n"
        "  bnez %[left], 1b\n"
        : [left] "+r"(left), [first] "+r"(first), [second] "+r"(second)
        :
        : "ra", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "t0", "t1", "t2", "t3", "t4", "t5", "t6", "memory");
    // clang-format on
  });
}

/// The same with the inlined form, as the compiler generates it.
unsigned long inlined_pair_cost() {
  return cost([](unsigned long left) {
    do {
      Inlined::free(Inlined::allocate());
    } while (--left != 0);
  });
}

/// A pair of a cache through a hook, as the compiler generates it.
unsigned long hooked_pair_cost(qm::Cache* cache) {
  return cost([cache](unsigned long left) {
    do {
      cache->free(QM_ALLOC(cache->allocate));
    } while (--left != 0);
  });
}

/// The same for a pair of the heap.
unsigned long hooked_heap_pair_cost() {
  return cost([](unsigned long left) {
    do {
      qm::heap::free(QM_ALLOC(qm::heap::allocate, 50));
    } while (--left != 0);
  });
}

/// @returns the instructions that qm_rewind() takes for an interrupted hart, including the call.
unsigned long rewind_cost(std::uintptr_t pc) {
  static constexpr std::uintptr_t kRegisters[32] = {};
  return cost([pc](unsigned long left) {
    do {
      std::uintptr_t resumed = qm_rewind(pc, kRegisters);
      asm volatile("" : : "r"(resumed));
    } while (--left != 0);
  });
}

constexpr unsigned long kCount = qm::kCounted ? 3 : 0;
/// The cost that call sites add: two that pass the site, 8 and 15 for a cache, 14 and 17 for the heap.
/// docs/call-sites.md has the sums.
constexpr unsigned long kCharge = qm::kCallSites ? 2 + 8 + 15 : 0;
constexpr unsigned long kHeapCharge = qm::kCallSites ? 2 + 14 + 17 : 0;
/// Seven for the loop and its calls, nine for the pop, nine for the push.
constexpr unsigned long kPair = 7 + 9 + 9 + kCount + kCharge;
/// Two for the loop, six for the pop, seven for the push.
constexpr unsigned long kInlinedPair = 2 + 6 + 7 + kCount + kJumps;
/// Five for the loop and its calls, 16 for the allocation, 17 for the free.
constexpr unsigned long kHeapPair = 5 + 16 + 17 + kCount + kHeapCharge;
/// Twelve for the loop and its calls.
constexpr unsigned long kTwoPairs = 12 + 2 * (kHeapPair - 5);
/// The additional cost of a free in another page-map leaf than that of the hart's latest free.
constexpr unsigned long kOtherLeaf = 8;
/// The masked form, as the compiler generates it: 39, and 37 with the count.
constexpr unsigned long kMaskedPair = 40;

/// Whether the figures above apply: the masked form is longer, and the optimiser determines the inlined code.
bool exact() { return kSections && counter_is_exact(); }
bool exact_inlined() { return exact() && kOptimised && !qm::kCallSites; }

class FastPath : public testing::Test {
 protected:
  void SetUp() override {
    alignas(4096) static std::byte memory[2 << 20];
    const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), sizeof memory};
    ASSERT_EQ(qm::initialize({&range, 1}, qm::firmware::boot_info().hart_count), qm::Status::kOk);
    qm::attach_hart(0);
    ASSERT_EQ(qm::trace::initialize({.object_base = reinterpret_cast<std::uintptr_t>(memory)}), qm::Status::kOk);
    qm::CacheConfig config;
    config.name = "hot";
    config.object_size = 64;
    cache_ = qm::Cache::create(config);
    ASSERT_NE(cache_, nullptr);
    cache_->free(cache_->allocate());
    // The first operations of a class use blocks, and each of them makes progress towards the class's cache.
    for (int steps = 8; steps != 0; --steps) qm::heap::free(qm::heap::allocate(50));
    config.name = "inlined";
    ASSERT_EQ(Inlined::create(config), qm::Status::kOk);
    Inlined::free(Inlined::allocate());
    qm::heap::free(qm::heap::allocate(50));
  }
  void TearDown() override {
    EXPECT_EQ(qm::Cache::destroy(cache_), qm::Status::kOk);
    EXPECT_EQ(Inlined::destroy(), qm::Status::kOk);
    qm::trace::shutdown();
    qm::shutdown();
  }

  /// Expects each form to cost on each hart as much as its listing says.
  void expect_full_speed() {
    if (!exact_inlined()) return expect_full_speed_here();
    qm::test::Barrier turns(qm::test::harts());
    qm::test::on_each_hart(qm::test::harts(), [&](unsigned hart) {
      if (hart != 0) qm::attach_hart(hart);
      for (unsigned turn = 0; turn < qm::test::harts(); ++turn) {
        if (turn == hart) {  // all harts share the counter, so the others wait
          use_each_form();
          expect_full_speed_here();
        }
        turns.arrive();
      }
      if (hart != 0) qm::detach_hart(hart);
    });
  }
  /// Gives the magazines to the running hart.
  void use_each_form() {
    cache_->free(cache_->allocate());
    Inlined::free(Inlined::allocate());
    qm::heap::free(qm::heap::allocate(50));
  }
  void expect_full_speed_here() {
    const unsigned long pair = pair_cost(cache_);
    const unsigned long inlined = inlined_pair_cost();
    const unsigned long called = pair_cost(Inlined::cache());
    const unsigned long of_heap = heap_pair_cost();
    if (exact()) {
      expect_cost(pair, kPair);
      expect_cost(called, kPair);
      expect_cost(of_heap, kHeapPair);
    }
    if (exact_inlined()) expect_cost(inlined, kInlinedPair);
    if (!kSections && kOptimised && counter_is_exact()) {
      EXPECT_LE(pair / kPairs, kMaskedPair);
      EXPECT_LE(inlined / kPairs, kMaskedPair);
    }
  }
  static void expect_cost(unsigned long spent, unsigned long each) {
    EXPECT_EQ(spent / kPairs, each);
    EXPECT_LT(spent % kPairs, 20U);  // the entry and the exit of the loop
  }
  /// Expects every form to take the slow path of the trace.
  void expect_detour() {
    if (!counter_is_exact()) return;
    EXPECT_GT(pair_cost(cache_), kPairs * (kPair + 20));
    EXPECT_GT(inlined_pair_cost(), kPairs * (kInlinedPair + 20));
  }

  qm::Cache* cache_ = nullptr;
};

TEST_F(FastPath, a_pair_costs_what_its_listing_says_on_each_hart) {
  expect_full_speed();
  EXPECT_EQ(cache_->stats().in_use, 0U);
  EXPECT_EQ(Inlined::cache()->stats().in_use, 0U);
}

TEST_F(FastPath, through_a_hook_costs_what_the_document_says_and_off_the_same) {
  const unsigned long pair = hooked_pair_cost(cache_);
  const unsigned long of_heap = hooked_heap_pair_cost();
  if constexpr (qm::kCallSites) {
    qm::call_sites::set_on(false);
    const unsigned long pair_off = hooked_pair_cost(cache_);
    const unsigned long of_heap_off = hooked_heap_pair_cost();
    qm::call_sites::set_on(true);
    if (counter_is_exact()) {
      EXPECT_EQ(pair, pair_off);
      EXPECT_EQ(of_heap, of_heap_off);
    }
  }
  if (!exact() || !kOptimised) return;
  constexpr unsigned long kOnce = qm::kCallSites ? 1 : 0;  // half of the site's address is computed outside of the loop
  expect_cost(pair, kPair - kOnce);
  expect_cost(of_heap, kHeapPair - kOnce);
}

TEST_F(FastPath, costs_the_same_after_tracing_was_on_and_its_records_are_gone) {
  ASSERT_EQ(qm::trace::start("hot").status, qm::Status::kOk);
  ASSERT_EQ(qm::trace::start("inlined").status, qm::Status::kOk);
  expect_detour();
  void* leaked = cache_->allocate();
  void* leaked_inlined = Inlined::allocate();
  ASSERT_EQ(qm::trace::stop("hot").status, qm::Status::kOk);
  ASSERT_EQ(qm::trace::stop("inlined").status, qm::Status::kOk);
  cache_->free(cache_->allocate());
  Inlined::free(Inlined::allocate());
  expect_detour();  // a record is left, so frees look for it
  cache_->free(leaked);
  Inlined::free(leaked_inlined);
  cache_->free(cache_->allocate());
  Inlined::free(Inlined::allocate());
  expect_full_speed();
}

TEST_F(FastPath, a_traced_object_costs_the_same_beside_10000_as_beside_100) {
  ASSERT_EQ(qm::trace::start("hot").status, qm::Status::kOk);
  constexpr unsigned kMost = 10000;
  static void* objects[kMost];
  unsigned held = 0;
  unsigned long spent[2] = {};
  // One call allocates all of them, so they have one stack: the depth in the stack depot's tree differs by stack.
  volatile unsigned stages = 4;  // volatile: prevents unrolling
  for (unsigned stage = 0; stage < stages; ++stage) {
    const unsigned count = stage < 2 ? 100 : kMost;
    while (held < count) ASSERT_NE(objects[held++] = cache_->allocate(), nullptr);
    spent[stage / 2] =
        pair_cost(cache_);  // after the first of two pairs a full magazine, a free slot and the stack are available
    EXPECT_EQ(qm::trace::cache_trace(*cache_).live, count);
  }
  while (held != 0) cache_->free(objects[--held]);
  ASSERT_EQ(qm::trace::stop("hot").status, qm::Status::kOk);
  if (!counter_is_exact() || qm::test::harts() != 1) return;
  EXPECT_EQ(spent[1], spent[0]);
}

TEST_F(FastPath, of_the_heap_costs_the_same_after_its_class_was_traced) {
  ASSERT_EQ(qm::trace::start("kmalloc_64").status, qm::Status::kOk);
  void* leaked = qm::heap::allocate(50);
  const unsigned long traced = heap_pair_cost();
  ASSERT_EQ(qm::trace::stop("kmalloc_64").status, qm::Status::kOk);
  qm::heap::free(qm::heap::allocate(50));
  const unsigned long watched = heap_pair_cost();  // a record is left, so frees look for it
  qm::heap::free(leaked);
  qm::heap::free(qm::heap::allocate(50));
  expect_full_speed();
  if (!counter_is_exact()) return;
  EXPECT_GT(traced, kPairs * (kHeapPair + 20));
  EXPECT_GT(watched, kPairs * (kHeapPair + 20));
}

/// @returns a megabyte of the machine's memory that is in another page-map leaf than @p memory.
qm::MemoryRange far_from(const void* memory) {
  constexpr std::uintptr_t kLeaf = qm::PageMap::kLeafBytes;
  for (const qm::hal::MemoryRange& range : qm::firmware::boot_info().memory) {
    const std::uintptr_t start = (range.low + kLeaf - 1) / kLeaf * kLeaf;
    if (start / kLeaf == reinterpret_cast<std::uintptr_t>(memory) / kLeaf) continue;
    if (start >= range.low && start + (1 << 20) <= range.low + range.bytes()) return {start, 1 << 20};
  }
  return {};
}

TEST_F(FastPath, of_the_heap_costs_the_same_in_any_memory) {
  void* const near = qm::heap::allocate(50);
  const qm::MemoryRange far = far_from(near);
  ASSERT_NE(far.size, 0U);
  ASSERT_EQ(qm::add_memory(far), qm::Status::kOk);
  qm::Arena& base = qm::base_arena();
  std::array<std::uintptr_t, 1024> pages;
  std::size_t held = 0;
  const auto is_far = [&](const void* block) { return reinterpret_cast<std::uintptr_t>(block) - far.start < far.size; };
  while (held < pages.size() && !is_far(reinterpret_cast<void*>(pages[held] = base.allocate(4096)))) ++held;
  ASSERT_LT(held, pages.size());
  base.free(pages[held], 4096);
  std::array<void*, 1024> blocks;
  std::size_t count = 0;
  while (count < blocks.size() && !is_far(blocks[count] = qm::heap::allocate(50))) ++count;
  ASSERT_LT(count, blocks.size());
  qm::heap::free(blocks[count]);  // the newest one: each allocation takes it again
  const unsigned long cost = heap_pair_cost();
  if (exact()) expect_cost(cost, kHeapPair);
  void* const other = qm::heap::allocate(50);
  ASSERT_TRUE(is_far(other));
  // At several fill levels of the magazine: at some of them there is no room for two.
  std::array<void*, 4> more;
  unsigned long alternating = ~0UL;
  unsigned long in_one = ~0UL;
  for (void*& block : more) {
    alternating = std::min(alternating, two_pairs_cost(near, other));
    in_one = std::min(in_one, two_pairs_cost(blocks[count - 1], near));
    block = qm::heap::allocate(50);
  }
  if (exact()) expect_cost(alternating, kTwoPairs + 2 * kOtherLeaf);
  if (exact()) expect_cost(in_one, kTwoPairs);
  for (void* const block : more) qm::heap::free(block);
  qm::heap::free(other);
  qm::heap::free(near);
  const unsigned long beside_others = heap_pair_cost();
  if (exact()) expect_cost(beside_others, kHeapPair);
  while (count != 0) qm::heap::free(blocks[--count]);
  while (held != 0) base.free(pages[--held], 4096);
}

TEST_F(FastPath, costs_the_same_after_a_reset_with_records_left) {
  ASSERT_EQ(qm::trace::start("hot").status, qm::Status::kOk);
  ASSERT_EQ(qm::trace::start("inlined").status, qm::Status::kOk);
  void* leaked = cache_->allocate();
  void* leaked_inlined = Inlined::allocate();
  ASSERT_EQ(qm::trace::stop("hot").status, qm::Status::kOk);
  ASSERT_EQ(qm::trace::stop("inlined").status, qm::Status::kOk);
  ASSERT_EQ(qm::trace::reset("hot").status, qm::Status::kOk);
  ASSERT_EQ(qm::trace::reset("inlined").status, qm::Status::kOk);
  cache_->free(cache_->allocate());
  Inlined::free(Inlined::allocate());
  expect_full_speed();
  cache_->free(leaked);
  Inlined::free(leaked_inlined);
}

TEST_F(FastPath, an_interrupt_outside_of_all_sections_pays_little) {
  if (!exact_inlined()) return;
  const auto here = reinterpret_cast<std::uintptr_t>(&instructions);
  const auto inside = reinterpret_cast<std::uintptr_t>(&qm_cache_allocate);
  EXPECT_LE(rewind_cost(here),
            kPairs * 100);  // including the heap's sections and the search in a table of a few dozen inlined ones
  EXPECT_LE(rewind_cost(inside), kPairs * 30);
}

}  // namespace
