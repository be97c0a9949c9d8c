/// The handler of misuse is set and removed while another hart reports misuse.

#include <support/system_fixture.hpp>

#include <atomic>

#include <qm/misuse.hpp>
#include <qm/test/harts.hpp>

namespace alloc_misuse_threads_test {

using namespace qm;

class MisuseThreads : public test::SystemTest {};

std::atomic<unsigned> told;

TEST_F(MisuseThreads, the_handler_may_go_while_another_hart_is_about_to_call_it) {
  restart(test::kPoolBytes, 2);
  Cache* cache = Cache::create({.name = "packet", .object_size = 64});
  ASSERT_NE(cache, nullptr);
  constexpr unsigned kTimes = 20'000;
  told = 0;
  std::atomic<bool> over{false};
  test::on_each_hart(2, [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 0) {
      while (!over.load()) {
        set_misuse_handler([](const MisuseReport&) noexcept { told.fetch_add(1); });
        set_misuse_handler(nullptr);
      }
    } else {
      for (unsigned i = 0; i < kTimes || told.load() == 0; ++i) cache->free_slow(nullptr);
      over = true;
      detach_hart(hart);
    }
  });
  EXPECT_GT(told.load(), 0U);
}

}  // namespace alloc_misuse_threads_test
