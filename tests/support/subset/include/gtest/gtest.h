#pragma once
/// The subset of GoogleTest that the tests of this repository use, with the same names and the same reports, so that one
/// source runs on the host and on a target without an operating system. No heap, no exceptions, no streams; a tenth of
/// GoogleTest's time to compile.
///
/// Supported: TEST, TEST_F (with SetUp, TearDown, SetUpTestSuite, TearDownTestSuite), EXPECT_ and ASSERT_ TRUE FALSE EQ
/// NE LT LE GT GE STREQ STRNE, `<<` after each of them, FAIL, ADD_FAILURE, SUCCEED, GTEST_SKIP, SCOPED_TRACE,
/// HasFatalFailure, HasFailure, AssertionResult; on the host EXPECT_THROW, EXPECT_NO_THROW and floating point too.
/// Not supported: TEST_P, typed tests, matchers, death tests.
///
/// Differences: the text of one assertion is cut at internal::kTextBytes; values other than numbers, enumerations,
/// pointers, strings and ranges of these print as their size; a test case runs on hart 0, and assertions may be used on
/// any hart, and on the host in any thread.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <type_traits>

namespace testing {
namespace internal {

#if defined(QM_TEST_TEXT_BYTES)
inline constexpr std::size_t kTextBytes = QM_TEST_TEXT_BYTES;
#else
inline constexpr std::size_t kTextBytes = 640;
#endif

/// Text of a fixed capacity; characters beyond it are dropped, and the end is marked with `~`.
class Text {
 public:
  void clear() noexcept { length_ = 0; }
  [[nodiscard]] std::string_view view() const noexcept { return {characters_, length_}; }
  void append(std::string_view text) noexcept;
  void append_unsigned(std::uint64_t value) noexcept;
  void append_signed(std::int64_t value) noexcept;
  void append_hex(std::uint64_t value) noexcept;
  void append_floating(double value) noexcept;  // host only

 private:
  std::size_t length_ = 0;
  char characters_[kTextBytes];
};

/// Whether strings are printed as plain text or, with quotes, as values.
enum class Quotes : bool { kNo, kYes };

template <class T>
void print(Text& text, const T& value, Quotes quotes) noexcept {
  if constexpr (std::is_same_v<T, bool>) {
    text.append(value ? "true" : "false");
  } else if constexpr (std::is_null_pointer_v<T>) {
    text.append("(nullptr)");
  } else if constexpr (std::is_same_v<T, char>) {
    if (quotes == Quotes::kYes) text.append("'");
    text.append({&value, 1});
    if (quotes == Quotes::kYes) text.append("'");
  } else if constexpr (std::is_enum_v<T>) {
    print(text, static_cast<std::underlying_type_t<T>>(value), quotes);
  } else if constexpr (std::is_integral_v<T>) {
    if constexpr (std::is_signed_v<T>) {
      text.append_signed(static_cast<std::int64_t>(value));
    } else {
      text.append_unsigned(static_cast<std::uint64_t>(value));
    }
  } else if constexpr (std::is_floating_point_v<T>) {
    text.append_floating(static_cast<double>(value));
  } else if constexpr (std::is_convertible_v<T, std::string_view>) {
    if constexpr (std::is_pointer_v<std::decay_t<T>>) {
      const char* pointer = value;
      if (pointer == nullptr) return text.append("NULL");
    }
    if (quotes == Quotes::kYes) text.append("\"");
    text.append(std::string_view(value));
    if (quotes == Quotes::kYes) text.append("\"");
  } else if constexpr (std::is_pointer_v<T>) {
    text.append("0x");
    text.append_hex(reinterpret_cast<std::uintptr_t>(value));
  } else if constexpr (requires { std::string_view(value.native()); }) {  // std::filesystem::path, a range of paths
    print(text, value.native(), quotes);
  } else if constexpr (requires { value.begin() != value.end(); }) {
    text.append("{");
    for (const auto& element : value) {
      text.append(" ");
      print(text, element, Quotes::kYes);
    }
    text.append(" }");
  } else if constexpr (std::is_function_v<T>) {  // a manipulator such as std::hex: numbers are always decimal
  } else {
    text.append_unsigned(sizeof(T));
    text.append("-byte object");
  }
}

/// The finding of the running hart's current assertion, and the text that its author appended. Static, one pair for
/// each hart: assertions need little stack.
Text& result_text() noexcept;
Text& message_text() noexcept;

}  // namespace internal

/// The target of `<<` after an assertion. One for each hart, on the host for each thread; a new Message empties it.
class Message {
 public:
  Message() noexcept { internal::message_text().clear(); }
  template <class T>
  Message& operator<<(const T& value) noexcept {
    internal::print(internal::message_text(), value, internal::Quotes::kNo);
    return *this;
  }
};

/// A verdict with its reason. The reason is in the hart's text until the next assertion on that hart.
class AssertionResult {
 public:
  explicit AssertionResult(bool success) noexcept : success_(success) {}
  explicit operator bool() const noexcept { return success_; }
  AssertionResult operator!() const noexcept { return AssertionResult(!success_); }
  template <class T>
  AssertionResult& operator<<(const T& value) noexcept {
    internal::print(internal::result_text(), value, internal::Quotes::kNo);
    return *this;
  }

