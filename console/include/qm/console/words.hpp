#pragma once
/// The words of a command line, and the numbers in them.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/console/text.hpp>
#include <qm/detail/glob.hpp>

namespace qm::console {

/// The words of a line, separated by spaces and tabs. They point into the line.
class Words {
 public:
  static constexpr std::size_t kMax = 32;

  constexpr Words() noexcept = default;
  /// Splits @p line. Words past kMax are counted but not kept.
  constexpr explicit Words(std::string_view line) noexcept {
    std::size_t at = 0;
    while (true) {
      while (at < line.size() && is_blank(line[at])) ++at;
      if (at == line.size()) return;
      const std::size_t start = at;
      while (at < line.size() && !is_blank(line[at])) ++at;
      if (count_ < kMax) words_[count_] = part(line, start, at - start);
      ++count_;
    }
  }

  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return count_ == 0; }
  /// Word @p index; empty if there is none.
  [[nodiscard]] constexpr std::string_view operator[](std::size_t index) const noexcept {
    return index < count_ && index < kMax ? words_[index] : std::string_view();
  }

  static constexpr bool is_blank(char c) noexcept { return c == ' ' || c == '\t'; }

 private:
  std::string_view words_[kMax];
  std::size_t count_ = 0;
};

/// The result of reading a number.
enum class Number : std::uint8_t {
  kOk,
  kMalformed,  ///< not a number, or an unknown suffix
  kTooLarge,   ///< above the limit
};

/// Reads a decimal or 0x hexadecimal number.
/// @param[in]  limit the largest value accepted.
/// @param[out] value set iff kOk is returned.
[[nodiscard]] Number parse_number(std::string_view text, std::uint64_t limit, std::uint64_t& value) noexcept;

/// As parse_number(), with an optional suffix K, M or G (1024, 1024^2, 1024^3; upper or lower case).
[[nodiscard]] Number parse_size(std::string_view text, std::uint64_t limit, std::uint64_t& value) noexcept;

/// Reads a time in milliseconds: a number and `ms`, `s` (or nothing), `m` or `h`.
[[nodiscard]] Number parse_duration(std::string_view text, std::uint64_t limit_ms, std::uint64_t& ms) noexcept;

/// Removes the first item of a list separated by commas. @returns the item; empty at the end, or if the item is empty.
[[nodiscard]] std::string_view next_item(std::string_view& list) noexcept;

}  // namespace qm::console
