// What the console says about itself.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <string>

namespace {

using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::CommandStatus;

class Help : public MachineTest {};

TEST_F(Help, the_banner_is_what_version_says) {
  const std::string version = machine().type_line("version");
  EXPECT_TRUE(qm::test::matches(
      version, "Quartermaster [0-9]+\\.[0-9]+\\.[0-9]+ build [0-9a-f]{40}, 2 harts, 128 MiB, formats 2\n"))
      << version;
  Machine other;
  EXPECT_NE(other.text().find(version.substr(0, version.size() - 1) + "\r\nqm> "), std::string::npos) << other.text();
}

TEST_F(Help, lists_the_commands_in_order_and_each_alone_as_in_the_list) {
  const std::string help = machine().type_line("help");
  std::string last;
  std::string entry;
  unsigned commands = 0;
  for (std::size_t at = 0; at < help.size();) {
    std::size_t end = help.find('\n', at) + 1;
    while (end < help.size() && help[end] == ' ') end = help.find('\n', end) + 1;  // the entry's further lines
    entry = help.substr(at, end - at);
    const std::string name = entry.substr(0, entry.find_first_of(" \n"));
    EXPECT_LT(last, name);
    EXPECT_TRUE(machine().type_line("help " + name).starts_with(entry)) << entry;
    last = name;
    at = end;
    ++commands;
  }
  EXPECT_GE(commands, 6u) << help;
}

TEST_F(Help, knows_no_command_that_does_not_exist) {
  EXPECT_EQ(machine().type_line("help frobnicate"), "error: unknown command \"frobnicate\" (try help)\n");
}

TEST_F(Help, is_the_same_by_request) {
  const std::string typed = machine().type_line("help");
  const Machine::Answer answer = machine().request("help");
  EXPECT_EQ(answer.text, typed);
  EXPECT_EQ(answer.status, CommandStatus::kOk);
}

TEST_F(Help, a_boot_option_that_is_unknown_or_malformed_is_named) {
  auto options = qm::test::demo();
  options.append = "frobnicate=1 ring=lots";
  Machine warned(options);
  // The warnings may come before the first prompt or behind it.
  EXPECT_TRUE(warned.wait_for_text("warning: boot option frobnicate")) << warned.text();
  EXPECT_TRUE(warned.wait_for_text("warning: boot option ring")) << warned.text();
  warned.settle();
  EXPECT_TRUE(warned.type_line("version").starts_with("Quartermaster "));
}

}  // namespace
