// The main of every host unit test: GoogleTest, and the seed after a failure.

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include <qm/test/seed.hpp>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__OPTIMIZE__)
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

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int status = RUN_ALL_TESTS();
  if (status != 0) {
    const auto seed = static_cast<unsigned long long>(qm::test::seed());
    std::printf("seed %llu; to repeat: QM_SEED=%llu %s\n", seed, seed, argc > 0 ? argv[0] : "");
  }
  return status;
}
