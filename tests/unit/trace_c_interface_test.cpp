#include <gtest/gtest.h>

#include <qm/system.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/trace.h>

extern "C" {
int c_trace_in_c();
int c_trace_in_cpp();
int c_patterns_in_c();
int c_patterns_in_cpp();
}

namespace trace_c_interface_test {

class TraceCInterface : public testing::Test {
 protected:
  void TearDown() override {
    qm::trace::shutdown();
    qm::shutdown();
  }
};

// The number in a failure is a line of trace_c_interface.c.
TEST_F(TraceCInterface, says_who_holds_what_in_c) { EXPECT_EQ(c_trace_in_c(), 0); }
TEST_F(TraceCInterface, says_who_holds_what_in_cpp) { EXPECT_EQ(c_trace_in_cpp(), 0); }
TEST_F(TraceCInterface, traces_what_is_made_later_in_c) { EXPECT_EQ(c_patterns_in_c(), 0); }
TEST_F(TraceCInterface, traces_what_is_made_later_in_cpp) { EXPECT_EQ(c_patterns_in_cpp(), 0); }

}  // namespace trace_c_interface_test
