// Cases that pass, fail and skip on purpose, to test the GoogleTest subset itself. The report is compared with
// subset_report.txt, which has line numbers of this file.

#include <gtest/gtest.h>

namespace {

enum class Colour { kRed, kBlue };
struct Pair {
  int first = 0;
  int second = 0;
  bool operator==(const Pair&) const = default;
};

int set_ups = 0;
int suite_set_ups = 0;

class Fixture : public ::testing::Test {
 public:
  static void SetUpTestSuite() { ++suite_set_ups; }

 protected:
  void SetUp() override { value_ = ++set_ups; }
  int value_ = 0;
};

::testing::AssertionResult is_even(int value) {
  if (value % 2 == 0) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << value << " is odd";
}

void leave_early() { ASSERT_EQ(1, 2) << "leaves only this function"; }

TEST(Passes, every_comparison) {
  const char* text = "abc";
  EXPECT_TRUE(true);
  EXPECT_FALSE(false);
  EXPECT_TRUE(is_even(2));
  EXPECT_FALSE(is_even(3));
  EXPECT_EQ(1u, 1u);
  EXPECT_EQ(nullptr, static_cast<int*>(nullptr));
  EXPECT_NE(text, nullptr);
  EXPECT_LT(1, 2);
  EXPECT_LE(2, 2);
  EXPECT_GT(3, 2);
  EXPECT_GE(3, 3);
  EXPECT_STREQ(text, "abc");
  EXPECT_STRNE(text, "abd");
  EXPECT_EQ(std::string_view(text), "abc");
  ASSERT_EQ(Colour::kRed, Colour::kRed);
  SUCCEED() << "no text";
}

TEST_F(Fixture, first_has_its_own_object) {
  EXPECT_EQ(value_, 1);
  EXPECT_EQ(suite_set_ups, 1);
}

TEST(Fails, in_each_form) {
  int count = 3;
  EXPECT_TRUE(count == 4) << "count is " << count << ' ' << -7 << " " << true;
  EXPECT_EQ(count, 4u + 1u);
  EXPECT_EQ(Colour::kRed, Colour::kBlue);
  EXPECT_EQ((Pair{1, 2}), (Pair{1, 3}));
  EXPECT_LT(INT64_MIN, INT64_MIN);
  EXPECT_GE(UINT64_C(0), UINT64_MAX);
  EXPECT_STREQ("abc", nullptr);
  EXPECT_NE('x', 'x');
  EXPECT_TRUE(is_even(3));
  EXPECT_EQ(reinterpret_cast<void*>(0x1234), nullptr);
  ADD_FAILURE() << "goes on";
  leave_early();
  EXPECT_TRUE(HasFatalFailure());
  FAIL() << "stops";
  ADD_FAILURE() << "never reached";
}

TEST_F(Fixture, second_has_another_object) {
  EXPECT_EQ(value_, 2);
  EXPECT_EQ(suite_set_ups, 1);
}

TEST(Fails, with_its_traces) {
  SCOPED_TRACE("outer");
  for (int step = 0; step < 2; ++step) {
    SCOPED_TRACE(::testing::Message() << "step " << step);
    EXPECT_EQ(step, 0);
  }
  EXPECT_EQ(1, 2) << "the inner trace is gone";
}

TEST(Fails, and_cuts_a_long_text) {
  ::testing::AssertionResult result = ::testing::AssertionFailure();
  for (int line = 0; line < 100; ++line) result << "0123456789";
  EXPECT_TRUE(result);
}

TEST(Skips, and_says_why) {
  GTEST_SKIP() << "not here";
  ADD_FAILURE() << "never reached";
}

}  // namespace
