#pragma once
/// Amounts of memory for people. A report uses one unit, which its header names.

#include <cstdint>
#include <string_view>

#include <qm/console/output.hpp>
#include <qm/console/text.hpp>

namespace qm::console {

class Unit {
 public:
  /// @returns the unit of a report whose largest amount is @p largest, in bytes: KiB, or MiB from 1 GiB on.
  [[nodiscard]] static constexpr Unit of(std::uint64_t largest) noexcept {
    return largest < (std::uint64_t{1} << 30) ? Unit(10, "KiB") : Unit(20, "MiB");
  }
  [[nodiscard]] static constexpr Unit bytes() noexcept { return Unit(0, "bytes"); }

  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }

  /// The number of columns that @p amount occupies.
  [[nodiscard]] constexpr std::size_t columns(std::uint64_t amount) const noexcept {
    return shift_ == 0 ? digits(amount) : digits(tenths(amount) / 10) + 2;
  }

  /// Prints @p amount with one decimal, aligned to the right in @p width columns. The decimal is rounded up, so only 0
  /// prints as 0.
  void print(Output& out, std::uint64_t amount, std::size_t width) const noexcept {
    const std::size_t used = columns(amount);
    if (used < width) out.repeat(' ', width - used);
    if (shift_ == 0) return out.print("{}", amount);
    out.print("{}.{}", tenths(amount) / 10, tenths(amount) % 10);
  }

  [[nodiscard]] static constexpr std::size_t digits(std::uint64_t number) noexcept {
    std::size_t count = 1;
    while (number >= 10) {
      number /= 10;
      ++count;
    }
    return count;
  }

 private:
  constexpr Unit(unsigned shift, std::string_view name) noexcept : shift_(shift), name_(name) {}
  [[nodiscard]] constexpr std::uint64_t tenths(std::uint64_t amount) const noexcept {
    const std::uint64_t whole = amount >> shift_;
    const std::uint64_t rest = amount - (whole << shift_);
    return whole * 10 + ((rest * 10 + (std::uint64_t{1} << shift_) - 1) >> shift_);
  }

  unsigned shift_;
  std::string_view name_;
};

/// Prints @p text aligned to the right in @p width columns.
inline void print_right(Output& out, std::string_view text, std::size_t width) noexcept {
  if (text.size() < width) out.repeat(' ', width - text.size());
  out.text(text);
}

/// Prints @p name aligned to the left in @p width columns. If the name is longer, `~` replaces its middle.
inline void print_name(Output& out, std::string_view name, std::size_t width) noexcept {
  if (name.size() <= width) {
    out.text(name);
    return out.repeat(' ', width - name.size());
  }
  const std::size_t kept = width - 1;
  out.text(part(name, 0, kept - kept / 2));
  out.put('~');
  out.text(part(name, name.size() - kept / 2));
}

}  // namespace qm::console
