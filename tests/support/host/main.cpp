// The main program of every host test: runs the cases, prints their results, and the seed after a failure. An argument,
// or QM_FILTER, is a pattern for "Suite.name"; an argument `file=NAME[,NAME...]` selects the cases of these sources.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include <qm/test/seed.hpp>

#if defined(QM_SANITIZED) || !defined(__OPTIMIZE__)
inline constexpr std::uint64_t kStepShare = 20;
#else
inline constexpr std::uint64_t kStepShare = 1;
#endif

namespace qm::test {

std::uint64_t steps(std::uint64_t wanted) noexcept {
  const char* text = std::getenv("QM_STEPS");
  return text == nullptr ? (wanted + kStepShare - 1) / kStepShare : std::strtoull(text, nullptr, 0);
}

std::uint64_t seed() noexcept {
  const char* text = std::getenv("QM_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 0);
}

}  // namespace qm::test

namespace testing::internal {

void Text::append_floating(double value) noexcept {
  char digits[32];
  const int length = std::snprintf(digits, sizeof digits, "%.17g", value);
  append({digits, static_cast<std::size_t>(length)});
}

Texts& own_texts() noexcept {
  static thread_local Texts texts;
  return texts;
}

void call(void (*run)()) {
  try {
    run();
  } catch (const std::exception& thrown) {
    ADD_FAILURE() << "the case threw: " << thrown.what();
  } catch (...) {
    ADD_FAILURE() << "the case threw what is no std::exception";
  }
}

}  // namespace testing::internal

int main(int argc, char** argv) {
  testing::Selection selection;
  if (const char* const pattern = std::getenv("QM_FILTER"); pattern != nullptr) selection.filter = pattern;
  constexpr std::string_view kFile = "file=";
  for (int index = 1; index < argc; ++index) {
    const std::string_view word = argv[index];
    if (word.starts_with(kFile)) {
      selection.files = word.substr(kFile.size());
    } else {
      selection.filter = word;
    }
  }
  const auto write = [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    std::fflush(stdout);  // a case may end the program
  };
  const testing::Totals totals = testing::run_all_tests(write, selection);
  if (totals.failed != 0) {
    const auto seed = static_cast<unsigned long long>(qm::test::seed());
    std::printf("seed %llu; to repeat: QM_SEED=%llu", seed, seed);
    for (const char* name : {"QM_HARTS", "QM_STEPS"}) {
      if (const char* value = std::getenv(name); value != nullptr) std::printf(" %s=%s", name, value);
    }
    for (int word = 0; word < argc; ++word) std::printf(" %s", argv[word]);
    std::printf("\n");
  }
  std::printf("%u passed, %u failed", totals.passed, totals.failed);
  if (totals.skipped != 0) std::printf(", %u skipped", totals.skipped);
  std::printf("\n");
  return totals.failed == 0 && totals.passed + totals.skipped != 0 ? 0 : 1;
}
