// The port of this build, and the check's output for it.

#include <gtest/gtest.h>

#include <qm/conformance/port_check.h>
#include <qm/conformance/port_check.hpp>
#include <qm/conformance/thread_check.hpp>
#include <qm/test/harts.hpp>

#include "conformance_fixture.hpp"

namespace conformance_port_check_test {

using qm::test::checked;
using qm::test::checked_text;
using qm::test::keep_text;
using qm::test::run_check;
using qm::test::run_harts;

TEST(PortCheck, passes_on_the_port_of_this_build) {
  const unsigned harts = qm::test::harts();
  EXPECT_TRUE(run_check(harts)) << checked_text();
  EXPECT_NE(checked_text().find("port: attendance: ok\nport: ticks: ok\nport: masking: ok\nport: hart_index: ok\n"),
            std::string_view::npos)
      << checked_text();
  EXPECT_NE(checked_text().find("port: conforms: "), std::string_view::npos) << checked_text();
}

TEST(PortCheck, passes_from_c) {
  const unsigned harts = qm::test::harts();
  const qm_port_check check{[](const char* text, std::size_t length) {
                              keep_text({text, length});
                            },
                            qm::test::check_memory.data(),
                            qm::test::check_memory.size(),
                            harts,
                            0,
                            qm::test::interrupt_in};
  EXPECT_TRUE(run_harts(
      harts, [&] { return qm_check_port(&check); }, qm_attend_port_check))
      << checked_text();
  EXPECT_NE(checked_text().find("port: conforms: "), std::string_view::npos) << checked_text();
  EXPECT_FALSE(qm_check_port(nullptr));
}

TEST(PortCheck, finds_nothing_to_check_where_the_port_has_no_threads) {
  checked.length = 0;
  EXPECT_TRUE(qm::conformance::check_threads({.write = &keep_text}));
  EXPECT_EQ(checked_text(), "port: has no threads\n");
}

TEST(PortCheck, says_how_many_harts_have_not_come) {
  EXPECT_FALSE(run_check(qm::test::harts(), 1));
  EXPECT_NE(checked_text().find("other harts have come to attend_port_check()"), std::string_view::npos)
      << checked_text();
  EXPECT_NE(checked_text().find("port: does not conform: 1 of 1 checks failed\n"), std::string_view::npos)
      << checked_text();
}

}  // namespace conformance_port_check_test
