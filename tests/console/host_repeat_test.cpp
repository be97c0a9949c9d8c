// With --icount and -c the board has its commands from the start, and all runs are identical, even addresses and times.

#include "machine.hpp"

#include <gtest/gtest.h>

#include <string>

#include <qm/test/command.hpp>
#include <qm/test/seed.hpp>

namespace host_repeat_test {

using qm::test::Outcome;

Outcome run(const std::string& arguments) {
  const qm::host::QemuOptions demo = qm::test::demo();
  return qm::test::run_command(std::string(QM_TOOL) + " run --icount --image " + demo.image.string() + " --harts " +
                               std::to_string(demo.harts) + " " + arguments + " 2>&1");
}

TEST(Repeat, three_runs_of_the_same_commands_print_the_same_addresses_and_counts) {
  const std::string commands =
      "-c 'slab_trace start packet' -c 'workload run leak 50' -c 'slab_trace print packet' "
      "-c 'workload run churn 1000' -c slab_stats -c free";
  const Outcome first = run(commands);
  ASSERT_EQ(first.status, 0) << first.text;
  ASSERT_NE(first.text.find("Obj 0x"), std::string::npos) << first.text;
  for (int again = 1; again < 3; ++again) EXPECT_EQ(run(commands).text, first.text);
}

TEST(Repeat, the_commands_are_run_as_others_are) {
  EXPECT_EQ(run("-c 'help nothing' -c ' ' -c version").status, 1);
  EXPECT_EQ(run("-c 'poweroff 7' -c version").status, 7);
  EXPECT_NE(run("--append 'frobnicate=1 -- x' -c version").text.find("boot option frobnicate=1 is unknown"),
            std::string::npos);
}

}  // namespace host_repeat_test
