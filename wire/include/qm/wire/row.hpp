#pragma once
/// One row of a report: the payload of a row frame. docs/protocol.md has every byte and the list of rows.
///
///     u8    form (1)
///     text  kind: what the row describes
///     fields up to the end:  text name | u8 type | value by its type
///
/// A row has the names of its fields. So a host needs no table to read a row, and accepts fields that it does not know.

#include <cstdint>
#include <span>
#include <string_view>

#include <qm/wire/bytes.hpp>

namespace qm::wire {

inline constexpr std::uint8_t kRowForm = 1;

enum class FieldType : std::uint8_t {
  kNumber = 0,   ///< varint
  kChange = 1,   ///< zigzag
  kText = 2,     ///< text
  kAddress = 3,  ///< varint
};

class RowWriter {
 public:
  RowWriter(std::span<std::uint8_t> out, std::string_view kind) noexcept : out_(out) {
    out_.byte(kRowForm);
    out_.text(kind);
  }
  void number(std::string_view name, std::uint64_t value) noexcept {
    add(name, FieldType::kNumber, [=](ByteWriter& out) { out.varint(value); });
  }
  void change(std::string_view name, std::int64_t value) noexcept {
    add(name, FieldType::kChange, [=](ByteWriter& out) { out.zigzag(value); });
  }
  void address(std::string_view name, std::uint64_t value) noexcept {
    add(name, FieldType::kAddress, [=](ByteWriter& out) { out.varint(value); });
  }
  void text(std::string_view name, std::string_view value) noexcept {
    add(name, FieldType::kText, [=](ByteWriter& out) { out.text(value); });
  }
  [[nodiscard]] std::span<const std::uint8_t> written() const noexcept { return out_.written(); }
  /// @returns whether every field fitted; one that did not is left out.
  [[nodiscard]] bool whole() const noexcept { return whole_; }

 private:
  template <class Value>
  void add(std::string_view name, FieldType type, Value value) noexcept {
    const std::size_t before = out_.written().size();
    out_.text(name);
    out_.byte(static_cast<std::uint8_t>(type));
    value(out_);
    if (out_.fits()) return;
    out_.rewind(before);
    whole_ = false;
  }

  ByteWriter out_;
  bool whole_ = true;
};

struct Field {
  std::string_view name;
  FieldType type = FieldType::kNumber;
  std::uint64_t number = 0;  ///< for kChange the bits of a std::int64_t
  std::string_view text;
};

/// Reads a row in place; texts refer to the payload.
class RowReader {
 public:
  explicit RowReader(std::span<const std::uint8_t> payload) noexcept : in_(payload) {
    if (in_.byte() != kRowForm) in_.fail();
    kind_ = in_.text();
  }
  [[nodiscard]] std::string_view kind() const noexcept { return kind_; }
  /// @returns false at the end, and if the row is malformed.
  bool next(Field& field) noexcept {
    if (in_.left() == 0) return false;
    field = {};
    field.name = in_.text();
    field.type = static_cast<FieldType>(in_.byte());
    switch (field.type) {
      case FieldType::kNumber:
      case FieldType::kAddress: field.number = in_.varint(); break;
      case FieldType::kChange: field.number = static_cast<std::uint64_t>(in_.zigzag()); break;
      case FieldType::kText: field.text = in_.text(); break;
      default: in_.fail();
    }
    return in_.good();
  }
  /// @returns whether all fields read so far were well formed.
  [[nodiscard]] bool good() const noexcept { return in_.good(); }

 private:
  ByteReader in_;
  std::string_view kind_;
};

}  // namespace qm::wire
