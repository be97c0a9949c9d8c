// Runs the GoogleTest subset on the host, for the test of the subset itself.

#include <gtest/gtest.h>

#include <cstdio>

namespace testing::internal {

Texts& own_texts() noexcept {
  static Texts texts;
  return texts;
}
void call(void (*run)()) { run(); }

}  // namespace testing::internal

int main(int argc, char** argv) {
  const testing::Totals totals = testing::run_all_tests(
      [](std::string_view text) { std::fwrite(text.data(), 1, text.size(), stdout); }, {argc > 1 ? argv[1] : "", {}});
  std::printf("%u passed, %u failed, %u skipped\n", totals.passed, totals.failed, totals.skipped);
  return totals.failed == 0 ? 0 : 1;
}
