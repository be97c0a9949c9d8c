/// Guarded samples: misuse that is planted in them is reported, at the access where the memory traps, else at the free.

#include "trace_fixture.hpp"

#include <array>
#include <cstdint>

#include <qm/arena.hpp>
#include <qm/config.h>
#include <qm/guards.h>
#include <qm/guards.hpp>
#include <qm/heap.hpp>
#include <qm/misuse.hpp>
#include <qm/registry.hpp>
#include <qm/test/fault_handler.hpp>
#include <qm/test/seed.hpp>

namespace alloc_guards_test {

using namespace qm;
using Unit = hal::Port::TrapUnit;

struct Told {
  unsigned count = 0;
  MisuseReport last;
};
Told told;

// Each has one call of the allocator or one access, so that stacks and pcs lie in them.
[[gnu::noinline]] void* allocate_here(std::size_t size) {
  void* block = heap::allocate(size);
  asm volatile("" : "+r"(block));
  return block;
}
[[gnu::noinline]] void free_here(void* block) {
  heap::free(block);
  asm volatile("");
}
[[gnu::noinline]] void touch(std::uintptr_t address, bool is_write) {
  auto* byte = reinterpret_cast<volatile unsigned char*>(address);
  if (is_write) {
    *byte = 0x11;
  } else {
    const unsigned char unused = *byte;
    static_cast<void>(unused);
  }
}

template <class Function>
bool lies_in(std::uintptr_t pc, Function function) {
  const auto start = reinterpret_cast<std::uintptr_t>(function);
  return pc >= start && pc - start < 1024;
}

template <class Function>
bool shows(std::uint32_t handle, Function function) {
  trace::CallStack stack;
  std::uint32_t id = 0;
  if (!trace::stack_of(handle, stack, id)) return false;
  // Not the first in an unoptimised build: the allocator has frames before it.
  for (unsigned i = 0; i < stack.depth; ++i) {
    if (lies_in(stack.pcs[i], function)) return true;
  }
  return false;
}

class GuardsTest : public test::TraceTest {
 protected:
  void SetUp() override {
    if (kChecked) GTEST_SKIP() << "a checking build has no samples";
    begin({});
    told = {};
    set_misuse_handler([](const MisuseReport& report) noexcept {
      told.last = report;
      ++told.count;
    });
  }
  void TearDown() override {
    set_misuse_handler(nullptr);
    if (kChecked) return;
    while (plain_count_ != 0) heap::free(plain_[--plain_count_]);
    TraceTest::TearDown();
  }

  /// Allocates until a block is sampled; the others are freed some time later.
  void* sample(std::size_t size) {
    for (unsigned i = 0; i < 200; ++i) {
      void* block = allocate_here(size);
      guards::Guarded guarded;
      if (guards::find(reinterpret_cast<std::uintptr_t>(block), guarded)) return block;
      if (plain_count_ == plain_.size()) {
        while (plain_count_ != 0) heap::free(plain_[--plain_count_]);
      }
      plain_[plain_count_++] = block;
    }
    ADD_FAILURE() << "no sample of " << size << " bytes";
    return nullptr;
  }

