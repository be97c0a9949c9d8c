#pragma once
/// Rows of reports, as a target sends them to a program that has asked for rows instead of text.

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
    std::uint64_t number = 0;  ///< of a change as it is: a std::int64_t
    std::string text;
  };
  std::string kind;
  std::vector<Field> fields;

  /// @returns the field called @p name; nullptr if there is none.
  [[nodiscard]] const Field* find(std::string_view name) const noexcept;
  /// @returns its number, and its text; 0 and nothing where there is no such field.
  [[nodiscard]] std::uint64_t number(std::string_view name) const noexcept;
  [[nodiscard]] std::string_view text(std::string_view name) const noexcept;
};

/// Reads the payload of a row frame. @returns false if it is malformed.
[[nodiscard]] bool read_row(std::span<const std::uint8_t> payload, ReportRow& row);

/// Writes rows as JSON, an object a line: `{"row":"cache","name":"packet","size_bytes":512}`. Rows of the kind `frame`
/// become the list `frames` of the row before them. An address is a text of hexadecimal digits.
class JsonRows {
 public:
  /// Takes the next row. @returns the lines that are complete by now.
  std::string add(const ReportRow& row);
  /// After the last one. @returns the rest.
  std::string finish();

 private:
  std::string open_;  ///< a row without its end
  bool in_frames_ = false;
};

}  // namespace qm::host
