// The leak scan in a panic. A panic cannot be undone, so this test has a program of its own, and one case. With two
// harts the panic ends a scan, whose memory is still allocated; with one hart there is none.

#include <support/system_fixture.hpp>

#include <array>

#include <qm/detail/lock.hpp>
#include <qm/scan.hpp>
#include <qm/test/harts.hpp>

namespace alloc_scan_panic_test {

using namespace qm;

std::array<void*, 4> kept;
unsigned busy = hal::BroadcastResult::kNobody;

void visit_kept(scan::Roots& roots, std::uintptr_t) noexcept {
  const auto start = reinterpret_cast<std::uintptr_t>(kept.data());
  roots.range(start, start + sizeof kept);
}
constinit const scan::Platform kPlatform{
    .visit = visit_kept, .busy_hart = []() noexcept { return busy; }, .memory = {}};

class ScanPanicTest : public test::SystemTest {
 protected:
  void TearDown() override { scan::set_platform(nullptr); }  // what follows a panic is not judged

  static Status scan_for(std::size_t leaked, const char* what) {
    LeakScan scan;
    const Status status = scan.run();
    if (status == Status::kOk) {
      EXPECT_EQ(scan.summary().leaked, leaked) << what;
    }
    return status;
  }
};

TEST_F(ScanPanicTest, asks_no_hart_allocates_nothing_and_refuses_if_a_hart_may_be_inside_the_allocator) {
  scan::set_platform(&kPlatform);
  scan::set_memory({});
  CacheConfig config;
  config.name = "node";
  config.object_size = 96;
  Cache* const cache = Cache::create(config);
  ASSERT_NE(cache, nullptr);
  kept.fill(nullptr);
  kept[1] = cache->allocate();
  ASSERT_NE(cache->allocate(), nullptr);  // leaked
  EXPECT_EQ(scan_for(1, "before the panic"), Status::kOk);

  {
    LeakScan other;
    ASSERT_EQ(other.run(), Status::kOk);
    EXPECT_EQ(scan_for(1, "beside another scan"), Status::kBusy);
    if (test::harts() == 2) hal::enter_panic();
  }
  hal::enter_panic();
  const std::size_t free_bytes = base_arena().stats().free;
  for (int round = 0; round < 3; ++round) EXPECT_EQ(scan_for(1, "in the panic"), Status::kOk);
  static std::array<std::byte, 256 * 1024> given;
  ASSERT_EQ(scan::set_memory({reinterpret_cast<std::uintptr_t>(given.data()), sizeof given}), Status::kOk);
  EXPECT_EQ(scan_for(1, "in given memory"), Status::kOk);
  scan::set_memory({});
  EXPECT_EQ(base_arena().stats().free, free_bytes);

  busy = 0;
  {
    LeakScan scan;
    EXPECT_EQ(scan.run(), Status::kUnsafe);
    EXPECT_EQ(scan.summary().hart, 0u);
  }
  busy = hal::BroadcastResult::kNobody;
  static constinit Lock lock;
  {
    const LockGuard held(lock);
    EXPECT_EQ(scan_for(1, "with a lock held"), Status::kUnsafe);
  }
  kept[1] = nullptr;
  EXPECT_EQ(scan_for(2, "after all"), Status::kOk);
}

}  // namespace alloc_scan_panic_test
