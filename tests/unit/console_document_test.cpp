/// docs/console.md against the code: the same commands, usages and summaries, and every error text.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>

#include <qm/console/command.hpp>

namespace {

struct Entry {
  std::string usage;
  std::string summary;
  bool operator==(const Entry&) const = default;
};
std::ostream& operator<<(std::ostream& out, const Entry& entry) { return out << entry.usage << " | " << entry.summary; }

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
  static const std::regex row("\n\\| `([^`]+)` \\| ([^\n]*) \\|(?=\n)");
  for (std::sregex_iterator at(section.begin(), section.end(), row), end; at != end; ++at) {
    const std::string usage = std::regex_replace((*at)[1].str(), std::regex("\\\\\\|"), "|");
    rows[usage.substr(0, usage.find(' '))] = {usage, (*at)[2]};
  }
  return rows;
}

/// What the string literals after `.@p field = ` in @p source are, joined.
std::string literal(const std::string& source, const std::string& field) {
  const std::regex one("\\." + field + " = ((?:\"(?:[^\"\\\\]|\\\\.)*\"\\s*)+)");
  std::smatch match;
  if (!std::regex_search(source, match, one)) return {};
  return std::regex_replace(match[1].str(), std::regex("^\"|\"\\s*$|\"\\s*\""), "");
}

TEST(Document, has_the_consoles_commands_with_usage_and_summary) {
  const std::map<std::string, Entry> rows = table("Commands of the console");
  std::size_t commands = 0;
  using qm::console::CommandTable;
  for (const auto* c = CommandTable::after({}); c != nullptr; c = CommandTable::after(c->name)) {
    ++commands;
    const auto row = rows.find(std::string(c->name));
    if (row == rows.end()) {
      ADD_FAILURE() << c->name << " is not in the document";
    } else {
      EXPECT_EQ(row->second, (Entry{std::string(c->usage), std::string(c->summary)}));
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
    static const std::regex start("QM_CONSOLE_COMMAND\\(");
    for (std::sregex_iterator at(source.begin(), source.end(), start), end; at != end; ++at) {
      const std::string entry = source.substr(static_cast<std::size_t>(at->position()));
      found[literal(entry, "name")] = {literal(entry, "usage"), literal(entry, "summary")};
    }
  }
  EXPECT_GE(found.size(), 4u);
  EXPECT_EQ(rows, found);
}

TEST(Document, has_every_error_text) {
  const std::string text = document();
  std::size_t errors = 0;
  for (const auto& file : std::filesystem::recursive_directory_iterator(QM_CONSOLE_SOURCES)) {
    if (file.path().extension() != ".cpp") continue;
    const std::string source = read(file.path());
    static const std::regex fail("fail\\(\"((?:[^\"\\\\]|\\\\.)*)\"|\"error: ((?:[^\"\\\\]|\\\\.)*)\\\\n\"");
    for (std::sregex_iterator at(source.begin(), source.end(), fail), end; at != end; ++at) {
      std::string error = (*at)[1].matched ? (*at)[1].str() : (*at)[2].str();
      error = std::regex_replace(error, std::regex("\\\\\""), "\"");
      const std::string escaped = std::regex_replace(error, std::regex("[().*?+]"), "\\$&");
      const std::string pattern = "`error: " + std::regex_replace(escaped, std::regex("\\{\\}"), "[^`]+") + "`";
      EXPECT_TRUE(std::regex_search(text, std::regex(pattern))) << file.path() << ": " << error;
      ++errors;
    }
  }
  EXPECT_GE(errors, 12u);
}

}  // namespace
