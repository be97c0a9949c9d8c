#pragma once
/// Rows of reports. A target sends them to a program that requested rows instead of text.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <qm/wire/row.hpp>

namespace qm::host {

struct ReportRow {
  struct Field {
    std::string name;
    wire::FieldType type = wire::FieldType::kNumber;
    std::uint64_t number = 0;  ///< a change is a std::int64_t, converted
    std::string text;
  };
  std::string kind;
  std::vector<Field> fields;

  /// @returns the field called @p name; nullptr if there is none.
  [[nodiscard]] const Field* find(std::string_view name) const noexcept;
  /// @returns the number, or the text, of the field @p name; 0, or an empty text, if there is no such field.
  [[nodiscard]] std::uint64_t number(std::string_view name) const noexcept;
  [[nodiscard]] std::string_view text(std::string_view name) const noexcept;
};

/// Reads the payload of a row frame. @returns false if it is malformed.
[[nodiscard]] bool read_row(std::span<const std::uint8_t> payload, ReportRow& row);

/// Writes rows as JSON, one object on each line: `{"row":"cache","name":"packet","size_bytes":512}`. Rows of the kind
/// `frame` become the list `frames` of the row before them. An address is a string of hexadecimal digits.
class JsonRows {
 public:
  /// Adds the next row. @returns the lines that are now complete.
  std::string add(const ReportRow& row);
  /// Call after the last row. @returns the remaining text.
  std::string finish();

 private:
  std::string open_;  ///< the line of a row that is not complete yet
  bool in_frames_ = false;
};

}  // namespace qm::host
