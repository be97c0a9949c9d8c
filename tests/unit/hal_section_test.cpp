/// Sections of a fast path in C++ against a broadcast's function on the same hart, with plain words that lose an
/// addition if two additions overlap.

#include <gtest/gtest.h>

#include <array>

#include <qm/hal/broadcast.hpp>
#include <qm/test/harts.hpp>

namespace hal_section_test {

using namespace qm;

constexpr std::uint32_t kVisit = 1 << 20;

struct alignas(64) Word {
  std::atomic<std::uint32_t> sum{0};
  std::uint32_t sections = 0;  ///< additions in a section
  std::uint32_t masked = 0;    ///< additions with interrupts masked, because the sections were closed
  std::atomic<std::uint32_t> visits{0};

  /// @param[in] looks number of reads before the store, in which other additions may occur.
  void add(std::uint32_t what, unsigned looks) noexcept {
    const std::uint32_t before = sum.load(std::memory_order_relaxed);
    for (; looks != 0; --looks) static_cast<void>(sum.load(std::memory_order_relaxed));
    sum.store(before + what, std::memory_order_relaxed);
  }
};

std::array<Word, hal::Port::kMaxHarts> words;

void visit(unsigned hart, void*) noexcept {
  words[hart].add(kVisit, 500);
  words[hart].visits.fetch_add(1, std::memory_order_relaxed);
}

/// One addition, in the way of the fast path and its slow half.
void add_on(unsigned hart) noexcept {
  {
    const hal::Section section;
    if (section.place() >= 0) {
      words[hart].add(1, 10);
      ++words[hart].sections;
      return;
    }
  }
  const hal::InterruptGuard masked;
  words[hart].add(1, 10);
  ++words[hart].masked;
}

TEST(Section, loses_nothing_to_the_broadcasts_of_another_hart) {
  const std::uint64_t begin = hal::Port::ticks();
  std::atomic<unsigned> late{test::harts() - 1};  // harts that have not had their share yet
  std::atomic<bool> done{false};
  test::on_each_hart(test::harts(), [&](unsigned hart) {
    if (hart != 0) {
      for (unsigned step = 0; !done.load(std::memory_order_relaxed); ++step) {
        add_on(hart);
        if (step == 1000) late.fetch_sub(1, std::memory_order_relaxed);
      }
      return;
    }
    while (late.load(std::memory_order_relaxed) != 0 || hal::Port::ticks() - begin < hal::Port::tick_rate() / 4) {
      EXPECT_TRUE(hal::run_on_harts(~hal::HartMask{0}, visit, nullptr).ok());
      for (int i = 0; i < 100; ++i) add_on(0);
    }
    done.store(true, std::memory_order_relaxed);
  });
  for (unsigned hart = 0; hart < test::harts(); ++hart) {
    const Word& word = words[hart];
    EXPECT_EQ(word.sum.load(), word.sections + word.masked + kVisit * word.visits.load()) << "hart " << hart;
    EXPECT_GT(word.sections, 0U) << "hart " << hart;
  }
}

}  // namespace hal_section_test
