/// allocinfo: its text is read as a program for Linux's /proc/allocinfo, version 2.0, reads it.

#define QM_MODULE "test"

#include "console_reports_fixture.hpp"

#include <qm/call_sites.hpp>

#include <regex>

namespace {

/// A line of /proc/allocinfo 2.0: `size calls file:line [module] func:name [key:value ...]`, the module in brackets optional.
struct Line {
  long long size = 0;
  unsigned long long calls = 0;
  std::string file;
  unsigned line = 0;
  std::string module;
  std::string function;
  bool accurate = true;
};

/// Reads the whole, or fails the test. What begins with # is a comment, as the format's second line.
std::vector<Line> parse(const std::vector<std::string>& text) {
  static const std::regex form(R"(^ *(-?\d+) +(\d+) (\S+):(\d+) (?:\[(\S+)\] )?func:(\S+)((?: \w+:\w+)*)$)");
  std::vector<Line> lines;
  EXPECT_FALSE(text.empty());
  if (text.empty()) return lines;
  EXPECT_EQ(text[0], "allocinfo - version: 2.0");
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (text[i].empty() || text[i][0] == '#') continue;
    std::smatch match;
    if (!std::regex_match(text[i], match, form)) {
      ADD_FAILURE() << "not a line of the format: " << text[i];
      continue;
    }
    EXPECT_GE(static_cast<std::size_t>(match.position(2) + match.length(2)), 21U) << "%12lld %8llu: " << text[i];
    lines.push_back({std::stoll(match[1]), std::stoull(match[2]), match[3], static_cast<unsigned>(std::stoul(match[4])),
                     match[5], match[6], match[7].str().find("accurate:no") == std::string::npos});
  }
  return lines;
}

class Allocinfo : public qm::test::ConsoleReports {
 protected:
  std::vector<Line> rows(const std::string& line) { return parse(qm::test::lines_of(command(line))); }
  static long long users(const std::vector<Line>& lines) {
    long long sum = 0;
    for (const Line& line : lines) sum += line.module == "qm" ? 0 : line.size;
    return sum;
  }
};

TEST_F(Allocinfo, parses_as_proc_allocinfo_and_adds_up_to_what_users_hold) {
  void* objects[5];
  for (void*& object : objects) object = QM_ALLOC(packet->allocate);
  const unsigned line = __LINE__ - 1;
  void* small = packet_small->allocate();
  void* block = QM_ALLOC(qm::heap::allocate, 70000);
  const auto lines = rows("allocinfo");
  EXPECT_EQ(users(lines), static_cast<long long>(5 * 512 + 64 + qm::heap::usable_size(block)));
  ASSERT_GE(lines.size(), 3U);
  EXPECT_GE(lines[0].size, lines[1].size);
  bool found = false;
  bool untagged = false;
  for (const Line& one : lines) {
    untagged = untagged || (one.file == "<untagged>" && one.size == 64 && one.calls == 1);
    if (one.line != line || one.function != "TestBody") continue;
    found = true;
    EXPECT_TRUE(one.file.ends_with("tests/unit/console_allocinfo_test.cpp")) << one.file;
    EXPECT_EQ(one.module, "test");
    EXPECT_EQ(one.size, 5 * 512);
    EXPECT_EQ(one.calls, 5U);
  }
  EXPECT_TRUE(found);
  EXPECT_TRUE(untagged);
  for (void* object : objects) packet->free(object);
  packet_small->free(small);
  qm::heap::free(block);
  EXPECT_EQ(users(rows("allocinfo")), 0);
}

TEST_F(Allocinfo, sorts_by_calls_and_shows_no_more_than_was_asked_for) {
  void* objects[3];
  for (void*& object : objects) object = QM_ALLOC(packet_small->allocate);
  void* large = QM_ALLOC(packet->allocate);
  auto lines = rows("allocinfo sort calls");
  for (std::size_t i = 1; i < lines.size(); ++i) EXPECT_GE(lines[i - 1].calls, lines[i].calls);
  EXPECT_EQ(rows("allocinfo top 1").size(), 1U);
  EXPECT_EQ(rows("allocinfo sort calls top 2").size(), 2U);
  EXPECT_TRUE(rows("allocinfo top 0").empty());
  for (void* object : objects) packet_small->free(object);
  packet->free(large);
}

TEST_F(Allocinfo, says_which_rows_have_missed_something_while_off) {
  EXPECT_EQ(command("allocinfo off"), "");
  void* missed = QM_ALLOC(packet->allocate);
  const unsigned line = __LINE__ - 1;
  const std::string text = command("allocinfo");
  EXPECT_NE(text.find("state off: complete"), std::string::npos) << text;
  bool marked = false;
  for (const Line& one : parse(qm::test::lines_of(text))) marked = marked || (one.line == line && !one.accurate);
  EXPECT_TRUE(marked) << text;
  EXPECT_EQ(command("allocinfo on"), "");
  packet->free(missed);
  EXPECT_EQ(command("allocinfo").find("accurate:no"), std::string::npos);
}

TEST_F(Allocinfo, refuses_what_it_does_not_understand) {
  for (const char* line : {"allocinfo top", "allocinfo sort", "allocinfo sort age", "allocinfo maybe", "allocinfo on off x"}) {
    EXPECT_EQ(command(line), "error: usage: allocinfo [top N] [sort size|calls]\r\n") << line;
  }
  EXPECT_EQ(command("allocinfo top many"), "error: many is not a number\r\n");
}

}  // namespace
