#pragma once
/// A small machine whose exhaustion is reported to the test: the last report, the number of reports, and the number of
/// requested drains.

#include <support/system_fixture.hpp>

#include <array>
#include <atomic>
#include <string_view>

#include <qm/exhaustion.hpp>
#include <qm/test/harts.hpp>

namespace qm::test {

inline constexpr std::size_t kSmallRam = 192 * 1024;

inline ExhaustionReport last_report;
inline std::atomic<unsigned> reports;
inline std::atomic<unsigned> drains_wanted;
inline std::atomic<unsigned> reports_with_a_lock;

inline void keep_report(const ExhaustionReport& report) noexcept {
  if (hal::hart_local().lock_depth != 0) reports_with_a_lock.fetch_add(1);
  last_report = report;
  reports.fetch_add(1);
}

class ExhaustionTest : public SystemTest {
 protected:
  void SetUp() override {
    start(kSmallRam, harts());
    reports = 0;
    drains_wanted = 0;
    reports_with_a_lock = 0;
    last_report = {};
    configure_exhaustion({.report = keep_report, .drain_wanted = []() noexcept { drains_wanted.fetch_add(1); }});
  }
  void TearDown() override {
    EXPECT_EQ(reports_with_a_lock.load(), 0U);
    EXPECT_FALSE(exhaustion::under_pressure());
    SystemTest::TearDown();
  }

  static Cache* make(const char* name, std::size_t bytes = 256) {
    CacheConfig config;
    config.name = name;
    config.object_size = bytes;
    config.source = &page_arena();  // its quantum caches hold idle pages too
    return Cache::create(config);
  }

  static constexpr std::size_t kMost = 4000;
  static std::array<void*, kMost>& table() {
    static std::array<void*, kMost> objects;
    return objects;
  }
  /// Allocates until an allocation fails. @returns the number of objects.
  static std::size_t take_all(Cache& cache, WaitPolicy wait_policy = WaitPolicy::kQuiet) {
    std::size_t count = 0;
    while (count < kMost && (table()[count] = cache.allocate_at(nullptr, 0, wait_policy)) != nullptr) ++count;
    return count;
  }
  static void give_all(Cache& cache, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) cache.free(table()[i]);
  }
  static std::string_view name(const char* text) { return text; }
};

/// Simulates that the running hart is in an interrupt handler, for a scope.
class InHandler {
 public:
  InHandler() noexcept { ++hal::hart_local().trap_depth; }
  ~InHandler() { --hal::hart_local().trap_depth; }
  InHandler(const InHandler&) = delete;
  InHandler& operator=(const InHandler&) = delete;

 private:
  hal::InterruptGuard masked_;
};

template <class Callable>
void on_each_attached_hart(unsigned count, Callable&& callable) {
  on_each_hart(count, [&](unsigned hart) {
    attach_hart(hart);
    callable(hart);
    if (hart != 0) detach_hart(hart);
  });
}

}  // namespace qm::test
