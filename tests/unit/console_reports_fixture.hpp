#pragma once
/// An allocator with its trace and a console, for the golden tests of reports.

#include "console_fixture.hpp"

#include <support/system_fixture.hpp>

#include <cinttypes>
#include <cstdarg>
#include <cstdio>

#include <qm/test/pattern.hpp>
#include <qm/trace/live_trace.hpp>

namespace qm::test {

[[gnu::format(printf, 1, 2)]] inline std::string format(const char* text, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

inline std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = text.find("\r\n", at);
    EXPECT_NE(end, std::string::npos) << "a line without CR LF";
    if (end == std::string::npos) break;
    lines.push_back(text.substr(at, end - at));
    at = end + 2;
  }
  return lines;
}

/// Replaces every address by @, and the host's label of the hart by `here`.
inline std::string plain(const std::string& text) {
  const std::string no_addresses = replace_all(text, "0x[0-9a-f]{16}", "@");
  return replace_all(no_addresses, "from hart 0 [^:]*:", "from here:");
}

/// Makes stacks end with the frame at @p frame: the outer ones, of the test framework, keep no frame pointers.
class StackEnd {
 public:
  explicit StackEnd(void* frame) : frame_(static_cast<void* volatile*>(frame)), saved_(*frame_) { *frame_ = nullptr; }
  StackEnd(const StackEnd&) = delete;
  StackEnd& operator=(const StackEnd&) = delete;
  ~StackEnd() { *frame_ = saved_; }

 private:
  void* volatile* frame_;
  void* saved_;
};

/// Only for allocate_through(): the stack's end, in which the allocation is.
template <int kPath>
[[gnu::noinline]] void* allocate_at_end(Cache& cache) {
  const StackEnd end(__builtin_frame_address(0));
  void* object = cache.allocate();
  asm volatile("" : "+r"(object) : "i"(kPath));
  return object;
}

/// Allocates on the same stack for every caller: the stack ends below the one call in this function, and so has no
/// place in a caller, of which the compiler may make several copies.
/// @tparam kPath another stack for each number.
template <int kPath>
[[gnu::noinline]] void* allocate_through(Cache& cache) {
  void* object = allocate_at_end<kPath>(cache);
  asm volatile("" : "+r"(object) : "i"(kPath));
  return object;
}

inline void* allocate_outermost(Cache& cache) { return allocate_through<0>(cache); }

class ConsoleReports : public SystemTest {
 protected:
  void SetUp() override { open({}); }
  void TearDown() override {
    trace::shutdown();
    shutdown();
  }
  void open(trace::Config config) {
    start(kPoolBytes, 2);
    config.object_base = reinterpret_cast<std::uintptr_t>(pool());
    ASSERT_EQ(trace::initialize(config), Status::kOk);
    bench.console.config().resolver = nullptr;
    packet = make("packet", 512);
    packet_small = make("packet_small", 64);
  }
  void open_again(trace::Config config) {
    TearDown();
    open(config);
  }
  static Cache* make(const char* name, std::size_t size, std::uint32_t flags = 0) {
    CacheConfig config;
    config.name = name;
    config.object_size = size;
    config.flags = flags;
    Cache* cache = Cache::create(config);
    EXPECT_NE(cache, nullptr);
    return cache;
  }
  void resolve_all() {
    bench.console.config().resolver = [](std::uintptr_t, console::Symbol& symbol) noexcept {
      symbol = {"rx_deliver", 0x12, 0x60};
      return true;
    };
  }
  std::string command(const std::string& line) { return bench.command(line); }

  Bench bench;
  Cache* packet = nullptr;
  Cache* packet_small = nullptr;
};

}  // namespace qm::test
