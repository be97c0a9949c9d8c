// The end of a session: poweroff and its statuses, reboot.

#include "machine.hpp"

#include <string>

namespace console_end_test {

using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::CommandStatus;

class End : public MachineTest {
 protected:
  void TearDown() override {
    MachineTest::TearDown();
    discard();
  }
};

TEST_F(End, poweroff_gives_qemu_its_status) {
  for (const int status : {0, 1, 42, 255}) {
    machine().send("poweroff " + std::to_string(status) + "\r");
    EXPECT_EQ(machine().wait_for_end(), status) << machine().transcript();
    discard();
  }
}

TEST_F(End, poweroff_without_a_status_is_a_success) {
  machine().send("poweroff\r");
  EXPECT_EQ(machine().wait_for_end(), 0);
}

TEST_F(End, a_request_is_answered_before_the_machine_goes) {
  EXPECT_EQ(machine().request("poweroff 7").status, CommandStatus::kOk);
  EXPECT_EQ(machine().wait_for_end(), 7);
}

TEST_F(End, a_status_that_cannot_be_is_refused) {
  for (const char* bad : {"256", "-1", "1x", "0x", "99999999999999999999"}) {
    const std::string printed = machine().type_line("poweroff " + std::string(bad));
    EXPECT_TRUE(printed.starts_with("error: ")) << printed;
    EXPECT_NE(printed.find(bad), std::string::npos) << printed;
    EXPECT_NE(machine().request("poweroff " + std::string(bad)).status, CommandStatus::kOk) << bad;
  }
  EXPECT_EQ(machine().type_line("poweroff 1 2"), "error: usage: poweroff [STATUS]\n");
  expect_it_still_works();
}

TEST_F(End, reboot_comes_back_to_the_banner) {
  auto options = qm::test::demo();
  options.extra.clear();  // without -no-reboot
  Machine machine(options);
  machine.clear();
  machine.send("reboot\r");
  if (options.board == "spike") {  // this board has no reset
    ASSERT_TRUE(machine.wait_for_text("panic: this board cannot be restarted")) << machine.transcript();
    return;
  }
  ASSERT_TRUE(machine.wait_for_text("qm> ")) << machine.transcript();
  EXPECT_NE(machine.text().find("Quartermaster "), std::string::npos);
  EXPECT_TRUE(machine.type_line("version").starts_with("Quartermaster "));
}

}  // namespace console_end_test