 private:
  bool success_;
};

inline AssertionResult AssertionSuccess() noexcept {
  internal::result_text().clear();
  return AssertionResult(true);
}
inline AssertionResult AssertionFailure() noexcept {
  internal::result_text().clear();
  return AssertionResult(false);
}

/// A test's fixture, and the test itself: TEST() and TEST_F() derive from it.
class Test {
 public:
  Test() = default;
  virtual ~Test() = default;
  Test(const Test&) = delete;
  Test& operator=(const Test&) = delete;
  static void SetUpTestSuite() {}
  static void TearDownTestSuite() {}
  static bool HasFatalFailure() noexcept;
  static bool HasFailure() noexcept;
  static bool IsSkipped() noexcept;
  virtual void SetUp() {}
  virtual void TearDown() {}
  virtual void TestBody() {}
};

/// Adds a line to every failure reported by this hart while the object lives.
class ScopedTrace {
 public:
  template <class T>
  ScopedTrace(const char* file, int line, const T& value) noexcept : file_(file), line_(line) {
    internal::message_text().clear();
    internal::print(internal::message_text(), value, internal::Quotes::kNo);
    enter();
  }
  ScopedTrace(const char* file, int line, const Message&) noexcept : file_(file), line_(line) { enter(); }
  ~ScopedTrace();
  ScopedTrace(const ScopedTrace&) = delete;
  ScopedTrace& operator=(const ScopedTrace&) = delete;
  [[nodiscard]] const ScopedTrace* outer() const noexcept { return outer_; }
  void print(internal::Text& text) const noexcept;

 private:
  void enter() noexcept;
  const char* file_;
  int line_;
  ScopedTrace* outer_ = nullptr;
  std::size_t length_ = 0;
  char words_[64];
};

namespace internal {

/// One TEST. Static, and linked into the list of all cases before main() runs.
class Case {
 public:
  struct Suite {
    void (*set_up)();
    void (*tear_down)();
  };
  Case(const char* file, const char* suite, const char* name, Suite functions, void (*run)()) noexcept;
  const char* file;
  const char* suite;
  const char* name;
  Suite functions;
  void (*run)();
  Case* next = nullptr;
  bool done = false;
};

/// The texts of a hart, or of a thread of the host, and its innermost SCOPED_TRACE.
struct Texts {
  Text result;
  Text message;
  ScopedTrace* trace = nullptr;
};

/// The environment in which the tests run must supply these functions.
/// @returns the texts of the calling hart or thread.
Texts& own_texts() noexcept;
/// Calls @p run. On the host, an exception that leaves it counts as a failure.
void call(void (*run)());

/// Runs a case's object. It lies in static storage, because harts have small stacks.
void run_object(Test& test);

template <class T>
void run_case() {
  alignas(T) static std::byte storage[sizeof(T)];
  T* const test = ::new (static_cast<void*>(storage)) T;
  run_object(*test);
  std::destroy_at(test);
}

enum class Kind : std::uint8_t { kNonfatal, kFatal, kSkip };

/// Reports when a Message is assigned to it, as in `return Report(...) = Message() << "text"`.
class Report {
 public:
  Report(Kind kind, const char* file, int line) noexcept : file_(file), line_(line), kind_(kind) {}
  void operator=(const Message&) const noexcept;

