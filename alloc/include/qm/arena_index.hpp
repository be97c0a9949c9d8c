#pragma once
/// The three indexes of an arena over its boundary tags. None of them allocates: the nodes are the tags.
///
///     SizeIndex       free segments by size        a bitmap of power-of-two bins, each a bitwise trie of sizes
///     AllocatedIndex  allocated segments by start  a few bins of hashed starts, each a bitwise trie
///     AddressIndex    free segments by address     a treap with the largest size below each node; spans have one too
///
/// A bitwise trie branches on one bit of the key a level, so an operation is bounded by the word size whatever the number
/// of nodes; any node may stand anywhere on the path of its key, so none is made of branching points alone.
///
/// Invariants
/// - X1 Bit b of SizeIndex::non_empty_ is set iff bin b has a root; bin b holds sizes in [2^b, 2^(b+1)).
/// - X2 Segments of one size are one ring; exactly one of them is the trie's node, the others have slot == nullptr.
/// - X3 In a treap no kid's priority (drawn when its tag goes in) is above its parent's, and `largest` is exact.

#include <cstddef>
#include <cstdint>

#include <qm/bits.hpp>
#include <qm/boundary_tag.hpp>

namespace qm {

class SizeIndex {
 public:
  /// Complexity of all: bounded by the word size.
  void insert(BoundaryTag* tag) noexcept;
  void remove(BoundaryTag* tag) noexcept;
  /// Gives @p tag another size. Constant where it is alone in its bin before and after, as the rest of a large range is.
  void resize(BoundaryTag* tag, std::size_t size) noexcept;
  /// @returns a segment that fits, from the first bin in which every segment does; nullptr if that and those above are
  ///          empty. Constant.
  [[nodiscard]] BoundaryTag* instant(std::size_t size) const noexcept;
  /// @returns a smallest segment of at least @p size; nullptr if there is none.
  [[nodiscard]] BoundaryTag* best(std::size_t size) const noexcept;
  /// Whether @p tag is in the index where its size says.
  [[nodiscard]] bool contains(const BoundaryTag* tag) const noexcept;
  /// Counts the distinct sizes and checks X1 and the links. @returns false if they do not hold. O(n).
  [[nodiscard]] bool validate(std::size_t& nodes) const noexcept;

 private:
  [[nodiscard]] BoundaryTag* best_in_bin(unsigned bin, std::size_t size) const noexcept;
  std::size_t non_empty_ = 0;
  BoundaryTag* bins_[kWordBits] = {};
};

class AllocatedIndex {
 public:
  void insert(BoundaryTag* tag) noexcept;
  void remove(BoundaryTag* tag) noexcept;
  /// @returns the segment that starts at @p start; nullptr if none does.
  [[nodiscard]] BoundaryTag* find(std::uintptr_t start) const noexcept;
  /// Counts the segments and checks the links. @returns false if they do not hold. O(n).
  [[nodiscard]] bool validate(std::size_t& nodes) const noexcept;

 private:
  static constexpr unsigned kBinBits = 4;
  BoundaryTag* bins_[1U << kBinBits] = {};
};

class AddressIndex {
 public:
  /// Complexity of all but validate(): O(log n) expected.
  void insert(BoundaryTag* tag) noexcept;
  void remove(BoundaryTag* tag) noexcept;
  /// The size of @p tag has changed from @p before, and its start perhaps, without overtaking a neighbour.
  void resized(BoundaryTag* tag, std::size_t before) noexcept;
  /// @returns the tag with the highest start that is at most @p address; nullptr if there is none.
  [[nodiscard]] BoundaryTag* floor(std::uintptr_t address) const noexcept;
  /// @returns the tag with the lowest start that is at least @p address and a size of at least @p size.
  [[nodiscard]] BoundaryTag* first_fit(std::uintptr_t address, std::size_t size) const noexcept;
  /// @returns the largest size in the index, 0 if it is empty. Constant.
  [[nodiscard]] std::size_t largest() const noexcept { return root_ == nullptr ? 0 : root_->largest; }
  /// Counts the tags and checks order and X3. @returns false if they do not hold. O(n).
  [[nodiscard]] bool validate(std::size_t& count) const noexcept;

 private:
  static void split(BoundaryTag* rest, BoundaryTag* tag) noexcept;
  [[nodiscard]] std::uint32_t draw() noexcept;
  BoundaryTag* root_ = nullptr;
  std::uint32_t random_ = 1;  ///< state of draw(), never 0
};

}  // namespace qm
