// A port that is broken in one place at a time, and the check's output for it.

#include <gtest/gtest.h>

#include <qm/config.h>
#include <qm/hal/port.hpp>
#include <qm/rewind.hpp>
#include <qm/system.hpp>

#include "conformance_fixture.hpp"

extern "C" {
std::uintptr_t __real_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept;

std::uintptr_t __wrap_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
  return qm::hal::broken == qm::hal::Broken::kRewind ? pc : __real_qm_rewind(pc, registers);
}
}

namespace conformance_broken_port_test {

using qm::hal::broken;
using qm::hal::Broken;
using qm::test::checked_text;

void expect_found(Broken what, std::string_view message, unsigned harts = qm::test::harts()) {
  broken = what;
  EXPECT_FALSE(qm::test::run_check(harts));
  broken = Broken::kNothing;
  qm::hal::SoundPort::restore_interrupts(qm::hal::SoundPort::InterruptState::kEnabled);
  qm::shutdown();
  EXPECT_NE(checked_text().find(message), std::string_view::npos) << checked_text();
  EXPECT_NE(checked_text().find("port: does not conform: 1 of "), std::string_view::npos) << checked_text();
}

TEST(BrokenPort, of_one_hart_is_not_broken_by_the_test_itself) {
  EXPECT_TRUE(qm::test::run_check(1)) << checked_text();
}

TEST(BrokenPort, is_not_broken_by_the_test_itself) {
  EXPECT_TRUE(qm::test::run_check(qm::test::harts())) << checked_text();
}

TEST(BrokenPort, is_told_that_ticks_stand_still) {
  expect_found(Broken::kTicks, "port: ticks: FAILED: they stand still: 1000000 readings are all 12345\n");
}

TEST(BrokenPort, is_told_that_ticks_run_backwards) {
  expect_found(Broken::kBackwards, "port: ticks: FAILED: they run backwards: ");
}

TEST(BrokenPort, is_told_that_restore_does_not_restore) {
  expect_found(Broken::kRestore,
               "port: masking: FAILED: restore_interrupts() does not restore: interrupts stay masked\n");
}

TEST(BrokenPort, is_told_that_masking_does_not_nest) {
  expect_found(Broken::kNesting, "port: masking: FAILED: restore_interrupts() of a masked state enables them");
}

TEST(BrokenPort, is_told_that_nothing_is_masked) {
  expect_found(Broken::kMasking, "port: masking: FAILED: after mask_interrupts() interrupts are still enabled");
}

TEST(BrokenPort, is_told_that_the_hart_index_is_constant) {
  expect_found(Broken::kIndex, "port: hart_index: FAILED: 4 harts say that they are hart 0 of 4\n");
}

TEST(BrokenPort, is_told_that_no_IPI_arrives) {
  expect_found(Broken::kIpi, "port: IPI: FAILED: hart 1 does not call on_ipi() within a second of send_ipi()\n");
}

#if defined(QM_FAST_PATH_SECTIONS)
TEST(BrokenPort, is_told_that_sections_are_not_rewound) {
  expect_found(Broken::kRewind,
               "port: rewind: FAILED: hart 0 goes on in the middle of a section: the trap entry is to resume at what "
               "qm_rewind() returns\n");
}

TEST(BrokenPort, is_told_that_other_harts_sections_are_not_rewound) {
  broken = Broken::kRewind;
  EXPECT_FALSE(qm::test::run_check(qm::test::harts(), 0, nullptr));
  broken = Broken::kNothing;
  qm::shutdown();
  EXPECT_NE(checked_text().find("port: rewind: FAILED: hart 1 goes on in the middle of a section"),
            std::string_view::npos)
      << checked_text();
}

TEST(BrokenPort, of_one_hart_is_told_that_sections_are_not_rewound) {
  expect_found(Broken::kRewind, "port: rewind: FAILED: hart 0 goes on in the middle of a section", 1);
}

TEST(BrokenPort, of_one_hart_is_asked_how_to_interrupt_its_sections) {
  EXPECT_FALSE(qm::test::run_check(1, 0, nullptr));
  qm::shutdown();
  EXPECT_NE(checked_text().find("port: own interrupts: FAILED: nothing interrupts the sections of the only hart"),
            std::string_view::npos)
      << checked_text();
}
#endif

}  // namespace conformance_broken_port_test
