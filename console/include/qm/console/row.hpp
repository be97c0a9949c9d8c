#pragma once
/// A row of a report, for a program that has asked for rows instead of text.
///
///     if (ReportRow::wanted(call)) {
///       ReportRow(call, "cache").text("name", name).number("used_bytes", used);
///     } else {
///       call.print(...);
///     }

#include <cstdint>
#include <string_view>

#include <qm/console/command.hpp>
#include <qm/console/console.hpp>
#include <qm/wire/row.hpp>

namespace qm::console {

class ReportRow {
 public:
  /// Most bytes of a row; a field that finds no room is left out.
  static constexpr std::size_t kMaxBytes = 400;

  /// Whether what is printed to @p out goes to such a program.
  [[nodiscard]] static bool wanted(const Console& console, const Output& out) noexcept {
    return console.wants_rows(out);
  }
  [[nodiscard]] static bool wanted(Invocation& call) noexcept { return wanted(call.console(), call.out()); }

  ReportRow(Console& console, Output& out, std::string_view kind) noexcept
      : console_(console), out_(out), row_(buffer_, kind) {}
  ReportRow(Invocation& call, std::string_view kind) noexcept : ReportRow(call.console(), call.out(), kind) {}
  /// Sends it.
  ~ReportRow() { console_.send_row(out_, row_.written()); }
  ReportRow(const ReportRow&) = delete;
  ReportRow& operator=(const ReportRow&) = delete;

  ReportRow& number(std::string_view name, std::uint64_t value) noexcept {
    row_.number(name, value);
    return *this;
  }
  ReportRow& change(std::string_view name, std::int64_t value) noexcept {
    row_.change(name, value);
    return *this;
  }
  ReportRow& text(std::string_view name, std::string_view value) noexcept {
    row_.text(name, value);
    return *this;
  }
  ReportRow& address(std::string_view name, std::uintptr_t value) noexcept {
    row_.address(name, value);
    return *this;
  }

 private:
  Console& console_;
  Output& out_;
  std::uint8_t buffer_[kMaxBytes];
  wire::RowWriter row_;
};

}  // namespace qm::console
