/// docs/console.md against the code: the same commands, usages and summaries, and every error text.

#include "console_fixture.hpp"

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <string>

#include <qm/test/pattern.hpp>
#include <qm/version.h>

namespace {

using qm::test::find;
using qm::test::find_all;
using qm::test::Match;
using qm::test::replace_all;

struct Entry {
  std::string usage;
  std::string summary;
};

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path);
  EXPECT_TRUE(file) << path;
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string document() { return read(QM_CONSOLE_DOCUMENT); }

/// The rows of the table below the heading @p heading, by command name.
std::map<std::string, Entry> table(const std::string& heading) {
  const std::string text = document();
  const std::size_t start = text.find("\n## " + heading + "\n");
  EXPECT_NE(start, std::string::npos) << heading;
  const std::string section = text.substr(start + 1, text.find("\n## ", start + 1) - start - 1);
  std::map<std::string, Entry> rows;
  for (const Match& row : find_all(section, "\n\\| `([^`]+)` \\| ([^\n]*) \\|(?=\n)")) {
    const std::string usage = replace_all(row[1], "\\\\\\|", "|");
    rows[usage.substr(0, usage.find(' '))] = {usage, row[2]};
  }
  return rows;
}

/// What the string literals after `.@p field = ` in @p source are, joined.
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

TEST(Document, has_the_consoles_commands_with_usage_and_summary) {
  const qm::test::Bench whole;  // with the trace, whose commands come with its books
  const std::map<std::string, Entry> rows = table("Commands of the console");
  std::size_t commands = 0;
  using qm::console::CommandTable;
  for (const auto* c = CommandTable::after({}); c != nullptr; c = CommandTable::after(c->name)) {
    ++commands;
    const auto row = rows.find(std::string(c->name));
    if (row == rows.end()) {
      ADD_FAILURE() << c->name << " is not in the document";
    } else {
      EXPECT_EQ(row->second.usage, c->usage);
      EXPECT_EQ(row->second.summary, c->summary);
    }
  }
  EXPECT_EQ(rows.size(), commands) << "the document has a command that the table has not";
}

TEST(Document, has_the_firmwares_commands_with_usage_and_summary) {
  const std::map<std::string, Entry> rows = table("Commands of the demo firmware");
  std::map<std::string, Entry> found;
  for (const auto& file : std::filesystem::recursive_directory_iterator(QM_FIRMWARE_COMMANDS)) {
    if (file.path().extension() != ".cpp") continue;
    const std::string source = read(file.path());
    const std::string start = "QM_CONSOLE_COMMAND(";
    for (std::size_t at = source.find(start); at != std::string::npos; at = source.find(start, at + 1)) {
      const std::string entry = source.substr(at);
      found[literal(entry, "name")] = {literal(entry, "usage"), literal(entry, "summary")};
    }
  }
  EXPECT_GE(found.size(), 4u);
  EXPECT_EQ(rows.size(), found.size());
  for (const auto& [name, entry] : rows) {
    EXPECT_EQ(entry.usage, found[name].usage) << name;
    EXPECT_EQ(entry.summary, found[name].summary) << name;
  }
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

}  // namespace