 private:
  const char* file_;
  int line_;
  Kind kind_;
};

AssertionResult check(bool actual, bool expected, const char* expression) noexcept;
AssertionResult check(const AssertionResult& actual, bool expected, const char* expression) noexcept;
AssertionResult strings(const char* left_text, const char* right_text, const char* left, const char* right,
                        bool expected) noexcept;
AssertionResult text_failure(std::string_view text) noexcept;

template <class T>
AssertionResult check(const T& actual, bool expected, const char* expression) noexcept {
  return check(static_cast<bool>(actual), expected, expression);
}

template <class T>
void side(const char* expression, const T& value) noexcept {
  Text& text = result_text();
  text.append("\n  ");
  text.append(expression);
  text.append("\n    Which is: ");
  print(text, value, Quotes::kYes);
}

struct Equal {
  template <class A, class B>
  static AssertionResult compare(const char* left_text, const char* right_text, const A& left,
                                 const B& right) noexcept {
    if (left == right) return AssertionResult(true);
    AssertionFailure() << "Expected equality of these values:";
    side(left_text, left);
    side(right_text, right);
    return AssertionResult(false);
  }
};

template <class A, class B>
AssertionResult ordered(bool holds, const char* left_text, const char* operation, const char* right_text, const A& left,
                        const B& right) noexcept {
  if (holds) return AssertionResult(true);
  AssertionFailure() << "Expected: (" << left_text << ") " << operation << " (" << right_text << "), actual: ";
  print(result_text(), left, Quotes::kYes);
  result_text().append(" vs ");
  print(result_text(), right, Quotes::kYes);
  return AssertionResult(false);
}

#define QM_GTEST_OPERATION(name, operation)                                                      \
  struct name {                                                                                  \
    template <class A, class B>                                                                  \
    static AssertionResult compare(const char* left_text, const char* right_text, const A& left, \
                                   const B& right) noexcept {                                    \
      return ordered(left operation right, left_text, #operation, right_text, left, right);      \
    }                                                                                            \
  };
QM_GTEST_OPERATION(NotEqual, !=)
QM_GTEST_OPERATION(Less, <)
QM_GTEST_OPERATION(LessEqual, <=)
QM_GTEST_OPERATION(Greater, >)
QM_GTEST_OPERATION(GreaterEqual, >=)
#undef QM_GTEST_OPERATION

}  // namespace internal

/// The result of a run.
struct Totals {
  unsigned passed = 0;
  unsigned failed = 0;
  unsigned skipped = 0;
};

/// The destination of the report: one call for each report, never inside a line of another. The image supplies it.
using Writer = void (*)(std::string_view text);

/// The cases to run.
struct Selection {
  std::string_view filter;  // for "Suite.name", `*` and `?` as in GoogleTest; empty: all
  std::string_view files;   // names of the cases' sources, as "a_test.cpp,b_test.cpp"; empty: all
};

/// Runs the cases of @p selection, in the order of their definition, each suite without interruption.
Totals run_all_tests(Writer writer, const Selection& selection);

}  // namespace testing

#define QM_GTEST_CLASS(suite, name) suite##_##name##_Test
#define QM_GTEST_TEST(suite, name, base)                                                                       \
  class QM_GTEST_CLASS(suite, name) : public base {                                                            \
   public:                                                                                                     \
    static constexpr ::testing::internal::Case::Suite kSuite{&base::SetUpTestSuite, &base::TearDownTestSuite}; \
                                                                                                               \
   private:                                                                                                    \
    void TestBody() override;                                                                                  \
  };                                                                                                           \
  static ::testing::internal::Case qm_gtest_case_##suite##_##name(                                             \
      __FILE__, #suite, #name, QM_GTEST_CLASS(suite, name)::kSuite,                                            \
      &::testing::internal::run_case<QM_GTEST_CLASS(suite, name)>);                                            \
  void QM_GTEST_CLASS(suite, name)::TestBody()
#define TEST(suite, name) QM_GTEST_TEST(suite, name, ::testing::Test)
#define TEST_F(fixture, name) QM_GTEST_TEST(fixture, name, fixture)

#define QM_GTEST_REPORT(kind) \
  ::testing::internal::Report(::testing::internal::Kind::kind, __FILE__, __LINE__) = ::testing::Message()
#define QM_GTEST_EXPECT(result) static_cast<bool>(result) ? static_cast<void>(0) : QM_GTEST_REPORT(kNonfatal)
// The switch makes an `else` after the macro belong to the `if` before it.
#define QM_GTEST_ASSERT(result)    \
  switch (0)                       \
  case 0:                          \
  default:                         \
    if (static_cast<bool>(result)) \
      ;                            \
    else return QM_GTEST_REPORT(kFatal)
