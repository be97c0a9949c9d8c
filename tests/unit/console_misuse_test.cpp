/// Reports of misuse on the console, byte for byte.

#include "console_fixture.hpp"

#include <support/system_fixture.hpp>

#include <qm/test/pattern.hpp>
#include <qm/detail/object_check.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace console_misuse_test {

using namespace qm;
using test::Bench;

Bench* the_bench = nullptr;

class MisuseText : public test::SystemTest {
 protected:
  void SetUp() override {
    start(test::kPoolBytes, 1);
    trace::Config config;
    config.object_base = reinterpret_cast<std::uintptr_t>(test::pool());
    ASSERT_EQ(trace::initialize(config), Status::kOk);
    the_bench = &bench;
    set_misuse_handler([](const MisuseReport& report) noexcept { the_bench->console.notify(report); });
    bench.console.config().resolver = [](std::uintptr_t, console::Symbol& symbol) noexcept {
      symbol = {"rx_deliver", 0x11, 0x60};
      return true;
    };
    CacheConfig config_of_cache;
    config_of_cache.name = "packet";
    config_of_cache.object_size = 64;
    packet = Cache::create(config_of_cache);
    ASSERT_NE(packet, nullptr);
  }
  void TearDown() override {
    set_misuse_handler(nullptr);
    trace::shutdown();
    shutdown();
  }
  /// @returns the console's unasked output.
  std::string printed() {
    bench.terminal.text.clear();
    bench.console.poll();
    return test::replace_all(bench.terminal.text, "\r\n    ", " ");  // joins broken lines
  }

  Bench bench;
  Cache* packet = nullptr;
};

TEST_F(MisuseText, names_the_cache_the_object_and_what_is_wrong) {
  const struct {
    Misuse kind;
    const char* text;
  } kinds[] = {
      {Misuse::kNull, "is null"},
      {Misuse::kDoubleFree, "is free already"},
      {Misuse::kInterior, "+ 8 is inside an object"},
      {Misuse::kWrongCache, "+ 8 is another cache's: packet"},
      {Misuse::kForeign, "is none of its objects"},
      {Misuse::kAfterDestroy, "comes after the destroy"},
      {Misuse::kOverflow, "was written behind its end, at byte 8"},
      {Misuse::kWriteAfterFree, "was written while it was free, at byte 8"},
      {Misuse::kLeak, "is out at a destroy, one of 3"},
  };
  for (const auto& one : kinds) {
    MisuseReport report;
    report.kind = one.kind;
    report.cache = packet;
    report.owner = packet;
    report.object = reinterpret_cast<void*>(std::uintptr_t{0x1230});
    report.offset = 8;
    report.count = 3;
    bench.console.notify(report);
    EXPECT_EQ(printed(), std::string("\r\nmisuse: packet: 0x0000000000001230 ") + one.text + "\r\nqm> ");
  }
}

TEST_F(MisuseText, names_the_bytes_of_an_allocation_that_is_refused) {
  EXPECT_EQ(packet->allocate(100), nullptr);
  const std::string text = printed();  // a checking build also has the stack that found the misuse
  EXPECT_TRUE(text.starts_with("\r\nmisuse: packet: 100 bytes asked for, more than an object has\r\n")) << text;
  EXPECT_TRUE(text.ends_with("\r\nqm> ") && (kChecked || text.find("found by") == std::string::npos)) << text;
}

TEST_F(MisuseText, shows_the_stack_that_allocated_and_the_one_that_found) {
  ASSERT_EQ(trace::start("packet").status, Status::kOk);
  void* object = packet->allocate();
  packet->free(object);
  packet->free_slow(object);
  packet->reap();
  const std::string stack = "rx_deliver\\+0x12( < rx_deliver\\+0x12)*( < \\.\\.\\.)?, stack 0x[0-9a-f]{8}\r\n";
  EXPECT_TRUE(qm::test::matches(printed(),
                                "\r\nmisuse: packet: 0x[0-9a-f]{16} is free already\r\n"
                                "  allocated by " +
                                    stack + (kChecked ? "  freed by " + stack : "") + "  found by " + stack + "qm> "))
      << bench.terminal.text;
}

TEST_F(MisuseText, counts_what_found_no_room) {
  for (int i = 0; i < 10; ++i) packet->free_slow(nullptr);
  const std::string text = printed();
  std::size_t told = 0;
  for (std::size_t at = text.find(" is null"); at != std::string::npos; at = text.find(" is null", at + 1)) ++told;
  EXPECT_EQ(told, console::MisuseLog::kReports);
  EXPECT_NE(text.find("\r\nmisuse: 2 more reports lost\r\nqm> "), std::string::npos) << text;
}

TEST_F(MisuseText, stands_between_the_lines_of_a_report) {
  bench.terminal.on_yield = [](test::FakeTerminal& terminal) {
    if (terminal.yields != 1) return;
    MisuseReport report;
    RegistryCursor<Cache> caches;
    report.cache = caches.find("packet");
    the_bench->console.notify(report);
  };
  const std::string text = bench.command("kmemstat -v");
  EXPECT_NE(text.find("\r\nmisuse: packet: 0x0000000000000000 is null\r\n"), std::string::npos) << text;
}

}  // namespace console_misuse_test
