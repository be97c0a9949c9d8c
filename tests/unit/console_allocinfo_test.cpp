/// allocinfo: its output is read in the way of programs for Linux's /proc/allocinfo, version 2.0.

#define QM_MODULE "test"

#include "console_reports_fixture.hpp"

#include <qm/detail/call_sites.hpp>
#include <qm/test/allocinfo.hpp>

namespace console_allocinfo_test {

using qm::test::AllocinfoRow;

class Allocinfo : public qm::test::ConsoleReports {
 protected:
  static qm::test::Allocinfo read(const std::string& text) {
    qm::test::Allocinfo info = qm::test::parse_allocinfo(text);
    EXPECT_EQ(info.wrong, "");
    return info;
  }
  std::vector<AllocinfoRow> rows(const std::string& line) { return read(command(line)).rows; }
};

TEST_F(Allocinfo, parses_as_proc_allocinfo_and_adds_up_to_what_users_hold) {
  void* objects[5];
  for (void*& object : objects) object = QM_ALLOC(packet->allocate);
  const unsigned line = __LINE__ - 1;
  void* small = packet_small->allocate();
  const std::size_t before = qm::RegistryCursor<qm::Arena>().find("kheap")->stats().allocated;
  void* block = QM_ALLOC(qm::heap::allocate, 70000);
  const std::size_t of_block = qm::RegistryCursor<qm::Arena>().find("kheap")->stats().allocated - before;
  const qm::test::Allocinfo info = read(command("allocinfo"));
  const auto& lines = info.rows;
  EXPECT_EQ(info.size_but_of("qm"), static_cast<long long>(5 * 512 + 64 + of_block));
  ASSERT_GE(lines.size(), 3U);
  EXPECT_GE(lines[0].size, lines[1].size);
  bool found = false;
  bool untagged = false;
  for (const AllocinfoRow& one : lines) {
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
  EXPECT_EQ(read(command("allocinfo")).size_but_of("qm"), 0);
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
  for (const AllocinfoRow& one : read(text).rows) marked = marked || (one.line == line && !one.is_accurate());
  EXPECT_TRUE(marked) << text;
  EXPECT_EQ(command("allocinfo on"), "");
  packet->free(missed);
  EXPECT_EQ(command("allocinfo").find("accurate:no"), std::string::npos);
}

TEST_F(Allocinfo, refuses_what_it_does_not_understand) {
  for (const char* line :
       {"allocinfo top", "allocinfo sort", "allocinfo sort age", "allocinfo maybe", "allocinfo on off x"}) {
    EXPECT_EQ(command(line), "error: usage: allocinfo [top N] [sort size|calls]\r\n") << line;
  }
  EXPECT_EQ(command("allocinfo top many"), "error: many is not a number\r\n");
}

}  // namespace console_allocinfo_test
