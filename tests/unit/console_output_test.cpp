#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include <qm/console/boot_options.hpp>
#include <qm/console/output.hpp>
#include <qm/console/words.hpp>

namespace console_output_test {

using namespace qm::console;

struct Sheet {
  std::string text;
  std::size_t calls = 0;
  char buffer[16];
  Output out;
  explicit Sheet(Output::Target target = Output::Target::kFrames)
      : out(
            buffer, target,
            [](void* context, std::string_view bytes) noexcept {
              auto& self = *static_cast<Sheet*>(context);
              self.text += bytes;
              ++self.calls;
            },
            this) {}
  template <class... Arguments>
  std::string print(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) {
    text.clear();
    out.print<Arguments...>(format, arguments...);
    out.flush();
    return text;
  }
};

TEST(Output, prints_numbers_of_every_width_and_sign) {
  Sheet sheet;
  EXPECT_EQ(sheet.print("{}", 0), "0");
  EXPECT_EQ(sheet.print("{}", std::numeric_limits<std::uint64_t>::max()), "18446744073709551615");
  EXPECT_EQ(sheet.print("{}", std::numeric_limits<std::int64_t>::min()), "-9223372036854775808");
  EXPECT_EQ(sheet.print("{}|{}", std::uint8_t{255}, std::int8_t{-1}), "255|-1");
  EXPECT_EQ(sheet.print("{:12}|{:<12}|{:012}", -5, -5, -5), "          -5|-5          |-00000000005");
  EXPECT_EQ(sheet.print("{:+6}|{:+}|{:+}|{:+04}", 5u, 0, -5, 5), "    +5|+0|-5|+005");
  EXPECT_EQ(sheet.print("{:x} {:08x} {:4x}", 0xBEEFu, 0x1fu, 0xau), "beef 0000001f    a");
  EXPECT_EQ(sheet.print("#{:02}", 7u), "#07");
}

TEST(Output, prints_a_count_with_what_it_counts) {
  Sheet sheet;
  const auto print = [&](std::uint64_t count) { return sheet.print("{}!", Counted{count, "cache is/caches are"}); };
  EXPECT_EQ(print(0), "0 caches are!");
  EXPECT_EQ(print(1), "1 cache is!");
  EXPECT_EQ(print(18446744073709551615u), "18446744073709551615 caches are!");
}

TEST(Output, prints_text_to_the_left_and_right_and_never_cuts_it) {
  Sheet sheet;
  EXPECT_EQ(sheet.print("[{:6}][{:<6}][{:2}]", "abc", "abc", "abc"), "[   abc][abc   ][abc]");
  EXPECT_EQ(sheet.print("{}", static_cast<const char*>(nullptr)), "(null)");
}

TEST(Output, prints_addresses_with_all_digits) {
  Sheet sheet;
  const std::string expected = sizeof(void*) == 8 ? "0x0000000080a41280" : "0x80a41280";
  EXPECT_EQ(sheet.print("{}", Address{0x80a41280}), expected);
}

TEST(Output, hands_a_terminal_each_line_whole_with_cr_lf) {
  Sheet sheet(Output::Target::kTerminal);
  sheet.out.text("ab\ncd\n");
  EXPECT_EQ(sheet.text, "ab\r\ncd\r\n");
  EXPECT_EQ(sheet.calls, 2u);
  sheet.out.text("e");
  EXPECT_EQ(sheet.calls, 2u);
  EXPECT_EQ(sheet.out.column(), 1u);
}

// ---- lines that fit

std::string wrapped(Output::Target target, std::string_view text, std::size_t hang = 2) {
  struct Wide {
    std::string text;
    char buffer[160];
  } wide;
  Output out(
      wide.buffer, target,
      [](void* context, std::string_view bytes) noexcept { static_cast<Wide*>(context)->text += bytes; }, &wide);
  out.wrap(Output::Wrap::kYes);
  out.hang(hang);
  out.text(text);
  out.flush();
  return wide.text;
}

TEST(Output, breaks_a_line_at_the_last_space_that_fits) {
  const std::string seventy(70, 'x');
  for (const auto target : {Output::Target::kFrames, Output::Target::kTerminal}) {
    const std::string end = target == Output::Target::kTerminal ? "\r\n" : "\n";
    EXPECT_EQ(wrapped(target, seventy + " 23456789\n"), seventy + " 23456789" + end) << "79 columns fit";
    EXPECT_EQ(wrapped(target, seventy + " 234567890\n"), seventy + end + "  234567890" + end) << "80 do not";
    EXPECT_EQ(wrapped(target, seventy + "   234567890\n", 4), seventy + end + "    234567890" + end);
    EXPECT_EQ(wrapped(target, seventy + seventy + " a\n"), seventy + seventy + end + "  a" + end)
        << "a word is not cut";
    EXPECT_EQ(wrapped(target, "   " + seventy + seventy + "\n"), "   " + seventy + seventy + end)
        << "no line of spaces alone";
  }
}

TEST(Output, breaks_a_line_as_often_as_it_needs_whatever_the_buffer) {
  std::string text, expected;
  for (int word = 0; word < 60; ++word) text += (word == 0 ? "" : " ") + std::to_string(1000000 + word);
  text += '\n';
  std::size_t column = 0;
  for (int word = 0; word < 60; ++word) {
    const std::string one = std::to_string(1000000 + word);
    if (column != 0 && column + 1 + one.size() > kColumns) {
      expected += "\n  ";
      column = 2;
    } else if (column != 0) {
      expected += ' ';
      ++column;
    }
    expected += one;
    column += one.size();
  }
  EXPECT_EQ(wrapped(Output::Target::kFrames, text), expected + '\n');
}

TEST(Output, leaves_a_line_of_a_fixed_format_whole) {
  Sheet sheet;
  sheet.out.wrap(Output::Wrap::kYes);
  const std::string line = std::string(70, 'x') + " 234567890";
  sheet.text.clear();
  sheet.out.whole_line();
  sheet.out.text(line + '\n' + line + '\n');
  sheet.out.flush();
  EXPECT_EQ(sheet.text, line + '\n' + line.substr(0, 70) + "\n  234567890\n") << "the next one is broken again";
}

TEST(Output, passes_a_line_longer_than_its_buffer_on_in_pieces) {
  Sheet sheet(Output::Target::kTerminal);
  sheet.out.text("0123456789012345678901234567890123456789\n");
  EXPECT_EQ(sheet.text, "0123456789012345678901234567890123456789\r\n");
}

TEST(Output, shows_unprintable_bytes_as_question_marks) {
  Sheet sheet;
  EXPECT_EQ(sheet.print("{}", std::string_view("a\x1b[31m\x7f\xff\tb\r", 11)), "a?[31m??\tb?");
}

// ---- words and numbers ----------------------------------------------------------------------------------------------

TEST(Words, are_what_blanks_separate) {
  const Words words("  ab\tc  def ");
  ASSERT_EQ(words.size(), 3u);
  EXPECT_EQ(words[0], "ab");
  EXPECT_EQ(words[1], "c");
  EXPECT_EQ(words[2], "def");
  EXPECT_EQ(words[3], "");
  EXPECT_TRUE(Words("").empty());
  EXPECT_TRUE(Words(" \t ").empty());
}

TEST(Words, past_the_limit_are_counted) {
  std::string line;
  for (int i = 0; i < 120; ++i) line += "a ";
  const Words words(line);
  EXPECT_EQ(words.size(), 120u);
  EXPECT_EQ(words[Words::kMax - 1], "a");
  EXPECT_EQ(words[Words::kMax], "");
}

TEST(Number, is_decimal_or_hexadecimal_and_overflow_is_an_error) {
  std::uint64_t value = 7;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(parse_number("0", most, value), Number::kOk);
  EXPECT_EQ(value, 0u);
  EXPECT_EQ(parse_number("0x1F", most, value), Number::kOk);
  EXPECT_EQ(value, 31u);
  EXPECT_EQ(parse_number("18446744073709551615", most, value), Number::kOk);
  EXPECT_EQ(value, most);
  EXPECT_EQ(parse_number("0xffffffffffffffff", most, value), Number::kOk);
  EXPECT_EQ(value, most);
  value = 7;
  for (const char* text : {"18446744073709551616", "0x10000000000000000", "99999999999999999999999"}) {
    EXPECT_EQ(parse_number(text, most, value), Number::kTooLarge) << text;
  }
  for (const char* text : {"", "x", "0x", "12a", "-1", "+1", "1.5", "99999999999999999999999z", "1K", " 1"}) {
    EXPECT_EQ(parse_number(text, most, value), Number::kMalformed) << text;
  }
  EXPECT_EQ(parse_number("255", 255, value), Number::kOk);
  EXPECT_EQ(parse_number("256", 255, value), Number::kTooLarge);
  EXPECT_EQ(parse_number("1", 0, value), Number::kTooLarge);
}

TEST(Number, of_a_size_takes_a_suffix) {
  std::uint64_t value = 0;
  const std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(parse_size("3", most, value), Number::kOk);
  EXPECT_EQ(value, 3u);
  EXPECT_EQ(parse_size("2k", most, value), Number::kOk);
  EXPECT_EQ(value, 2048u);
  EXPECT_EQ(parse_size("0x10M", most, value), Number::kOk);
  EXPECT_EQ(value, std::uint64_t{16} << 20);
  EXPECT_EQ(parse_size("17179869183G", most, value), Number::kOk);
  EXPECT_EQ(parse_size("17179869184G", most, value), Number::kTooLarge);
  EXPECT_EQ(parse_size("4G", 0xffffffff, value), Number::kTooLarge);
  EXPECT_EQ(parse_size("K", most, value), Number::kMalformed);
  EXPECT_EQ(parse_size("1KK", most, value), Number::kMalformed);
  EXPECT_EQ(parse_size("1T", most, value), Number::kMalformed);
}

// ---- boot options ---------------------------------------------------------------------------------------------------

TEST(BootOptions, are_read_and_the_last_of_two_counts) {
  const BootOptions options = parse_boot_options(" trace=packet,kmalloc_*  records=5000 stacks=64K records=0x10 ");
  EXPECT_EQ(options.trace, "packet,kmalloc_*");
  EXPECT_EQ(options.records, 16u);
  EXPECT_EQ(options.stack_bytes, 65536u);
  EXPECT_EQ(options.rejected_count, 0u);
  EXPECT_EQ(options.panic_seconds, 10u) << "where nothing is said";
  EXPECT_EQ(parse_boot_options("panic=3 panic=0").panic_seconds, 0u);
  EXPECT_EQ(parse_boot_options("exhausted=reap exhausted=findleaks").exhausted, "findleaks");
  EXPECT_EQ(parse_boot_options("exhausted=").rejected_count, 1u);
  EXPECT_EQ(options.baud, 0u);
  EXPECT_EQ(parse_boot_options("baud=115200").baud, 115200u);
  EXPECT_EQ(parse_boot_options("baud=0 baud=fast").rejected_count, 2u);
  EXPECT_EQ(parse_boot_options("panic=never").rejected[0].reason, Rejection::kMalformed);
  std::string_view list = options.trace;
  EXPECT_EQ(next_item(list), "packet");
  EXPECT_EQ(next_item(list), "kmalloc_*");
  EXPECT_EQ(next_item(list), "");
}

TEST(BootOptions, that_are_unknown_or_malformed_are_named) {
  const BootOptions options = parse_boot_options(
      "frobnicate trace= records=many stacks=1Q kmemtrace=yes ring=4Q allocinfo=maybe trace=a,,b records=0 "
      "stacks=99999999999999999999");
  const std::pair<std::string_view, Rejection> expected[] = {
      {"frobnicate", Rejection::kUnknown},        {"trace=", Rejection::kMalformed},
      {"records=many", Rejection::kMalformed},    {"stacks=1Q", Rejection::kMalformed},
      {"kmemtrace=yes", Rejection::kMalformed},   {"ring=4Q", Rejection::kMalformed},
      {"allocinfo=maybe", Rejection::kMalformed}, {"trace=a,,b", Rejection::kMalformed}};
  EXPECT_EQ(options.rejected_count, 10u);
  for (std::size_t i = 0; i < BootOptions::kMaxRejected; ++i) {
    EXPECT_EQ(options.rejected[i].option, expected[i].first);
    EXPECT_EQ(options.rejected[i].reason, expected[i].second) << expected[i].first;
  }
  EXPECT_EQ(options.trace, "");
  EXPECT_EQ(options.records, 0u);
}

TEST(BootOptions, start_the_event_stream_and_size_its_rings) {
  const BootOptions options = parse_boot_options("kmemtrace=on ring=64K");
  EXPECT_TRUE(options.stream);
  EXPECT_EQ(options.ring_bytes, 65536u);
  EXPECT_EQ(options.rejected_count, 0u);
  EXPECT_FALSE(parse_boot_options("ring=1K").stream);
}

TEST(BootOptions, end_at_two_dashes) {
  const BootOptions options = parse_boot_options("records=3 -- records=4 seed=5");
  EXPECT_EQ(options.records, 3u);
  EXPECT_EQ(options.rejected_count, 0u);
  EXPECT_EQ(parse_boot_options("").rejected_count, 0u);
}

}  // namespace console_output_test
