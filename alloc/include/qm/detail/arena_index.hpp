#pragma once
/// The four indexes of an arena over its boundary tags. None of them allocates: the tags are the nodes.
///
///     SizeIndex       free segments by size        bins under a bitmap: one for each small size, then a trie of
///                                                  sizes for each power of two
///     AllocatedIndex  allocated segments by start  a few bins of hashed starts, each a trie
///     SpanIndex       spans by start               a treap
///     AddressIndex    free segments by address     a treap with the largest size below each node; built if it is needed
///
/// A trie branches on the next two bits of the key at each level, so the word size bounds the cost of an operation,
/// whatever the number of nodes. A node may stand anywhere on the path of its key, so no node is a pure branching
/// point.
///
/// Invariants
/// - X1 A bin's bit in SizeIndex::non_empty_ is set iff the bin has a root. In units of the largest power of two that
///      is at most the quantum, bin b < kExact holds segments of b units only, and bin kExact + n holds the sizes
///      [kExact * 2^n, kExact * 2^(n+1)) units.
/// - X2 Segments of one size form one chain of mates. The first is the trie's node; the others have bin == kMate and
///      their predecessor in child[0].
/// - X3 In a treap, no child's priority, which is set when its tag is inserted, is above its parent's, and `largest` is
///      exact.

#include <cstddef>
#include <cstdint>

#include <qm/detail/arena_types.hpp>
#include <qm/detail/bits.hpp>
#include <qm/detail/boundary_tag.hpp>

namespace qm {

class SizeIndex {
 public:
  /// Sets the quantum: all sizes will be multiples of it. Call before the first segment.
  void set_quantum(std::size_t quantum) noexcept { unit_log2_ = floor_log2(quantum); }
  /// Complexity of all: bounded by the word size; constant for sizes below kExact units.
  void insert(BoundaryTag* tag) noexcept;
  void remove(BoundaryTag* tag) noexcept;
  /// Changes the size of @p tag: without moving its node if a segment of the new size may stand there, as is usual for
  /// a large segment.
  void resize(BoundaryTag* tag, std::size_t size) noexcept;
  /// @returns a segment of at least @p size, nullptr if there is none. kInstant: from the first bin in which every
  ///          segment fits, constant time. kBest, and kInstant if these bins are empty: a smallest segment that fits.
  [[nodiscard]] BoundaryTag* find(std::size_t size, Fit fit) const noexcept;
  /// @returns the largest size, 0 if there is none.
  [[nodiscard]] std::size_t largest() const noexcept;
  // The parts that most allocations need, inline: src/segments/size_index.hpp.
  /// As find(), in the exact bins only. @returns nullptr if they have no such segment. @param[out] bin its
  ///          bin.
  [[nodiscard]] BoundaryTag* find_exact(std::size_t size, std::size_t& bin) const noexcept;
  void remove_exact(const BoundaryTag* tag, std::size_t bin) noexcept;
  /// @returns false, and nothing has changed, for a size that has no exact bin.
  bool insert_exact(BoundaryTag* tag) noexcept;
  /// The segment that instant fit finds if the exact bins have none, provided that it is the root of its power of two
  /// and the only one of its size. @returns nullptr otherwise. @param[out] power the power of two, 0 for kExact units.
  [[nodiscard]] BoundaryTag* find_root(std::size_t size, std::size_t& power) const noexcept;
  /// Whether resize() of such a root would only write the size.
  [[nodiscard]] bool root_stays(const BoundaryTag* root, std::size_t size, std::size_t power) const noexcept;
  /// Whether @p tag is in the index at the place for its size.
  [[nodiscard]] bool contains(const BoundaryTag* tag) const noexcept;
  /// Counts the distinct sizes and checks X1. @returns false if it does not hold. O(n).
  [[nodiscard]] bool validate(std::size_t& nodes) const noexcept;

 private:
  static constexpr std::size_t kExact = kWordBits;
  static constexpr std::size_t kExactLog2 = floor_log2(kExact);
  static constexpr std::size_t kBins = kExact + kWordBits - kExactLog2;

  [[nodiscard]] std::size_t bin_of(std::size_t size) const noexcept;
  /// The power of two of a bin: the highest bit of its sizes.
  [[nodiscard]] std::size_t log2_of(std::size_t bin) const noexcept { return bin - (kExact - kExactLog2) + unit_log2_; }
  /// The bits of @p size below that one, shifted to the top of the word.
  [[nodiscard]] std::size_t path_of(std::size_t size, std::size_t bin) const noexcept {
    return size << (kWordBits - 1 - log2_of(bin)) << 1;
  }
  [[nodiscard]] bool keeps_place(const BoundaryTag* tag, std::size_t size) const noexcept;
  [[nodiscard]] bool steps_down(const BoundaryTag* tag, std::size_t size) const noexcept;
  void move(BoundaryTag* tag, std::size_t size) noexcept;
  static void insert_behind(BoundaryTag* tag, BoundaryTag* node) noexcept;
  [[nodiscard]] BoundaryTag* best(std::size_t size) const noexcept;
  [[nodiscard]] BoundaryTag* best_in_bin(std::size_t bin, std::size_t size) const noexcept;
  [[nodiscard]] BoundaryTag** place_of(std::size_t size, std::size_t bin) noexcept;

  unsigned unit_log2_ = 0;
  std::size_t non_empty_[2] = {};  ///< exact bins, powers of two
  BoundaryTag* bins_[kBins] = {};
};

class AllocatedIndex {
 public:
  /// The pointer to the segment that starts at @p start, or the empty pointer at which it would be inserted.
  /// Complexity: bounded by half the bits of a word.
  [[nodiscard]] BoundaryTag** place_of(std::uintptr_t start) noexcept;
  void insert(BoundaryTag* tag) noexcept;
  /// @param[in] place the result of place_of() for a segment in the index.
  static void remove(BoundaryTag** place) noexcept;
  /// O(n).
  [[nodiscard]] std::size_t count() const noexcept;

 private:
  static constexpr unsigned kBinBits = 4;
  [[nodiscard]] static std::size_t path_of(std::uintptr_t start) noexcept;
  BoundaryTag* bins_[1U << kBinBits] = {};
};

class SpanIndex {
 public:
  /// Complexity of all: O(log n) expected.
  void insert(BoundaryTag* tag) noexcept;
  void remove(BoundaryTag* tag) noexcept;
  /// @returns the tag with the lowest start that is at least @p address; nullptr if there is none.
  [[nodiscard]] BoundaryTag* ceiling(std::uintptr_t address) const noexcept;
  /// @returns the tag with the highest start that is at most @p address; nullptr if there is none.
  [[nodiscard]] BoundaryTag* floor(std::uintptr_t address) const noexcept;
  /// Whether @p tag is at the place for its start, and X3 holds on the way there.
  [[nodiscard]] bool contains(const BoundaryTag* tag) const noexcept;

 private:
  [[nodiscard]] BoundaryTag** place_of(const BoundaryTag* tag) noexcept;
  BoundaryTag* root_ = nullptr;
};

class AddressIndex {
 public:
  /// Complexity of all but validate(): O(log n) expected.
  void insert(BoundaryTag* tag) noexcept;
  void remove(BoundaryTag* tag) noexcept;
  /// Called after the size of @p tag has changed from @p before, and perhaps its start, without passing a neighbour.
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
