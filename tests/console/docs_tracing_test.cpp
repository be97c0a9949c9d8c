// docs/tracing.md is correct: its commands are typed in order on the running demo, and their output must have the shape
// shown in the document.
//
// In a block of the document, `qm> LINE` is typed, `$ LINE` is run by the shell, and the following lines are expected.
// A number stands for any number, an address for any address, blanks for any blanks, a line `...` for any lines. An
// address in a command is replaced by the address printed at its place in the document.

#include "machine.hpp"

#include <qm/test/command.hpp>
#include <qm/test/pattern.hpp>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace docs_tracing_test {

using qm::test::Machine;

using Lines = std::vector<std::string>;
using Addresses = std::map<std::string, std::string>;

constexpr const char* kImageInDocument = "build/target-release/firmware/demo/quartermaster.elf";

Lines lines_of(std::istream& in) {
  Lines lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    lines.push_back(line);
  }
  return lines;
}

std::string masked(const std::string& line) {
  std::string text = qm::test::replace_all(line, "0x[0-9a-f]+", "@");
  text = qm::test::replace_all(text, "\\d+", "N");
  return qm::test::replace_all(text, " +", " ");
}

/// @returns for each line of @p expected the corresponding line of @p printed; empty: they do not match.
bool align(const Lines& expected, const Lines& printed, std::size_t at, std::size_t from,
           std::vector<std::size_t>& places) {
  if (at == expected.size()) return from == printed.size();
  if (expected[at] == "...") {
    for (std::size_t next = from; next <= printed.size(); ++next) {
      if (align(expected, printed, at + 1, next, places)) return true;
    }
    return false;
  }
  if (from == printed.size() || masked(expected[at]) != masked(printed[from])) return false;
  places[at] = from;
  return align(expected, printed, at + 1, from + 1, places);
}

/// Stores which printed address each address of the document stands for.
void remember(const std::string& expected, const std::string& printed, Addresses& addresses) {
  const auto theirs = qm::test::find_all(expected, "0x[0-9a-f]+");
  const auto ours = qm::test::find_all(printed, "0x[0-9a-f]+");
  for (std::size_t i = 0; i < theirs.size() && i < ours.size(); ++i) addresses.emplace(theirs[i][0], ours[i][0]);
}

std::string replaced(std::string command, const Addresses& addresses) {
  for (const auto& [in_document, printed] : addresses) {
    if (const std::size_t at = command.find(in_document); at != std::string::npos)
      command.replace(at, in_document.size(), printed);
  }
  if (const std::size_t at = command.find(kImageInDocument); at != std::string::npos) {
    command.replace(at, std::string(kImageInDocument).size(), qm::test::demo().image);
  }
  return command;
}

std::string shell(const std::string& command) {
  const qm::test::Outcome outcome = qm::test::run_command(command);
  EXPECT_EQ(outcome.status, 0) << command;
  return outcome.text;
}

class Tracing : public ::testing::Test {
 protected:
  /// Runs one command of the document and compares the output.
  void do_one(const std::string& command, const Lines& expected) {
    const std::string line = replaced(command.substr(command.find(' ') + 1), addresses_);
    std::istringstream output(command[0] == '$' ? shell(line) : machine_.request(line).text);
    const Lines printed = lines_of(output);
    std::vector<std::size_t> places(expected.size(), printed.size());
    std::string text;
    for (const std::string& each : printed) text += each + "\n";
    EXPECT_TRUE(align(expected, printed, 0, 0, places))
        << "docs/tracing.md: " << command << "\nprinted, by " << line << ":\n"
        << text;
    for (std::size_t i = 0; i < expected.size(); ++i) {
      if (places[i] < printed.size()) remember(expected[i], printed[places[i]], addresses_);
    }
  }

  Machine machine_;
  Addresses addresses_;
};

TEST_F(Tracing, the_document_shows_what_is_printed) {
  std::ifstream in(QM_DOCUMENT);
  const Lines document = lines_of(in);
  ASSERT_FALSE(document.empty()) << QM_DOCUMENT;
  unsigned commands = 0;
  bool in_block = false;
  for (std::size_t at = 0; at < document.size(); ++at) {
    const std::string& line = document[at];
    if (line == "```") in_block = !in_block;
    if (!in_block || !(line.starts_with("qm> ") || line.starts_with("$ "))) continue;
    Lines expected;
    for (std::size_t next = at + 1;
         document[next] != "```" && !document[next].starts_with("qm> ") && !document[next].starts_with("$ "); ++next) {
      expected.push_back(document[next]);
    }
    ++commands;
    do_one(line, expected);
  }
  EXPECT_GT(commands, 15U);
}

}  // namespace docs_tracing_test
