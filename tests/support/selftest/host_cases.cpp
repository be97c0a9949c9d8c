// Parts of the subset that only the host has, in cases that fail on purpose: exceptions, floating point, ranges,
// threads. The report is compared with host_report.txt, which has line numbers of this file.

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace {

void throw_text() { throw std::runtime_error("out of luck"); }

TEST(Passes, what_the_host_has) {
  EXPECT_THROW(throw_text(), std::runtime_error);
  EXPECT_NO_THROW(std::string("abc").at(1));
  EXPECT_EQ(0.5, 1.0 / 2);
  EXPECT_EQ((std::vector<int>{1, 2}), (std::vector<int>{1, 2}));
}

TEST(Fails, in_the_forms_of_the_host) {
  EXPECT_THROW(throw_text(), std::logic_error);
  EXPECT_THROW(static_cast<void>(0), std::logic_error);
  EXPECT_NO_THROW(throw_text());
  EXPECT_LT(0.5, 0.25) << std::string("as text ") << 1.5;
  EXPECT_EQ((std::vector<std::string>{"a", "b"}), std::vector<std::string>{});
}

TEST(Fails, in_a_thread) {
  std::thread([] {
    SCOPED_TRACE("of the thread");
    EXPECT_EQ(1, 2);
  }).join();
}

TEST(Fails, by_an_exception) {
  throw_text();
  ADD_FAILURE() << "never reached";
}

TEST(Passes, after_an_exception) { SUCCEED(); }

}  // namespace