  std::array<void*, 100> plain_{};
  unsigned plain_count_ = 0;
  test::FaultHandler faults_;
};

TEST_F(GuardsTest, refuses_what_it_cannot_do) {
  EXPECT_EQ(guards::start({}), Status::kInvalid);
  EXPECT_EQ(guards::select_heap(), Status::kNotFound);
  EXPECT_EQ(guards::stop(), Status::kOk);
  ASSERT_EQ(guards::start({.slots = 4, .every = 1}), Status::kOk);
  CacheConfig config{.name = "made", .object_size = 64};
  config.constructor = [](void*, void*) { return true; };
  Cache* made = Cache::create(config);
  EXPECT_EQ(guards::select(*made), Status::kRefused);
  Cache* large = make("large", Unit::kSlotBytes);
  EXPECT_EQ(guards::select(*large), Status::kRefused);
  EXPECT_EQ(guards::stop(), Status::kOk);
  EXPECT_EQ(guards::stats().slots, 0U);
  EXPECT_EQ(Cache::destroy(made), Status::kOk);
  EXPECT_EQ(Cache::destroy(large), Status::kOk);
  EXPECT_EQ(told.count, 0U);
}

TEST_F(GuardsTest, each_planted_misuse_is_reported_once_with_its_stacks) {
  enum Kind : std::uint64_t {
    kWriteBehind,
    kReadBehind,
    kWriteBefore,
    kReadBefore,
    kWriteFreed,
    kReadFreed,
    kTwice,
    kInner,
    kKinds
  };
  test::Random random;
  ASSERT_EQ(guards::start({.every = 1}), Status::kOk);
  ASSERT_EQ(guards::select_heap(), Status::kOk);
  const bool traps = guards::stats().traps;
  unsigned caught = 0, at_access = 0;
  for (unsigned i = 0; i < 1000; ++i) {
    const std::size_t size = random.between(2, 900);
    const auto kind = static_cast<Kind>(random.below(kKinds));
    void* const block = sample(size);
    ASSERT_NE(block, nullptr);
    ASSERT_EQ(heap::usable_size(block), size);
    const auto start = reinterpret_cast<std::uintptr_t>(block);
    const bool is_write = kind == kWriteBehind || kind == kWriteBefore || kind == kWriteFreed;
    std::uintptr_t address = start + random.below(size);
    if (kind == kWriteBehind || kind == kReadBehind) address = start + size + random.below(8);
    if (kind == kWriteBefore || kind == kReadBefore) address = start - 1 - random.below(8);
    const std::uintptr_t low = start & ~(Unit::kGrainBytes - 1);
    const std::uintptr_t high = (start + size + Unit::kGrainBytes - 1) & ~(Unit::kGrainBytes - 1);
    told = {};
    if (kind == kTwice) {
      free_here(block);
      free_here(block);
      ASSERT_EQ(told.count, 1U) << "size " << size;
      ASSERT_EQ(told.last.kind, Misuse::kDoubleFree);
      ASSERT_TRUE(shows(told.last.freed_by, free_here));
    } else if (kind == kInner) {
      const std::size_t offset = 1 + random.below(size - 1);
      free_here(static_cast<char*>(block) + offset);
      ASSERT_EQ(told.count, 1U) << "size " << size;
      ASSERT_EQ(told.last.kind, Misuse::kInterior);
      ASSERT_EQ(told.last.offset, offset);
      free_here(block);
    } else {
      const bool is_use = kind == kWriteFreed || kind == kReadFreed;
      if (is_use) free_here(block);
      if (random.chance(25)) {  // the trap of an access comes nevertheless
        const hal::InterruptGuard masked;
        touch(address, is_write);
      } else {
        touch(address, is_write);
      }
      const bool is_trapped = traps && (is_use || address < low || address >= high);
      ASSERT_EQ(told.count, is_trapped ? 1U : 0U) << "size " << size << " kind " << kind;
      if (is_trapped) {
        ++at_access;
        ASSERT_EQ(told.last.kind, is_use ? Misuse::kUseAfterFree : Misuse::kOutside);
        ASSERT_EQ(told.last.is_write, test::kKnowsAccess && is_write);
        if (test::kKnowsAccess) {
          ASSERT_TRUE(lies_in(told.last.pc, touch));
        }
        touch(address, is_write);  // goes on, and is reported once
        ASSERT_EQ(told.count, 1U);
      }
      if (!is_use) free_here(block);
      if (!is_trapped && is_write && is_use) {
        EXPECT_EQ(guards::verify(), 1U);
      }
      if (!is_trapped && !is_write) continue;  // a read that does not trap
      ASSERT_EQ(told.count, 1U) << "size " << size << " kind " << kind;
      if (is_use) {
        ASSERT_TRUE(shows(told.last.freed_by, free_here));
        if (!is_trapped) {
          ASSERT_EQ(told.last.kind, Misuse::kWriteAfterFree);
        }
      } else {
        ASSERT_EQ(told.last.kind, Misuse::kOutside);
      }
    }
    ++caught;
    if (kind != kInner) {
      ASSERT_EQ(told.last.object, block);
    }
    if (kind != kTwice && kind != kInner) {
      ASSERT_EQ(told.last.offset, address - start);
    }
    ASSERT_EQ(told.last.count, size);
    ASSERT_TRUE(shows(told.last.allocated_by, allocate_here));
  }
  EXPECT_GT(caught, 800U);
  if (traps) {
    EXPECT_GT(at_access, 300U);
  }
  EXPECT_EQ(guards::stats().live, 0U);
  EXPECT_EQ(guards::stop(), Status::kOk);
}

TEST_F(GuardsTest, a_selected_cache_frees_its_samples_and_other_objects) {
  ASSERT_EQ(guards::start({.slots = 16, .every = 3}), Status::kOk);
  Cache* packet = make("packet", 96);
  if (kCallSites) {
    EXPECT_EQ(guards::select(*packet), Status::kRefused);
    return;
  }
  ASSERT_EQ(guards::select(*packet), Status::kOk);
  test::Random random;
  std::array<void*, 40> held{};
  for (unsigned i = 0; i < 4000; ++i) {
    void*& object = held[random.below(held.size())];
    if (object != nullptr) {
      packet->free(object);
      object = nullptr;
    } else {
      object = packet->allocate();
      ASSERT_NE(object, nullptr);
    }
  }
  EXPECT_GT(guards::stats().sampled, 16U);
  EXPECT_EQ(Cache::destroy(packet), Status::kBusy);
  const bool has_live = guards::stats().live != 0;
  EXPECT_EQ(guards::stop(), has_live ? Status::kBusy : Status::kOk);
  packet->free_bulk(held.data(), 0);
  for (void* object : held) {
    if (object != nullptr) packet->free_bulk(&object, 1);
  }
  EXPECT_EQ(guards::stop(), Status::kOk);
  EXPECT_EQ(told.count, 0U);
  EXPECT_EQ(packet->stats().in_use, 0U);
  EXPECT_TRUE(packet->validate());
  EXPECT_EQ(Cache::destroy(packet), Status::kOk);
}

TEST_F(GuardsTest, a_traced_cache_is_not_sampled_and_keeps_its_trace) {
  if (kCallSites) GTEST_SKIP() << "with call sites only the heap is sampled";
  ASSERT_EQ(guards::start({.slots = 8, .every = 1}), Status::kOk);
  Cache* packet = make("packet", 96);
  ASSERT_EQ(guards::select(*packet), Status::kOk);
  void* before = packet->allocate();
  ASSERT_EQ(guards::stats().live, 1U);
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  std::array<void*, 20> held{};
  for (void*& object : held) object = packet->allocate();
  EXPECT_EQ(guards::stats().live, 1U);
  EXPECT_EQ(recorded(*packet), held.size());
  packet->free(before);
  EXPECT_EQ(guards::stats().live, 0U);
  for (void* object : held) packet->free(object);
  EXPECT_EQ(dump_of(*packet).shown, 0U);
  ASSERT_EQ(trace::stop("packet").status, Status::kOk);
  EXPECT_EQ(told.count, 0U);
  EXPECT_EQ(guards::stop(), Status::kOk);
  EXPECT_EQ(Cache::destroy(packet), Status::kOk);
}

TEST_F(GuardsTest, a_realloc_of_a_sample_keeps_the_contents) {
  ASSERT_EQ(guards::start({.every = 1}), Status::kOk);
  ASSERT_EQ(guards::select_heap(), Status::kOk);
  auto* block = static_cast<unsigned char*>(sample(100));
  for (unsigned i = 0; i < 100; ++i) block[i] = static_cast<unsigned char>(i);
  block = static_cast<unsigned char*>(heap::reallocate(block, 300));
  ASSERT_NE(block, nullptr);
  for (unsigned i = 0; i < 100; ++i) ASSERT_EQ(block[i], i);
  heap::free(block);
  void* gone = sample(64);
  heap::free(gone);
  EXPECT_EQ(heap::reallocate(gone, 100), nullptr);
  EXPECT_EQ(told.count, 1U);
  void* exact = sample(48);
  told = {};
  heap::free_sized(exact, 47);
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(told.last.kind, Misuse::kWrongSize);
  heap::free_sized(exact, 48);
  EXPECT_EQ(told.count, 1U);
  EXPECT_EQ(guards::stats().live, 0U);
  EXPECT_EQ(guards::stop(), Status::kOk);
}

TEST_F(GuardsTest, aligned_blocks_stay_aligned) {
  ASSERT_EQ(guards::start({.every = 1}), Status::kOk);
  ASSERT_EQ(guards::select_heap(), Status::kOk);
  for (const std::size_t alignment : {32U, 64U, 256U, 1024U}) {
    std::array<void*, 40> blocks{};
    for (void*& block : blocks) {
      block = heap::allocate_aligned(alignment, alignment * 5 / 8);
      ASSERT_NE(block, nullptr);
      ASSERT_EQ(reinterpret_cast<std::uintptr_t>(block) % alignment, 0U) << alignment;
    }
    for (void* block : blocks) heap::free(block);
  }
  EXPECT_EQ(guards::stats().live, 0U);
  EXPECT_EQ(told.count, 0U);
  EXPECT_EQ(guards::stop(), Status::kOk);
}

TEST_F(GuardsTest, the_misuses_of_a_cache_are_counted_and_its_end_forgets_its_objects) {
  if (kCallSites) GTEST_SKIP() << "with call sites only the heap is sampled";
  ASSERT_EQ(guards::start({.slots = 4, .every = 1}), Status::kOk);
  Cache* packet = make("packet", 96);
  ASSERT_EQ(guards::select(*packet), Status::kOk);
  void* const object = packet->allocate();
  packet->free(object);
  packet->free(object);
  EXPECT_EQ(packet->stats().misuses, 1U);
  EXPECT_EQ(Cache::destroy(packet), Status::kOk);
  guards::Guarded guarded;
  EXPECT_FALSE(guards::find(reinterpret_cast<std::uintptr_t>(object), guarded));
  EXPECT_EQ(guards::stats().freed, 0U);
  EXPECT_EQ(guards::stop(), Status::kOk);
}

TEST_F(GuardsTest, c_has_the_same) {
  EXPECT_EQ(qm_guard_heap(0, 0), QM_INVALID);
  ASSERT_EQ(qm_guard_heap(1, 0), QM_OK);
  void* const block = sample(64);
  EXPECT_EQ(qm_guard_stop(), QM_BUSY);
  EXPECT_EQ(qm_guard_fault(reinterpret_cast<std::uintptr_t>(&told), 1, 0, 0), 0);
  qm_guard_tick();
  free_here(block);
  told = {};
  touch(reinterpret_cast<std::uintptr_t>(block), true);
  EXPECT_EQ(told.count, guards::stats().traps ? 1U : 0U);
  EXPECT_EQ(qm_guard_stop(), QM_OK);
  EXPECT_EQ(guards::stats().slots, 0U);
  // By time: the next allocation on a slow path that is late enough.
  constexpr std::uint32_t kMs = 50;  // longer than a busy machine takes from one allocation to the next
  ASSERT_EQ(qm_guard_heap(0, kMs), QM_OK);
  const std::uint64_t start = hal::Port::ticks();
  while (hal::Port::ticks() - start < 2 * hal::ticks_of(kMs)) {
  }
  {
    const hal::InterruptGuard masked;
    guards::on_tick();
  }
  void* const late = allocate_here(64);
  guards::Guarded guarded;
  EXPECT_TRUE(guards::find(reinterpret_cast<std::uintptr_t>(late), guarded));
  void* const early = allocate_here(64);
  EXPECT_FALSE(guards::find(reinterpret_cast<std::uintptr_t>(early), guarded));
  heap::free(early);
  heap::free(late);
  EXPECT_EQ(qm_guard_stop(), QM_OK);
}

TEST_F(GuardsTest, only_a_refused_free_counts_as_refused) {
  const auto refused = [] { return RegistryCursor<Arena>().find("kheap")->stats().bad_frees; };
  ASSERT_EQ(guards::start({.every = 1}), Status::kOk);
  ASSERT_EQ(guards::select_heap(), Status::kOk);
  const std::uint64_t before = refused();
  heap::free(sample(48));
  heap::free_sized(sample(48), 48);
  EXPECT_EQ(refused(), before);
  EXPECT_EQ(told.count, 0U);
  alignas(16) std::array<std::byte, 64> foreign{};
  heap::free(&foreign[16]);
  heap::free_sized(&foreign[16], 48);
  EXPECT_EQ(refused(), before + 2);
  EXPECT_EQ(told.count, 2U);
  EXPECT_EQ(guards::stop(), Status::kOk);
}

TEST_F(GuardsTest, all_memory_comes_back) {
  for (unsigned round = 0; round < 3; ++round) {
    const std::size_t before = base_arena().stats().allocated;
    ASSERT_EQ(guards::start({.every = 1}), Status::kOk);
    EXPECT_GT(base_arena().stats().allocated, before);
    EXPECT_EQ(guards::stop(), Status::kOk);
    if (round != 0) {  // the first start allocates the trace's stacks
      EXPECT_EQ(base_arena().stats().allocated, before);
    }
  }
}

}  // namespace alloc_guards_test