#define QM_GTEST_COMPARE(name, a, b) ::testing::internal::name::compare(#a, #b, a, b)

#define EXPECT_TRUE(condition) QM_GTEST_EXPECT(::testing::internal::check(condition, true, #condition))
#define ASSERT_TRUE(condition) QM_GTEST_ASSERT(::testing::internal::check(condition, true, #condition))
#define EXPECT_FALSE(condition) QM_GTEST_EXPECT(::testing::internal::check(condition, false, #condition))
#define ASSERT_FALSE(condition) QM_GTEST_ASSERT(::testing::internal::check(condition, false, #condition))
#define EXPECT_EQ(a, b) QM_GTEST_EXPECT(QM_GTEST_COMPARE(Equal, a, b))
#define ASSERT_EQ(a, b) QM_GTEST_ASSERT(QM_GTEST_COMPARE(Equal, a, b))
#define EXPECT_NE(a, b) QM_GTEST_EXPECT(QM_GTEST_COMPARE(NotEqual, a, b))
#define ASSERT_NE(a, b) QM_GTEST_ASSERT(QM_GTEST_COMPARE(NotEqual, a, b))
#define EXPECT_LT(a, b) QM_GTEST_EXPECT(QM_GTEST_COMPARE(Less, a, b))
#define ASSERT_LT(a, b) QM_GTEST_ASSERT(QM_GTEST_COMPARE(Less, a, b))
#define EXPECT_LE(a, b) QM_GTEST_EXPECT(QM_GTEST_COMPARE(LessEqual, a, b))
#define ASSERT_LE(a, b) QM_GTEST_ASSERT(QM_GTEST_COMPARE(LessEqual, a, b))
#define EXPECT_GT(a, b) QM_GTEST_EXPECT(QM_GTEST_COMPARE(Greater, a, b))
#define ASSERT_GT(a, b) QM_GTEST_ASSERT(QM_GTEST_COMPARE(Greater, a, b))
#define EXPECT_GE(a, b) QM_GTEST_EXPECT(QM_GTEST_COMPARE(GreaterEqual, a, b))
#define ASSERT_GE(a, b) QM_GTEST_ASSERT(QM_GTEST_COMPARE(GreaterEqual, a, b))
#define EXPECT_STREQ(a, b) QM_GTEST_EXPECT(::testing::internal::strings(#a, #b, a, b, true))
#define ASSERT_STREQ(a, b) QM_GTEST_ASSERT(::testing::internal::strings(#a, #b, a, b, true))
#define EXPECT_STRNE(a, b) QM_GTEST_EXPECT(::testing::internal::strings(#a, #b, a, b, false))
#define ASSERT_STRNE(a, b) QM_GTEST_ASSERT(::testing::internal::strings(#a, #b, a, b, false))
#define QM_GTEST_THROW(outcome, text) QM_GTEST_EXPECT(::testing::internal::check(outcome, true, text))
#define EXPECT_THROW(statement, exception)      \
  QM_GTEST_THROW(([&] {                         \
                   try {                        \
                     statement;                 \
                   } catch (const exception&) { \
                     return true;               \
                   } catch (...) {              \
                   }                            \
                   return false;                \
                 }()),                          \
                 #statement " throws " #exception)
#define EXPECT_NO_THROW(statement) \
  QM_GTEST_THROW(([&] {            \
                   try {           \
                     statement;    \
                   } catch (...) { \
                     return false; \
                   }               \
                   return true;    \
                 }()),             \
                 #statement " throws nothing")
#define ADD_FAILURE() QM_GTEST_EXPECT(::testing::internal::text_failure("Failed"))
#define FAIL() QM_GTEST_ASSERT(::testing::internal::text_failure("Failed"))
#define SUCCEED() static_cast<void>(0), ::testing::Message()
#define GTEST_SKIP() return QM_GTEST_REPORT(kSkip)
#define QM_GTEST_JOIN2(a, b) a##b
#define QM_GTEST_JOIN(a, b) QM_GTEST_JOIN2(a, b)
#define SCOPED_TRACE(message) \
  const ::testing::ScopedTrace QM_GTEST_JOIN(qm_gtest_trace_, __LINE__)(__FILE__, __LINE__, (message))
