// A board at its prompt sleeps: what the emulator takes of the host's processor is what the harts wake up for.

#include "machine.hpp"

#include <unistd.h>

#include <chrono>
#include <fstream>
#include <iostream>
#include <string>

namespace {

using qm::test::Machine;

/// Seconds of processor time that all threads of process @p process have taken.
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
  machine.settle(std::chrono::seconds(10));  // nothing comes
  const std::chrono::duration<double> time = std::chrono::steady_clock::now() - start;
  const double share = (processor_seconds(machine.process()) - before) / time.count();
  std::cout << "takes " << share * 100 << " % of a processor\n";
  EXPECT_LT(share, 0.04);
  EXPECT_GE(time.count(), 10);
  EXPECT_TRUE(machine.type_line("version").starts_with("Quartermaster "));
}

}  // namespace
