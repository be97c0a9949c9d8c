#include <qm/console/output.hpp>

namespace qm::console {
namespace {

constexpr std::size_t kMaxDigits = 20;  // of 2^64 - 1
constexpr unsigned kAddressDigits = 2 * sizeof(std::uintptr_t);

struct Placeholder {
  std::size_t width = 0;
  bool left = false;
  bool plus = false;
  bool zeroes = false;
  bool hex = false;
};

/// Parses a placeholder: the characters between `{` and `}`.
Placeholder read_placeholder(std::string_view inside) noexcept {
  Placeholder result;
  const std::size_t colon = find(inside, ':');
  if (colon == kNowhere) return result;
  for (const char c : part(inside, colon + 1)) {
    if (c == '<') {
      result.left = true;
    } else if (c == '+') {
      result.plus = true;
    } else if (c == 'x') {
      result.hex = true;
    } else if (c == '0' && result.width == 0) {
      result.zeroes = true;
    } else if (c >= '0' && c <= '9') {
      result.width = result.width * 10 + static_cast<std::size_t>(c - '0');
    }
  }
  return result;
}

/// Writes the digits of @p value at the end of @p digits. @returns the digits.
std::string_view to_digits(std::uint64_t value, unsigned base, std::span<char, kMaxDigits> digits) noexcept {
  std::size_t at = digits.size();
  do {
    digits[--at] = "0123456789abcdef"[value % base];
    value /= base;
  } while (value != 0);
  return {digits.data() + at, digits.size() - at};
}

void print_one(Output& out, const Argument& argument, Placeholder how) noexcept {
  char buffer[kMaxDigits];
  if (argument.kind() == Argument::Kind::kCounted) {
    out.text(to_digits(argument.number(), 10, buffer));
    out.put(' ');
    const std::size_t slash = find(argument.text(), '/');
    return out.text(argument.number() == 1 ? part(argument.text(), 0, slash) : part(argument.text(), slash + 1));
  }
  if (argument.kind() == Argument::Kind::kSeconds) {
    out.text(to_digits(argument.number() / 1000, 10, buffer));
    return out.print(".{:03} s", argument.number() % 1000);
  }
  std::string_view body = argument.text();
  char sign = 0;
  if (argument.kind() == Argument::Kind::kAddress) {
    out.text("0x");
    body = to_digits(argument.number(), 16, buffer);
    how = {.width = kAddressDigits, .zeroes = true};
  } else if (argument.kind() != Argument::Kind::kText) {
    std::uint64_t value = argument.number();
    const bool minus = argument.kind() == Argument::Kind::kSigned && static_cast<std::int64_t>(value) < 0;
    if (minus) value = 0 - value;
    if (minus || how.plus) sign = minus ? '-' : '+';
    body = to_digits(value, how.hex ? 16 : 10, buffer);
  }
  const std::size_t length = body.size() + (sign != 0 ? 1 : 0);
  const std::size_t fill = how.width > length ? how.width - length : 0;
  if (!how.left && !how.zeroes) out.repeat(' ', fill);
  if (sign != 0) out.put(sign);
  if (!how.left && how.zeroes) out.repeat('0', fill);
  out.text(body);
  if (how.left) out.repeat(' ', fill);
}

}  // namespace

void Output::append(char c) noexcept {
  if (used_ == buffer_.size() && break_ != kNoBreak && break_ > 1) {
    // Keep the last space and the word after it: the line may still be broken there.
    const std::size_t kept = break_ - 1;
    sink_(context_, {buffer_.data(), kept});
    for (std::size_t at = kept; at < used_; ++at) buffer_[at - kept] = buffer_[at];
    used_ -= kept;
    break_ = 1;
  }
  if (used_ == buffer_.size()) flush();
  buffer_[used_++] = c;
}

void Output::end_line() noexcept {
  break_ = kNoBreak;
  if (target_ == Target::kTerminal) append('\r');
  if (!rows()) append('\n');
  column_ = 0;
  any_word_ = false;
  if (target_ != Target::kFrames) flush();
  line_kind_ = kText;
}

void Output::send_row(std::span<const std::uint8_t> row) noexcept {
  if (!rows()) return;
  flush();
  row_sink_(context_, row);
}

/// Ends the line at the last space, and begins a new line with the text after that space.
void Output::break_line() noexcept {
  char word[kColumns + 1];
  std::size_t length = 0;
  for (std::size_t at = break_; at < used_; ++at) word[length++] = buffer_[at];
  used_ = break_ - 1;
  while (used_ != 0 && buffer_[used_ - 1] == ' ') --used_;
  end_line();
  for (column_ = 0; column_ < hang_; ++column_) append(' ');
  for (std::size_t at = 0; at < length; ++at, ++column_) append(word[at]);
  any_word_ = true;
}

/// Updates the place where the line may be broken. @param[in] c the character just added to the line.
void Output::note_break(char c) noexcept {
  if (c != ' ') {
    any_word_ = true;
    if (column_ > kColumns && break_ != kNoBreak) break_line();
  } else if (any_word_) {
    break_ = used_;
  }
}

void Output::put(char c) noexcept {
  if (c == '\n') {
    end_line();
    whole_ = false;
    hang_ = kHang;
    return;
  }
  const bool printable = (c >= 0x20 && c <= 0x7e) || c == '\t';
  append(printable ? c : '?');
  ++column_;
  if (wrap_ == Wrap::kYes && !whole_) note_break(c);
}

void Output::vprint(std::string_view format, std::span<const Argument> arguments) noexcept {
  std::size_t next = 0;
  for (std::size_t at = 0; at < format.size(); ++at) {
    if (format[at] != '{') {
      put(format[at]);
      continue;
    }
    const std::size_t end = find(format, '}', at);
    if (end == kNowhere || next == arguments.size()) return;
    print_one(*this, arguments[next++], read_placeholder(part(format, at + 1, end - at - 1)));
    at = end;
  }
}

void Output::raw(std::string_view bytes) noexcept {
  if (bytes.size() > buffer_.size() - used_) flush();
  for (const char c : bytes) append(c);
}

void Output::flush() noexcept {
  if (used_ == 0) return;
  sink_(context_, {buffer_.data(), used_});
  used_ = 0;
  break_ = kNoBreak;
}

}  // namespace qm::console
