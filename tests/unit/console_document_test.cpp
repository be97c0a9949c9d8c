/// docs/console.md against the code: the same commands, usages and summaries, and every error text.

#include "console_fixture.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <qm/console/findleaks.hpp>
#include <qm/console/guard.hpp>
#include <qm/test/pattern.hpp>
#include <qm/test/read_file.hpp>
#include <qm/version.h>

namespace console_document_test {

using qm::test::find;
using qm::test::find_all;
using qm::test::Match;
using qm::test::replace_all;

std::string read(const std::filesystem::path& path) {
  EXPECT_TRUE(std::ifstream(path)) << path;
  return qm::test::read_file(path);
}

std::string document() { return read(QM_CONSOLE_DOCUMENT); }

/// Compares the table below the heading @p heading with the rows @p expected, lines of usage and summary. With
/// QM_WRITE_DOCUMENTS in the environment, writes the table: that generates the document.
void expect_table(const std::string& heading, const std::string& expected) {
  std::string text = document();
  const std::string head = "| usage | does |\n|---|---|\n";
  const std::size_t section = text.find("\n## " + heading + "\n");
  ASSERT_NE(section, std::string::npos) << heading;
  const std::size_t start = text.find(head, section) + head.size();
  const std::size_t end = text.find("\n\n", start) + 1;
  if (text.substr(start, end - start) == expected) return;
  if (std::getenv("QM_WRITE_DOCUMENTS") != nullptr) {
    std::ofstream(QM_CONSOLE_DOCUMENT) << text.replace(start, end - start, expected);
    return;
  }
  EXPECT_EQ(text.substr(start, end - start), expected)
      << "docs/console.md: QM_WRITE_DOCUMENTS=1 ./test unit.console.document writes it anew";
}

std::string row(std::string_view usage, std::string_view summary) {
  return "| `" + replace_all(std::string(usage), "\\|", "\\|") + "` | " + std::string(summary) + " |\n";
}

/// @returns the joined string literals after `.@p field = ` in @p source.
std::string literal(const std::string& source, const std::string& field) {
  const Match match = find(source, "\\." + field + " = ((?:\"(?:[^\"\\\\]|\\\\.)*\"\\s*)+)");
  return match.empty() ? std::string() : replace_all(match[1], "^\"|\"\\s*$|\"\\s*\"", "");
}

TEST(Document, shows_the_banner_of_this_version) {
  const std::string text = document();
  const std::string version = std::to_string(QM_VERSION_MAJOR) + "." + std::to_string(QM_VERSION_MINOR) + "." +
                              std::to_string(QM_VERSION_PATCH);
  std::size_t banners = 0;
  for (const Match& match : find_all(text, "(Quartermaster [0-9.]+) build [0-9a-f]{40}, .*, formats [0-9]+\n")) {
    ++banners;
    EXPECT_EQ(match[1], "Quartermaster " + version);
  }
  EXPECT_GE(banners, 1u);
}

TEST(Document, has_the_consoles_commands_of_the_command_table) {
  const qm::test::Bench whole;  // with the trace, which registers its commands when it is opened
  qm::console::add_findleaks();
  qm::console::add_guard();
  std::string rows;
  using qm::console::CommandTable;
  for (const auto* c = CommandTable::after({}); c != nullptr; c = CommandTable::after(c->name)) {
    rows += row(c->usage, c->summary);
    // The output of help ends with lines to type for this command.
    const std::string name(c->name);
    EXPECT_FALSE(find(std::string(c->example), "^" + name + "[^\n;]*(\n" + name + "[^\n;]*)*$").empty())
        << c->name << ": " << c->example;
  }
  expect_table("Commands of the console", rows);
}

TEST(Document, has_the_firmwares_commands_of_their_entries) {
  std::map<std::string, std::string> found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(QM_FIRMWARE_COMMANDS)) {
    if (file.path().extension() != ".cpp") continue;
    const std::string source = read(file.path());
    const std::string start = "QM_CONSOLE_COMMAND(";
    for (std::size_t at = source.find(start); at != std::string::npos; at = source.find(start, at + 1)) {
      const std::string entry = source.substr(at);
      found[literal(entry, "name")] = row(literal(entry, "usage"), literal(entry, "summary"));
    }
  }
  EXPECT_GE(found.size(), 4u);
  std::string rows;
  for (const auto& [name, line] : found) rows += line;
  expect_table("Commands of the demo firmware", rows);
}

TEST(Document, has_every_error_text) {
  const std::string text = document();
  std::size_t errors = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(QM_CONSOLE_SOURCES)) {
    if (file.path().extension() != ".cpp") continue;
    const std::string source = read(file.path());
    for (const Match& fail :
         find_all(source, "fail\\(\"((?:[^\"\\\\]|\\\\.)*)\"|\"error: ((?:[^\"\\\\]|\\\\.)*)\\\\n\"")) {
      std::string error = fail[1].empty() ? fail[2] : fail[1];
      error = replace_all(error, "\\\\\"", "\"");
      const std::string escaped = replace_all(error, "[().*?+]", "\\$&");
      const std::string pattern = "`error: " + replace_all(escaped, "\\{\\}", "[^`]+") + "`";
      EXPECT_FALSE(find(text, pattern).empty()) << file.path() << ": " << error;
      ++errors;
    }
  }
  EXPECT_GE(errors, 12u);
}

}  // namespace console_document_test
