/// The sliced leak scan while all other harts allocate, free, and move pointers from place to place: it finds the planted
/// leaks and nothing else.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>
#include <cstring>
#include <utility>

#include <qm/hal/hart.hpp>
#include <qm/heap.hpp>
#include <qm/scan.hpp>
#include <qm/test/harts.hpp>
#include <qm/test/seed.hpp>

#include "scan/scan_defect.hpp"

namespace alloc_scan_threads_test {

using namespace qm;

constexpr std::size_t kPlaces = 24, kBytes = 96;
std::array<std::array<void*, kPlaces>, hal::Port::kMaxHarts> places;

void visit(scan::Roots& roots, std::uintptr_t) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(places.data());
  roots.range(start, start + sizeof places);
}
constinit const scan::Platform kPlatform{.visit = visit, .memory = {}};

class ScanThreads : public test::SystemTest {
 protected:
  void SetUp() override {
    start(test::kPoolBytes, test::harts());
    places = {};
    scan::set_platform(&kPlatform);
  }
  void TearDown() override {
    scan::set_platform(nullptr);
    SystemTest::TearDown();
  }
};

/// Frees an object and all behind it.
void free_chain(Cache& cache, void* first) {
  while (first != nullptr) {
    void* const next = *static_cast<void**>(first);
    ObjectPlace place;
    if (cache.locate(reinterpret_cast<std::uintptr_t>(first), place)) {
      cache.free(first);
    } else {
      heap::free(first);
    }
    first = next;
  }
}

/// A step of a hart's churn. Interrupts are masked, so that the scan, which notes its roots while nobody does this, never
/// finds a pointer only in a variable of this function at that moment; beside its passes it does.
void churn(Cache& cache, std::array<void*, kPlaces>& mine, test::Random& random) {
  void*& from = mine[random.below(kPlaces)];
  void*& to = mine[random.below(kPlaces)];
  const hal::InterruptGuard masked;
  void* const moved = std::exchange(from, nullptr);
  switch (random.below(4)) {
    case 0:  // from one place to another
      if (to == nullptr) {
        to = moved;
        return;
      }
      break;
    case 1:  // into another object, and out of it
      if (to != nullptr && moved != nullptr) {
        void*& inner = *static_cast<void**>(to);
        from = std::exchange(inner, moved);
        return;
      }
      break;
    case 2:  // a new object
      if (moved == nullptr) {
        void* const made = random.below(2) != 0 ? cache.allocate() : heap::allocate(kBytes);
        if (made != nullptr) std::memset(made, 0, kBytes);
        from = made;
        return;
      }
      break;
    default: free_chain(cache, moved); return;
  }
  from = moved;
}

TEST_F(ScanThreads, finds_leaks_and_accuses_nobody_while_pointers_move) {
  Cache* const cache = Cache::create({.name = "node", .object_size = kBytes});
  ASSERT_NE(cache, nullptr);
  // Not a leak: the allocator itself often has the address of a slab's first object in a register.
  places[0][0] = cache->allocate();
  ASSERT_NE(places[0][0], nullptr);
  std::memset(places[0][0], 0, kBytes);
  constexpr std::size_t kLeaks = 12;
  std::array<std::uintptr_t, kLeaks> leaks{};
  for (std::uintptr_t& leak : leaks) {
    void* const object = cache->allocate();
    ASSERT_NE(object, nullptr);
    std::memset(object, 0, kBytes);
    leak = ~reinterpret_cast<std::uintptr_t>(object);
  }
  const unsigned harts = test::harts();
  std::atomic<bool> over{false};
  test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    test::Random random(test::seed() + hart);
    while (hart != 0 && !over.load(std::memory_order_relaxed)) {
      for (unsigned i = 0; i < 50; ++i) churn(*cache, places[hart], random);
      hal::Port::relax();
    }
    for (unsigned scans = 0; hart == 0 && scans < 6; ++scans) {
      LeakScan scan;
      EXPECT_EQ(scan.run_sliced(), Status::kOk);
      EXPECT_EQ(scan.summary().leaked, kLeaks);
      EXPECT_EQ(scan.groups().size(), 1U);
      EXPECT_GE(scan.summary().passes, 17U);
      for (unsigned i = 0; i < 50; ++i) churn(*cache, places[0], random);
    }
    if (hart == 0) over.store(true, std::memory_order_relaxed);
    if (hart != 0) detach_hart(hart);
  });
  for (auto& of_hart : places) {
    for (void* const one : of_hart) free_chain(*cache, one);
  }
  for (const std::uintptr_t leak : leaks) cache->free(reinterpret_cast<void*>(~leak));
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}

#if defined(__riscv)
/// Waits until @p flag is not 0, with @p object only in a register.
void hold_in_register(void*& object, const std::atomic<std::uint32_t>& flag) {
  asm volatile(
#if __riscv_xlen == 64
      "ld t5, 0(%0)\n\tsd zero, 0(%0)\n\t"
      "1: lw t4, 0(%1)\n\tbeqz t4, 1b\n\t"
      "sd t5, 0(%0)\n\tli t5, 0"
#else
      "lw t5, 0(%0)\n\tsw zero, 0(%0)\n\t"
      "1: lw t4, 0(%1)\n\tbeqz t4, 1b\n\t"
      "sw t5, 0(%0)\n\tli t5, 0"
#endif
      :
      : "r"(&object), "r"(&flag)
      : "t4", "t5", "memory");
}

// The platform of this test names no stacks, and so no registers that are saved there.
TEST_F(ScanThreads, sees_what_only_a_register_of_another_hart_holds) {
  Cache* const cache = Cache::create({.name = "node", .object_size = kBytes});
  ASSERT_NE(cache, nullptr);
  std::atomic<std::uint32_t> over{0};
  test::Barrier barrier(test::harts());
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 1) {
      places[1][0] = cache->allocate();
      std::memset(places[1][0], 0, kBytes);
    }
    barrier.arrive();
    if (hart == 1) hold_in_register(places[1][0], over);
    if (hart == 0) {
      while (*static_cast<void* volatile*>(&places[1][0]) != nullptr) hal::Port::relax();
      // With the defect that the scan skips registers it must report the object.
      for (const auto defect : {scan::ScanDefect::kNone, scan::ScanDefect::kNoRegisters}) {
        scan::scan_defect = defect;
        LeakScan scan;
        EXPECT_EQ(scan.run_sliced(), Status::kOk);
        EXPECT_EQ(scan.summary().leaked, defect == scan::ScanDefect::kNone ? 0U : 1U);
        EXPECT_EQ(scan.summary().live, 1U);
      }
      scan::scan_defect = scan::ScanDefect::kNone;
      over.store(1, std::memory_order_relaxed);
    }
    barrier.arrive();
    if (hart == 1) cache->free(std::exchange(places[1][0], nullptr));
    if (hart != 0) detach_hart(hart);
  });
  EXPECT_EQ(Cache::destroy(cache), Status::kOk);
}
#endif

}  // namespace alloc_scan_threads_test
