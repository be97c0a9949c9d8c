#pragma once
/// Writes text to a fixed buffer, for labels and panics. It does not allocate; text that does not fit is cut.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace qm::firmware {

class Text {
 public:
  explicit Text(std::span<char> buffer) noexcept : buffer_(buffer) {}

  Text& operator<<(std::string_view text) noexcept {
    for (const char c : text) {
      if (length_ == buffer_.size()) break;
      buffer_[length_++] = c;
    }
    return *this;
  }
  Text& decimal(std::uint64_t value) noexcept {
    char digits[20];
    std::size_t at = sizeof digits;
    do {
      digits[--at] = static_cast<char>('0' + value % 10);
      value /= 10;
    } while (value != 0);
    return *this << std::string_view(digits + at, sizeof digits - at);
  }
  /// Writes 0x and at least @p digits hexadecimal digits.
  Text& hex(std::uint64_t value, unsigned digits) noexcept {
    char text[16];
    std::size_t at = sizeof text;
    do {
      text[--at] = "0123456789abcdef"[value & 15];
      value >>= 4;
    } while (value != 0 || sizeof text - at < digits);
    return *this << "0x" << std::string_view(text + at, sizeof text - at);
  }
  [[nodiscard]] std::string_view view() const noexcept { return {buffer_.data(), length_}; }
  [[nodiscard]] std::size_t length() const noexcept { return length_; }

 private:
  std::span<char> buffer_;
  std::size_t length_ = 0;
};

}  // namespace qm::firmware
