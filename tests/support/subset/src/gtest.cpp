#include <gtest/gtest.h>

#include <cstring>

#include <qm/hal/port.hpp>

namespace testing {
namespace {

using internal::Case;
using internal::Text;

Text report;  // the text being written, under report_lock
std::atomic<std::uint32_t> report_lock{0};
Writer write = nullptr;
Case* first_case = nullptr;
Case* last_case = nullptr;
std::atomic<std::uint32_t> failures{0};
std::atomic<std::uint32_t> fatal_failures{0};
std::atomic<std::uint32_t> skips{0};

/// Holds the report for a scope; flush() and the destructor write the appended text.
class ReportGuard {
 public:
  ReportGuard() noexcept {
    // acquire: pairs with the release in the destructor.
    while (report_lock.exchange(1, std::memory_order_acquire) != 0) qm::hal::Port::relax();
    report.clear();
  }
  ~ReportGuard() {
    flush();
    report_lock.store(0, std::memory_order_release);
  }
  ReportGuard(const ReportGuard&) = delete;
  ReportGuard& operator=(const ReportGuard&) = delete;
  static void flush() noexcept {
    if (write != nullptr) write(report.view());
    report.clear();
  }

 private:
  qm::hal::InterruptGuard masked_;
};

/// A text may fill the report: the earlier text is written first, the line end after it.
void write_line(std::string_view text) noexcept {
  ReportGuard::flush();
  report.append(text);
  ReportGuard::flush();
  report.append("\n");
}

void print_place(Text& text, const char* file, int line) noexcept {
  text.append(file);
  text.append(":");
  text.append_signed(line);
  text.append(": ");
}

bool matches(std::string_view pattern, std::string_view name) noexcept {
  if (pattern.empty()) return name.empty();
  if (pattern[0] == '*') {
    return matches(pattern.substr(1), name) || (!name.empty() && matches(pattern, name.substr(1)));
  }
  return !name.empty() && (pattern[0] == '?' || pattern[0] == name[0]) && matches(pattern.substr(1), name.substr(1));
}

void announce(std::string_view verdict, const Case& test) noexcept {
  const ReportGuard guard;
  report.append(verdict);
  report.append(test.suite);
  report.append(".");
  report.append(test.name);
  report.append("\n");
}

/// Whether @p path ends with one of the names in @p files, which commas separate.
bool is_among(std::string_view files, std::string_view path) noexcept {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  while (!files.empty()) {
    const std::size_t end = files.find(',');
    if (files.substr(0, end) == name) return true;
    files = end == std::string_view::npos ? std::string_view() : files.substr(end + 1);
  }
  return false;
}

bool selected(const Case& test, const Selection& selection) noexcept {
  if (!selection.files.empty() && !is_among(selection.files, test.file)) return false;
  Text name;
  name.append(test.suite);
  name.append(".");
  name.append(test.name);
  return selection.filter.empty() || matches(selection.filter, name.view());
}

void run_one(const Case& test, Totals& totals) {
  failures.store(0);
  fatal_failures.store(0);
  skips.store(0);
  announce("[ RUN      ] ", test);
  internal::call(test.run);
  if (failures.load() != 0) {
    announce("[  FAILED  ] ", test);
    ++totals.failed;
  } else if (skips.load() != 0) {
    announce("[  SKIPPED ] ", test);
    ++totals.skipped;
  } else {
    announce("[       OK ] ", test);
    ++totals.passed;
  }
}

/// Runs the selected cases of @p leader's suite, between the suite's set-up and tear-down functions.
void run_suite(const Case& leader, const Selection& selection, Totals& totals) {
  const std::string_view suite = leader.suite;
  bool set_up = false;
  for (Case* test = first_case; test != nullptr; test = test->next) {
    if (test->done || suite != test->suite || !selected(*test, selection)) continue;
    if (!set_up) leader.functions.set_up();
    set_up = true;
    run_one(*test, totals);
    test->done = true;
  }
  if (set_up) leader.functions.tear_down();
}

}  // namespace

namespace internal {

void Text::append(std::string_view text) noexcept {
  const std::size_t room = kTextBytes - length_;
  const std::size_t taken = text.size() <= room ? text.size() : room;
  if (taken != 0) std::memcpy(characters_ + length_, text.data(), taken);  // an empty text may have no data
  length_ += taken;
  if (taken < text.size()) characters_[kTextBytes - 1] = '~';
}

void Text::append_unsigned(std::uint64_t value) noexcept {
  char digits[20];
  std::size_t at = sizeof digits;
  do {
    digits[--at] = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value != 0);
  append({digits + at, sizeof digits - at});
}

void Text::append_signed(std::int64_t value) noexcept {
  if (value < 0) append("-");
  append_unsigned(value < 0 ? 0 - static_cast<std::uint64_t>(value) : static_cast<std::uint64_t>(value));
}

void Text::append_hex(std::uint64_t value) noexcept {
  char digits[16];
  std::size_t at = sizeof digits;
  do {
    digits[--at] = "0123456789abcdef"[value % 16];
    value /= 16;
  } while (value != 0);
  append({digits + at, sizeof digits - at});
}

Text& result_text() noexcept { return own_texts().result; }
Text& message_text() noexcept { return own_texts().message; }

Case::Case(const char* path, const char* suite_name, const char* case_name, Suite suite_functions,
           void (*function)()) noexcept
    : file(path), suite(suite_name), name(case_name), functions(suite_functions), run(function) {
  (last_case == nullptr ? first_case : last_case->next) = this;
  last_case = this;
}

void run_object(Test& test) {
  test.SetUp();
  if (!Test::HasFatalFailure() && !Test::IsSkipped()) test.TestBody();
  test.TearDown();
}

void Report::operator=(const Message&) const noexcept {
  if (kind_ == Kind::kSkip) skips.fetch_add(1);
  if (kind_ != Kind::kSkip) failures.fetch_add(1);
  if (kind_ == Kind::kFatal) fatal_failures.fetch_add(1);
  const ReportGuard guard;
  print_place(report, file_, line_);
  report.append(kind_ == Kind::kSkip ? "Skipped\n" : "Failure\n");
  if (kind_ != Kind::kSkip) write_line(result_text().view());
  if (!message_text().view().empty()) write_line(message_text().view());
  const ScopedTrace* trace = own_texts().trace;
  if (trace != nullptr) report.append("Trace:\n");
  for (; trace != nullptr; trace = trace->outer()) {
    trace->print(report);
    ReportGuard::flush();
  }
}

AssertionResult check(bool actual, bool expected, const char* expression) noexcept {
  if (actual == expected) return AssertionResult(true);
  return AssertionFailure() << "Value of: " << expression << "\n  Actual: " << actual << "\nExpected: " << expected;
}

AssertionResult check(const AssertionResult& actual, bool expected, const char* expression) noexcept {
  if (static_cast<bool>(actual) == expected) return AssertionResult(true);
  Text& text = result_text();  // result_text() holds the reason
  text.append("\nValue of: ");
  text.append(expression);
  text.append(expected ? "\nExpected: true" : "\nExpected: false");
  return AssertionResult(false);
}

AssertionResult strings(const char* left_text, const char* right_text, const char* left, const char* right,
                        bool expected) noexcept {
  const bool equal =
      left == nullptr || right == nullptr ? left == right : std::string_view(left) == std::string_view(right);
  if (equal == expected) return AssertionResult(true);
  AssertionFailure() << (expected ? "Expected equality of these values:" : "Expected two different strings:");
  side(left_text, left);
  side(right_text, right);
  return AssertionResult(false);
}

AssertionResult text_failure(std::string_view text) noexcept { return AssertionFailure() << text; }

}  // namespace internal

bool Test::HasFatalFailure() noexcept { return fatal_failures.load() != 0; }
bool Test::HasFailure() noexcept { return failures.load() != 0; }
bool Test::IsSkipped() noexcept { return skips.load() != 0; }

void ScopedTrace::enter() noexcept {
  const std::string_view words = internal::message_text().view();
  length_ = words.size() < sizeof words_ ? words.size() : sizeof words_;
  std::memcpy(words_, words.data(), length_);
  outer_ = internal::own_texts().trace;
  internal::own_texts().trace = this;
}

ScopedTrace::~ScopedTrace() { internal::own_texts().trace = outer_; }

void ScopedTrace::print(internal::Text& text) const noexcept {
  print_place(text, file_, line_);
  text.append({words_, length_});
  text.append("\n");
}

Totals run_all_tests(Writer writer, const Selection& selection) {
  write = writer;
  Totals totals;
  for (Case* leader = first_case; leader != nullptr; leader = leader->next) {
    if (!leader->done) run_suite(*leader, selection, totals);
  }
  return totals;
}

}  // namespace testing
