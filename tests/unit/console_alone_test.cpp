/// The console of an image without the trace: this program does not link it.

#include "console_terminal.hpp"

#include <gtest/gtest.h>

#include <support/system_fixture.hpp>

#include <cstdio>

#include <qm/test/pattern.hpp>

namespace console_alone_test {

using namespace qm;

class ConsoleAlone : public test::SystemTest {
 protected:
  void SetUp() override {
    start(test::kPoolBytes, 2);
    packet_ = Cache::create({.name = "packet", .object_size = 512});
    ASSERT_NE(packet_, nullptr);
    console_.start();
    terminal_.text.clear();
  }
  void TearDown() override { shutdown(); }

  /// @returns the output when @p bytes are typed.
  std::string type(const std::string& bytes) {
    terminal_.text.clear();
    console_.feed(bytes);
    console_.poll();
    return terminal_.text;
  }

  test::FakeTerminal terminal_;
  console::Console console_{terminal_, test::test_config()};
  Cache* packet_ = nullptr;
};

TEST_F(ConsoleAlone, has_the_commands_that_need_no_trace) {
  const std::string listed = type("help\r");
  for (const std::string name : {"allocinfo", "arena_stats", "fault", "free", "help", "kmemstat", "reap", "slab_stats",
                                 "verify", "version", "whatis"}) {
    EXPECT_NE(listed.find("\r\n" + name), std::string::npos) << name << '\n' << listed;
  }
  for (const std::string name : {"slab_trace", "slab_stacks", "mark", "leaks", "expect", "growth", "kmemtrace"}) {
    EXPECT_EQ(listed.find("\r\n" + name), std::string::npos) << name;
    EXPECT_EQ(type(name + "\r"), name + "\r\nerror: unknown command \"" + name + "\" (try help)\r\nqm> ");
  }
  EXPECT_FALSE(test::find(type("verify\r"), "faults 0: complete\r\nqm> $").empty());
}

TEST_F(ConsoleAlone, says_of_an_object_what_its_cache_knows) {
  void* object = packet_->allocate();
  char line[64];
  std::snprintf(line, sizeof line, "whatis %p\r", object);
  EXPECT_FALSE(
      test::find(type(line),
                 "cache packet: object 0x[0-9a-f]+ \\+ 0, in use\r\n  1 of \\d+ in slab 0x[0-9a-f]+\r\n"
                 "(arena [^\r]*\r\n  [^\r]*\r\n)*whatis 0x[0-9a-f]+: caches \\d, arenas \\d: complete\r\nqm> $")
          .empty())
      << terminal_.text;
  packet_->free(object);
}

TEST_F(ConsoleAlone, tells_of_exhaustion_without_stacks) {
  EXPECT_TRUE(console_.notify(
      ExhaustionReport{.name = "packet", .wait_policy = WaitPolicy::kAtomic, .size = 512, .failures = 1}));
  EXPECT_EQ(test::replace_all(type(""), "  site [^\r]*\r\n", ""),
            "\r\nwarning: out of memory: cache packet, 512 bytes (atomic), failure 1\r\n"
            "  reap would recover 0: magazines 0, depots 0, slabs 0, spans 0; fragments 0\r\n"
            "  held:\r\n  stacks are not known without the trace: complete\r\nqm> ");
}

TEST_F(ConsoleAlone, tells_of_misuse_without_stacks) {
  void* object = packet_->allocate();
  MisuseReport report;
  report.kind = Misuse::kDoubleFree;
  report.cache = packet_;
  report.object = object;
  report.freed_by = 1;
  EXPECT_TRUE(console_.notify(report));
  EXPECT_FALSE(test::find(type(""), "^\r\nmisuse: packet: 0x[0-9a-f]+ [^\r]*\r\nqm> $").empty()) << terminal_.text;
  packet_->free(object);
}

TEST_F(ConsoleAlone, has_nothing_to_poll_for) {
  type("");
  EXPECT_FALSE(console_.needs_poll());
  EXPECT_FALSE(console_.poll());
}

}  // namespace console_alone_test
