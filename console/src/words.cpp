#include <qm/console/words.hpp>

namespace qm::console {
namespace {

constexpr unsigned kNoDigit = 16;

unsigned digit(char c) noexcept {
  if (c >= '0' && c <= '9') return static_cast<unsigned>(c - '0');
  if (c >= 'a' && c <= 'f') return static_cast<unsigned>(c - 'a' + 10);
  if (c >= 'A' && c <= 'F') return static_cast<unsigned>(c - 'A' + 10);
  return kNoDigit;
}

/// Reads @p text, which must consist of digits. @returns kMalformed for a malformed text, even if the number at its
/// beginning is too large.
Number read_digits(std::string_view text, unsigned base, std::uint64_t limit, std::uint64_t& value) noexcept {
  if (text.empty()) return Number::kMalformed;
  std::uint64_t result = 0;
  bool too_large = false;
  for (const char c : text) {
    const unsigned next = digit(c);
    if (next >= base) return Number::kMalformed;
    if (next > limit || result > (limit - next) / base) too_large = true;
    if (!too_large) result = result * base + next;
  }
  if (too_large) return Number::kTooLarge;
  value = result;
  return Number::kOk;
}

unsigned suffix_log2(char c) noexcept {
  switch (c) {
    case 'k':
    case 'K': return 10;
    case 'm':
    case 'M': return 20;
    case 'g':
    case 'G': return 30;
    default: return 0;
  }
}

}  // namespace

Number parse_number(std::string_view text, std::uint64_t limit, std::uint64_t& value) noexcept {
  const bool hex = text.size() > 2 && text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
  return read_digits(hex ? part(text, 2) : text, hex ? 16 : 10, limit, value);
}

Number parse_size(std::string_view text, std::uint64_t limit, std::uint64_t& value) noexcept {
  if (text.empty()) return Number::kMalformed;
  const unsigned shift = suffix_log2(text.back());
  if (shift != 0) text.remove_suffix(1);
  std::uint64_t units = 0;
  const Number result = parse_number(text, limit >> shift, units);
  if (result == Number::kOk) value = units << shift;
  return result;
}

Number parse_duration(std::string_view text, std::uint64_t limit_ms, std::uint64_t& ms) noexcept {
  std::uint64_t unit = 1000;
  std::size_t suffix = 1;
  const char last = text.empty() ? ' ' : text.back();
  if (last == 'm') {
    unit = 60'000;
  } else if (last == 'h') {
    unit = 3'600'000;
  } else if (last == 's' && text.size() > 1 && text[text.size() - 2] == 'm') {
    unit = 1;
    suffix = 2;
  } else if (last != 's') {
    suffix = 0;
  }
  std::uint64_t units = 0;
  const Number result = parse_number(part(text, 0, text.size() - suffix), limit_ms / unit, units);
  if (result == Number::kOk) ms = units * unit;
  return result;
}

std::string_view next_item(std::string_view& list) noexcept {
  const std::size_t comma = find(list, ',');
  const std::string_view item = part(list, 0, comma);
  list = comma == kNowhere ? std::string_view() : part(list, comma + 1);
  return item;
}

}  // namespace qm::console
