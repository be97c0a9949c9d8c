/// For the host only: several threads may stand for one hart.

#include <sys/wait.h>
#include <unistd.h>

#include <gtest/gtest.h>

#include <array>
#include <thread>

#include <qm/hal/port.hpp>

namespace hal_host_hart_test {

using namespace qm;

TEST(HostHart, threads_that_stand_for_the_same_hart_exclude_each_other) {
  const std::uint64_t end = hal::Port::ticks() + hal::Port::tick_rate() / 5;
  std::atomic<std::uint32_t> sum{0};
  std::atomic<std::uint32_t> additions{0};
  const auto work = [&] {
    const hal::HostHart stand_for(1);
    std::uint32_t own = 0;
    for (; hal::Port::ticks() < end; ++own) {
      const auto add = [&] {
        const std::uint32_t before = sum.load(std::memory_order_relaxed);
        for (int i = 0; i < 100; ++i)
          static_cast<void>(sum.load(std::memory_order_relaxed));  // lets other threads run in between
        sum.store(before + 1, std::memory_order_relaxed);
      };
      {
        const hal::Section section;
        if (section.place() >= 0) {
          add();
          continue;
        }
      }
      const hal::InterruptGuard masked;
      add();
    }
    additions.fetch_add(own);
  };
  std::array<std::thread, 2> threads{std::thread(work), std::thread(work)};
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(sum.load(), additions.load());
}

TEST(HostHart, is_the_own_hart_of_one_thread_and_who_shares_is_counted) {
  const auto mask = [] { const hal::InterruptGuard masked; };
  mask();
  const std::uint32_t before = hal::threads_without_hart();
  {
    const hal::HostHart again(0);
    EXPECT_TRUE(again.is_own());
    mask();
  }
  std::thread([&] {
    const hal::HostHart first(1);
    EXPECT_TRUE(first.is_own());
    std::thread([&] {
      const hal::HostHart second(1);
      EXPECT_FALSE(second.is_own());
      mask();
      mask();
    }).join();
    mask();
  }).join();
  EXPECT_EQ(hal::threads_without_hart(), before + 1);
  std::thread(mask).join();
  EXPECT_EQ(hal::threads_without_hart(), before + 2) << "a thread without a HostHart";
  std::thread([&] {
    const hal::HostHart later(1);
    EXPECT_TRUE(later.is_own()) << "it was given back";
    mask();
  }).join();
  EXPECT_EQ(hal::threads_without_hart(), before + 2);
}

TEST(HostHart, refuses_a_number_that_no_hart_has) {
  const pid_t child = fork();
  if (child == 0) {
    hal::set_fatal_handler([](const char*) { _exit(7); });
    const hal::HostHart beyond(hal::Port::kMaxHarts);
    _exit(0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

}  // namespace hal_host_hart_test
