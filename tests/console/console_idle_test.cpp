// A board at its prompt sleeps: the processor time of the emulator on the host shows how often the harts wake up.

#include "machine.hpp"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string>

namespace console_idle_test {

using qm::test::Machine;

/// @returns the processor time in seconds that all threads of process @p process have used.
double processor_seconds(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string word;
  double ticks = 0;
  for (int field = 1; field <= 15 && file >> word; ++field) {
    if (field >= 14) ticks += std::stod(word);  // utime, stime
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

TEST(Idle, takes_less_than_a_twenty_fifth_of_a_processor) {
  Machine machine;
  machine.settle(std::chrono::seconds(2));
  const double before = processor_seconds(machine.process());
  const auto start = std::chrono::steady_clock::now();
  machine.settle(std::chrono::seconds(10));  // no output comes
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const double share = (processor_seconds(machine.process()) - before) / time.count();
  std::cout << "takes " << share * 100 << " % of a processor\n";
  EXPECT_LT(share, 0.04);
  EXPECT_GE(time.count(), 10);
  EXPECT_TRUE(machine.type_line("version").starts_with("Quartermaster "));
}

}  // namespace console_idle_test
