#pragma once
/// The leak scan at work. scan.cpp has the pause and the steps before and after it, scan_walk.cpp finds what is live,
/// scan_mark.cpp marks the reachable objects and collects the others.
///
///     enter_containers()    slabs of all caches and spans of all arenas: no user allocated their memory
///     enter_objects()       the objects that the slab layers and the arenas have allocated
///     leave_out_idle()      minus those in magazines, depots, reserves and quarantines
///     mark_roots()          every word of the roots, and of the objects that they lead to
///     find_heads()          among the rest: candidates, none of which leads to a later one
///     count_groups()        from the last candidate to the first: the heads, by origin, with the objects they lead to
///
/// All of it runs while the harts stand still, so no lock is held and no per-hart cache is half changed. What an
/// interrupted operation has in hand - an object, a magazine, a batch on its stack - is on a stack or in a register.

#include <array>

#include <qm/hal/hart.hpp>
#include <qm/scan.hpp>

#include "scan/scan_map.hpp"

namespace qm {
class Arena;
class Cache;
class SlabLayer;
struct Magazine;
struct Slab;
}  // namespace qm

namespace qm::scan {

class Scanner final : public Roots {
 public:
  static constexpr unsigned kHardwareWords = 8;  ///< of a hart

  /// Starts again in [start, start + bytes).
  void begin(std::uintptr_t start, std::size_t bytes) noexcept;
  [[nodiscard]] static std::size_t fixed_bytes() noexcept;
  /// The largest free segment of base_arena(), which stays free.
  [[nodiscard]] MemoryRange find_free() noexcept;
  /// Notes the words that the hardware of a hart holds. On that hart, interrupts masked.
  void note_hardware(unsigned hart) noexcept;
  /// Runs all steps. @param[in] sp of the running context.
  Status run(std::uintptr_t sp) noexcept;

  LeakSummary summary;
  [[nodiscard]] std::span<const LeakGroup> groups() const noexcept { return {groups_, group_count_}; }
  /// Clears the groups. Their examples are addresses of leaked objects: in memory that its next owner does not clear,
  /// they would keep the objects in a later scan.
  void forget_groups() noexcept;

  // Roots
  void range(std::uintptr_t low, std::uintptr_t high) noexcept override;
  void word(std::uintptr_t value) noexcept override { look(value); }
  void stack(const hal::StackBounds& whole, std::uintptr_t sp) noexcept override;

  /// Whether an address can be read: it lies in a memory region, or in memory that the platform has named.
  static bool is_memory(std::uintptr_t start, std::size_t bytes) noexcept;

 private:
  enum class Phase : std::uint8_t { kStacks, kRoots, kHeads, kCounts };

  // scan_walk.cpp
  void enter_containers() noexcept;
  void enter_objects() noexcept;
  void leave_out_idle() noexcept;
  void mark_held_by_allocator() noexcept;
  template <class T, class Action>
  void for_each(const Action& action) noexcept;
  template <class Action>
  void for_each_slab(Cache& cache, const Action& action) noexcept;
  template <class Action>
  void for_each_slab_in(Cache& cache, Slab* first, const Action& action) noexcept;
  [[nodiscard]] static bool is_own(const Cache& cache) noexcept;
  [[nodiscard]] static bool is_of_magazines(const Cache& cache) noexcept;
  [[nodiscard]] bool is_classified(const Cache& cache, const Slab& slab) const noexcept;
  void enter_slab(Cache& cache, Slab& slab, bool as_roots) noexcept;
  template <class Action>
  void for_each_block(Arena& arena, const Action& action) noexcept;
  template <class Action>
  void for_each_segment(Arena& arena, const Action& action) noexcept;
  void enter_arena(Arena& arena, bool as_roots) noexcept;
  [[nodiscard]] bool holds_others(const Arena& arena, std::uintptr_t start) noexcept;
  template <class Action>
  void show_magazine(Cache& cache, Magazine* magazine, void** end, const Action& action) noexcept;
  [[nodiscard]] static bool is_magazine(const Magazine* magazine) noexcept;
  template <class Action>
  void show_list(Cache& cache, Magazine* first, const Action& action) noexcept;
  template <class AnyDepot, class Action>
  void show_depot(Cache& cache, AnyDepot& depot, const Action& action) noexcept;
  template <class Action>
  void for_each_magazine(Cache& cache, const Action& action) noexcept;
  /// Calls @p action with each object that is allocated from its slab and not in use.
  template <class Action>
  void for_each_idle(Cache& cache, const Action& action) noexcept;
  [[nodiscard]] bool is_idle(Cache& cache, std::uintptr_t object) noexcept;
  void damage(const char* what) noexcept {
    if (summary.damaged == nullptr) summary.damaged = what;
  }

  // scan_mark.cpp
  void mark_roots(std::uintptr_t sp) noexcept;
  void look(std::uintptr_t value) noexcept;
  void look_up(std::uintptr_t value) noexcept;
  void reach(const Place& place) noexcept;
  void look_inside() noexcept;
  void look_into(const Place& place) noexcept;
  void look_at_words(std::uintptr_t low, std::uintptr_t high) noexcept;
  void hold(std::uintptr_t address) noexcept;
  void count_live() noexcept;
  void find_heads() noexcept;
  void count_groups() noexcept;
  void count_head(const Place& place) noexcept;
  void sort_groups() noexcept;
  template <class Action>
  void for_each_object(Page::Bits Page::*which, const Action& action) noexcept;
  [[nodiscard]] LeakGroup& group_of(const Place& place, std::size_t bytes) noexcept;
  [[nodiscard]] Cache* cache_of(const Place& place) noexcept;

  ObjectMap map_;
  std::uintptr_t work_low_ = 0;
  std::uintptr_t work_high_ = 0;
  LeakGroup* groups_ = nullptr;
  std::size_t group_count_ = 0;
  Phase phase_ = Phase::kRoots;
  LeakGroup* head_group_ = nullptr;
  std::array<std::array<std::uintptr_t, kHardwareWords>, hal::Port::kMaxHarts> hardware_{};
  std::array<std::uint8_t, hal::Port::kMaxHarts> hardware_words_{};
};

/// The declared roots, and the platform; nullptr: none. Only while the harts stand still.
[[nodiscard]] const qm_scan_root* first_root() noexcept;
[[nodiscard]] const Platform* platform() noexcept;

}  // namespace qm::scan
