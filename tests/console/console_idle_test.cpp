// A board at its prompt sleeps: the emulator's threads, one a hart, tell the host how often they woke up and whether one spun.

#include "machine.hpp"

#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>

namespace console_idle_test {

using qm::test::Machine;

struct Use {
  double processor_seconds = 0;
  std::uint64_t sleeps = 0;  ///< times that a thread gave the processor up by itself
};

/// @returns what all threads of process @p process have used.
Use used(pid_t process) {
  Use use;
  for (const auto& thread : std::filesystem::directory_iterator("/proc/" + std::to_string(process) + "/task")) {
    std::ifstream stat(thread.path() / "stat");
    std::string word;
    for (int field = 1; field <= 15 && stat >> word; ++field) {
      if (field >= 14)
        use.processor_seconds += std::stod(word) / static_cast<double>(sysconf(_SC_CLK_TCK));  // utime, stime
    }
    std::ifstream status(thread.path() / "status");
    while (status >> word) {
      if (word == "voluntary_ctxt_switches:") {
        status >> word;
        use.sleeps += std::stoull(word);
      }
    }
  }
  return use;
}

TEST(Idle, wakes_seldom_and_never_spins) {
  Machine machine;
  machine.settle(std::chrono::seconds(2));
  const Use before = used(machine.process());
  const auto start = std::chrono::steady_clock::now();
  machine.settle(std::chrono::seconds(5));  // no output comes
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const Use after = used(machine.process());
  const double share = (after.processor_seconds - before.processor_seconds) / time.count();
  const double sleeps = static_cast<double>(after.sleeps - before.sleeps) / time.count();
  std::cout << "takes " << share * 100 << " % of a processor and goes to sleep " << sleeps << " times a second\n";
  // Four harts that wake every millisecond sleep 4000 times a second; a hart that spins takes a processor. What one wake-up costs
  // depends on the machine, so the share has room.
  EXPECT_LT(sleeps, 1000);
  EXPECT_LT(share, 0.25);
  EXPECT_GT(after.sleeps, before.sleeps);
  EXPECT_TRUE(machine.type_line("version").starts_with("Quartermaster "));
}

}  // namespace console_idle_test
