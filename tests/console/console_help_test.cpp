// The console's information about itself.

#include "machine.hpp"

#include <qm/test/pattern.hpp>

#include <sstream>
#include <string>

namespace console_help_test {

using qm::test::Machine;
using qm::test::MachineTest;
using qm::wire::CommandStatus;

class Help : public MachineTest {};

TEST_F(Help, the_banner_is_what_version_says) {
  const std::string version = qm::test::replace_all(machine().type_line("version"), "\n  ", " ");  // joins the lines
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
    while (end < help.size() && help[end] == ' ') end = help.find('\n', end) + 1;  // the further lines of the entry
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

/// Each word of a usage that is typed literally must occur in an example.
TEST_F(Help, has_an_example_of_every_option_and_every_example_works) {
  machine().request("slab_trace start packet");
  machine().request("workload run leak 100");
  machine().request("mark before");
  for (const qm::host::ReportRow& command : machine().rows("help")) {
    const std::string name(command.text("name"));
    std::string forms = "\n" + std::string(command.text("usage"));
    std::string examples;
    for (const qm::host::ReportRow& row : machine().rows("help " + name)) {
      const std::string form(row.text("form"));
      if (form.starts_with(name + " ")) forms += "\n" + form.substr(0, form.find("  "));
      if (row.kind != "example") continue;
      const std::string line(row.text("line"));
      examples += line + "\n";
      if (name == "panic" || name == "poweroff" || name == "reboot") continue;
      const Machine::Answer answer = machine().request(line);
      const bool may_fail = name == "expect";  // some objects are live
      EXPECT_TRUE(answer.status == CommandStatus::kOk || (may_fail && answer.status == CommandStatus::kFailed))
          << line << "\n"
          << answer.text;
    }
    EXPECT_FALSE(examples.empty()) << name;
    for (const auto& option : qm::test::find_all(forms, "[ \\[|](-?[a-z_]+)")) {
      EXPECT_FALSE(qm::test::find(examples, " " + std::string(option[1]) + "[ \n]").empty())
          << name << ": no example of " << option[1] << " among\n"
          << examples;
    }
  }
  discard();
}

/// Tab must offer each word of each example at its position: verbs, options, and the names of existing objects.
TEST_F(Help, each_word_of_an_example_is_offered_by_completion) {
  machine().request("slab_trace start packet");
  machine().request("mark before");
  machine().request("pool take 64 64 64");
  unsigned words = 0;
  for (const qm::host::ReportRow& command : machine().rows("help")) {
    const std::string name(command.text("name"));
    for (const qm::host::ReportRow& row : machine().rows("help " + name)) {
      if (row.kind != "example") continue;
      std::istringstream line{std::string(row.text("line"))};
      std::string before, word, last;
      for (; line >> word; before += word + ' ', last = word) {
        const bool is_number = word[0] >= '0' && word[0] <= '9' && last != "hart" && before != "pool free ";
        const bool is_made_up = word.find_first_of("*+") != std::string::npos || before == "mark ";
        if (is_number || is_made_up) continue;
        ++words;
        machine().clear();
        machine().send("free; " + before + (word[0] == '-' ? "-" : "") + "\t\t\x03");
        ASSERT_TRUE(machine().wait_for_text("^C\r\n"));
        const std::string shown = machine().text().substr(machine().text().find(before) + before.size());
        EXPECT_FALSE(qm::test::find(shown, "(^|[ \r\n])" + word + "[ \r\n]").empty())
            << before << "<Tab> does not offer " << word << ":\n"
            << shown;
      }
    }
  }
  EXPECT_GE(words, 100U);
  discard();
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
  // The warnings may come before or after the first prompt.
  EXPECT_TRUE(warned.wait_for_text("warning: boot option frobnicate")) << warned.text();
  EXPECT_TRUE(warned.wait_for_text("warning: boot option ring")) << warned.text();
  warned.settle();
  EXPECT_TRUE(warned.type_line("version").starts_with("Quartermaster "));
}

}  // namespace console_help_test
