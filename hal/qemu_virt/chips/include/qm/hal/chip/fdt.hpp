#pragma once
/// A reader of flattened device trees (Devicetree Specification 0.3, chapter 5).
///
///     header | memory reservations | structure block: tokens | strings block
///
/// The blob is untrusted input: every offset and length is checked against the blob before it is used, and a broken
/// tree ends the walk with kBroken. Nothing is copied; names and data refer to the blob, which must outlive them.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

namespace qm::hal {

class Fdt {
 public:
  using Bytes = std::span<const std::byte>;

  enum class Kind : std::uint8_t { kBeginNode, kEndNode, kProperty, kEnd, kBroken };
  struct Token {
    Kind kind = Kind::kBroken;
    std::string_view name;  ///< kBeginNode: the node's name with unit address; kProperty: the property's name
    Bytes data;             ///< kProperty
  };
  struct Reservation {
    std::uint64_t address = 0;
    std::uint64_t bytes = 0;
  };

  /// Walks the tokens in order; after kEnd or kBroken it returns the same again.
  class Cursor {
   public:
    explicit Cursor(const Fdt& tree) noexcept : structure_(tree.structure_), strings_(tree.strings_) {}
    Token next() noexcept;

   private:
    Token broken() noexcept;

    Bytes structure_, strings_;
    std::size_t at_ = 0;
    unsigned depth_ = 0;
    Kind over_ = Kind::kEndNode;  // kEnd or kBroken once the walk is over
  };

  /// The size that the blob at @p start declares. Reads 8 bytes. @returns 0 if it is not a device tree.
  [[nodiscard]] static std::size_t declared_bytes(const void* start) noexcept;

  /// @returns nothing if @p blob is shorter than it declares, has an incompatible version (not 16, 17 or compatible),
  ///          or has a block that lies outside it.
  [[nodiscard]] static std::optional<Fdt> open(Bytes blob) noexcept;

  /// The i-th memory reservation; nothing after the last.
  [[nodiscard]] std::optional<Reservation> reservation(std::size_t index) const noexcept;

 private:
  Fdt() noexcept = default;
  Bytes reservations_, structure_, strings_;
};

/// The 32-bit big-endian number at @p offset of @p data; 0 if it does not lie inside.
[[nodiscard]] std::uint32_t fdt_u32(Fdt::Bytes data, std::size_t offset) noexcept;

/// The number in @p cells 32-bit cells at @p offset; 0 if it does not lie inside or has more than 2 cells.
[[nodiscard]] std::uint64_t fdt_cells(Fdt::Bytes data, std::size_t offset, unsigned cells) noexcept;

/// The first string of a string list, without its final zero.
[[nodiscard]] std::string_view fdt_string(Fdt::Bytes data) noexcept;

/// Whether the string list @p data contains @p wanted.
[[nodiscard]] bool fdt_has_string(Fdt::Bytes data, std::string_view wanted) noexcept;

}  // namespace qm::hal
