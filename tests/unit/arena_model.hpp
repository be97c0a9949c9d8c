#pragma once
/// The slow, obviously correct model of an arena over small integers, with one cell for each integer.

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>

namespace qm::test {

/// The state of each integer in one arena: free or not, and the ends of spans, which separate free segments.
class ArenaMap {
 public:
  static constexpr std::uintptr_t kUnits = 256;  ///< size of the model: integers 0 to kUnits - 1

  void clear() {
    for (std::uintptr_t unit = 0; unit <= kUnits; ++unit) free_[unit] = edge_[unit] = false;
  }
  /// Adds a span [low, high), all of it free. Call settle() after changes.
  void add_span(std::uintptr_t low, std::uintptr_t high) {
    set(low, high - low, true);
    edge_[low] = edge_[high] = true;
  }
  void set(std::uintptr_t start, std::size_t size, bool free) {
    for (std::uintptr_t unit = start; unit < start + size; ++unit) free_[unit] = free;
  }
  void settle() {
    free_count_ = largest_ = 0;
    run_[kUnits] = 0;
    for (std::uintptr_t unit = kUnits; unit-- > 0;) {
      run_[unit] = static_cast<std::uint16_t>(!free_[unit] ? 0 : edge_[unit + 1] ? 1 : run_[unit + 1] + 1);
      free_count_ += free_[unit];
      if (run_[unit] > largest_) largest_ = run_[unit];
    }
  }

  /// @returns the number of free integers from @p start to the end of the free segment there.
  [[nodiscard]] std::size_t run(std::uintptr_t start) const { return start < kUnits ? run_[start] : 0; }
  [[nodiscard]] bool is_free(std::uintptr_t start, std::size_t size) const { return size != 0 && run(start) >= size; }
  /// Whether [start, start + size) is free, regardless of spans.
  [[nodiscard]] bool is_all_free(std::uintptr_t start, std::size_t size) const {
    for (std::uintptr_t unit = start; unit < start + size; ++unit) {
      if (unit >= kUnits || !free_[unit]) return false;
    }
    return true;
  }
  [[nodiscard]] bool has_edge(std::uintptr_t at) const { return edge_[at]; }
  [[nodiscard]] bool begins_segment(std::uintptr_t at) const {
    return free_[at] && (at == 0 || edge_[at] || !free_[at - 1]);
  }
  /// @returns the size of the free segment that contains @p start.
  [[nodiscard]] std::size_t segment_at(std::uintptr_t start) const {
    while (!begins_segment(start)) --start;
    return run(start);
  }
  /// @returns the size of the smallest free segment of at least @p size; 0 if there is none.
  [[nodiscard]] std::size_t smallest(std::size_t size) const {
    std::size_t best = 0;
    for (std::uintptr_t unit = 0; unit < kUnits; ++unit) {
      if (begins_segment(unit) && run(unit) >= size && (best == 0 || run(unit) < best)) best = run(unit);
    }
    return best;
  }
  [[nodiscard]] std::size_t count_free() const { return free_count_; }
  [[nodiscard]] std::size_t largest() const { return largest_; }

 private:
  bool free_[kUnits + 1] = {};
  bool edge_[kUnits + 1] = {};
  std::uint16_t run_[kUnits + 1] = {};
  std::size_t free_count_ = 0;
  std::size_t largest_ = 0;
};

/// Whether [start, start + size) satisfies @p c, in the words of the documentation.
inline bool meets(std::uintptr_t start, std::size_t size, const Constraint& c) {
  if (c.align > 1 && start % c.align != c.phase) return false;
  if (c.nocross != 0 && start / c.nocross != (start + size - 1) / c.nocross) return false;
  return start >= c.min && (c.max == 0 || start + size <= c.max);
}

/// Tries every start in an arena of @p quantum.
/// @returns the lowest one at or above @p from that satisfies @p c and at which @p size is free in @p map; 0 if there
///          is none.
inline std::uintptr_t lowest_start(const ArenaMap& map, std::size_t quantum, std::size_t size, const Constraint& c,
                                   std::uintptr_t from = 0) {
  for (std::uintptr_t start = quantum; start < ArenaMap::kUnits; start += quantum) {
    if (start >= from && map.is_free(start, size) && meets(start, size, c)) return start;
  }
  return 0;
}

/// The same through importers: the range that must be free is rounded outwards to the quantum of each arena, from the
/// innermost one to the source, whose map is @p map.
inline bool possible_through(const ArenaMap& map, const std::size_t* quanta, std::size_t arenas, std::size_t size,
                             const Constraint& c) {
  for (std::uintptr_t start = quanta[0]; start < ArenaMap::kUnits; start += quanta[0]) {
    std::uintptr_t low = start;
    std::uintptr_t high = start + size;
    for (std::size_t i = 0; i < arenas; ++i) {
      low -= low % quanta[i];
      high = (high + quanta[i] - 1) / quanta[i] * quanta[i];
    }
    if (map.is_free(low, high - low) && meets(start, size, c)) return true;
  }
  return false;
}

}  // namespace qm::test
