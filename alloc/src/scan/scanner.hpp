#pragma once
/// The leak scan at work. scan.cpp has the pause and the steps before and after it, scan_walk.cpp finds what is live,
/// scan_mark.cpp marks the reachable objects and collects the others, scan_sliced.cpp repeats this beside running harts.
///
///     enter_containers()    slabs of all caches and spans of all arenas: no user allocated their memory
///     enter_objects()       the objects that the slab layers and the arenas have allocated
///     leave_out_idle()      minus those in magazines, depots, reserves and quarantines
///     mark_roots()          every word of the roots, and of the objects that they lead to
///     find_heads()          among the rest: candidates, none of which leads to a later one
///     count_groups()        from the last candidate to the first: the heads, by origin, with the objects they lead to
///
/// In a stopped scan all of it runs while the harts stand still, so no lock is held and no per-hart cache is half
/// changed. What an interrupted operation has in hand - an object, a magazine, a batch on its stack - is on a stack or
/// in a register.
///
/// A sliced scan makes a pass of the first four steps again and again, and the last two at the end. The harts run: what
/// a pass reads changes meanwhile, so it may miss objects that are in use. See scan_sliced.cpp.

#include <array>
#include <cstddef>
#include <cstdint>

#include <qm/detail/poison.hpp>
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

/// Words are read as they lie in memory, whatever their type.
using AnyWord [[gnu::may_alias]] = std::uintptr_t;

using poison::glance;

class Scanner final : public Roots {
 public:
  static constexpr unsigned kHardwareWords = 8;  ///< of a hart

  /// The scanner of the scan that is under way.
  [[nodiscard]] static Scanner& the() noexcept;
  /// Starts again in [start, start + bytes).
  void begin(std::uintptr_t start, std::size_t bytes) noexcept;
  /// Starts again in @p bytes of memory from base_arena(). @returns false without memory, and if the memory of the scan
  ///          was given to it.
  [[nodiscard]] bool begin_with(std::size_t bytes) noexcept;
  [[nodiscard]] static std::size_t fixed_bytes() noexcept;
  /// The largest free segment of base_arena(), which stays free.
  [[nodiscard]] MemoryRange find_free() noexcept;
  /// Notes the words that the hardware of a hart holds. On that hart, interrupts masked.
  void note_hardware(unsigned hart) noexcept;
  /// Runs all steps. @param[in] sp of the running context.
  Status run(std::uintptr_t sp) noexcept;

  // scan_sliced.cpp

  /// Bytes that a sliced scan needs besides fixed_bytes() and the Pages.
  [[nodiscard]] static std::size_t sliced_bytes(std::size_t pages) noexcept;
  /// Begins a sliced scan, after begin().
  void begin_sliced() noexcept;
  /// Copies the saved registers of a hart that was interrupted. On that hart, interrupts masked.
  void note_registers(unsigned hart) noexcept;
  /// Notes the roots for the next pass. While the harts stand still.
  void note_roots(std::uintptr_t sp) noexcept;
  /// A pass. @returns kOk, kNoMemory, kMismatch or kInvalid.
  Status pass() noexcept;
  /// Whether enough passes in a row have found the same objects unreached.
  [[nodiscard]] bool is_settled() const noexcept {
    return has_candidates_ && (candidates_ == 0 || quiet_ >= kQuietPasses);
  }
  /// Whether too many passes in a row did not see all slabs.
  [[nodiscard]] bool gave_up() const noexcept { return partial_ == kMostPartial; }
  /// The steps after the last pass.
  void finish() noexcept;

  LeakSummary summary;
  [[nodiscard]] std::span<const LeakGroup> groups() const noexcept { return {groups_, group_count_}; }
  /// Clears the groups and the candidates. They have addresses of leaked objects: in memory that its next owner does
  /// not clear, they would keep the objects in a later scan.
  void forget() noexcept;

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
  template <class Action>
  void for_each_copy(Cache& cache, const Action& action) noexcept;
  [[nodiscard]] static bool is_own(const Cache& cache) noexcept;
  [[nodiscard]] static bool is_of_magazines(const Cache& cache) noexcept;
  [[nodiscard]] bool is_classified(const Cache& cache, const Slab& slab) const noexcept;
  void enter_slab(Cache& cache, Slab& slab, bool as_roots) noexcept;
  template <class Action>
  void for_each_block(Arena& arena, const Action& action) noexcept;
  template <class Action>
  void for_each_segment(Arena& arena, const Action& action) noexcept;
  template <class Action>
  void for_each_shown(Arena& arena, const Action& action) noexcept;
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
  template <class Action>
  void for_each_at_hand(Cache& cache, const Action& action) noexcept;
  template <class Action>
  void for_each_stored(const Action& action) noexcept;
  [[nodiscard]] bool is_idle(Cache& cache, std::uintptr_t object) noexcept;
  void leave_out(std::uintptr_t idle) noexcept;
  void leave_out_beside_running_harts() noexcept;
  void damage(const char* what) noexcept {
    if (summary.damaged == nullptr) summary.damaged = what;
  }

  // scan_mark.cpp
  void mark_roots(std::uintptr_t sp) noexcept;
  void look(std::uintptr_t value) noexcept;
  void look_up(std::uintptr_t value) noexcept;
  bool meet_again(std::uintptr_t value) noexcept;
  void reach(const Place& place) noexcept;
  void look_inside() noexcept;
  void look_into(const Place& place) noexcept;
  [[nodiscard]] static bool is_block(const Page& page) noexcept;
  [[nodiscard]] static bool is_still_block(std::uintptr_t start, std::uintptr_t end) noexcept;
  void look_at_words(std::uintptr_t low, std::uintptr_t high) noexcept;
  void hold(std::uintptr_t address) noexcept;
  // scan_sliced.cpp
  struct NotedRoot;
  class RootNotes;
  void note_candidates() noexcept;
  void drop_candidates() noexcept;
  void mark_noted() noexcept;
  [[nodiscard]] static bool is_guarded(std::uintptr_t low) noexcept;
  void read_guarded(std::uintptr_t low, std::uintptr_t high) noexcept;

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

  static constexpr unsigned kQuietPasses = 16;
  static constexpr unsigned kRegisterWords = 128;
  static constexpr unsigned kMostPartial = 100;
  bool is_sliced_ = false;
  bool is_partial_ = false;  ///< the pass has not seen all slabs
  bool has_bad_root_ = false;
  bool has_candidates_ = false;      ///< a pass has found them
  unsigned quiet_ = 0;               ///< passes in a row after which no candidate was dropped
  unsigned partial_ = 0;             ///< passes in a row that have not seen all slabs
  std::size_t candidates_ = 0;       ///< objects that no pass has reached
  std::size_t noted_ = 0;            ///< roots for this pass
  std::size_t lacking_ = 0;          ///< bytes that candidates or roots need in addition
  std::uintptr_t* saved_ = nullptr;  ///< registers, kRegisterWords a hart
  std::uintptr_t map_start_ = 0;     ///< where the map begins; in a sliced scan the candidates and the roots precede it
  std::array<std::uint8_t, hal::Port::kMaxHarts> saved_words_{};
};

/// Calls @p action with each object that has a bit in @p which, in the order of the Pages.
template <class Action>
void Scanner::for_each_object(Page::Bits Page::*which, const Action& action) noexcept {
  for (Page* page = map_.begin_pages(); page != map_.end_pages(); ++page) {
    for (unsigned word = 0; word < Page::kWords; ++word) {
      for (std::size_t left = (page->*which)[word]; left != 0; left &= left - 1) {
        const unsigned bit = word * kWordBits + lowest_bit(left);
        if (Page::has(page->*which, bit)) action(Place{page, bit});  // an action may have cleared it
      }
    }
  }
}

/// Saves the callee-saved registers in @p words. @returns the stack pointer: the stack has all of them from there on.
[[gnu::always_inline]] inline std::uintptr_t spill_registers(std::uintptr_t (&words)[16]) noexcept {
#if defined(__riscv)
#if __riscv_xlen == 64
#define QM_SPILL "sd"
#define QM_WORD "8"
#else
#define QM_SPILL "sw"
#define QM_WORD "4"
#endif
  std::uintptr_t sp;
  asm volatile(QM_SPILL " s0, 0*" QM_WORD "(%1)\n\t" QM_SPILL " s1, 1*" QM_WORD "(%1)\n\t" QM_SPILL " s2, 2*" QM_WORD
                        "(%1)\n\t" QM_SPILL " s3, 3*" QM_WORD "(%1)\n\t" QM_SPILL " s4, 4*" QM_WORD "(%1)\n\t" QM_SPILL
                        " s5, 5*" QM_WORD "(%1)\n\t" QM_SPILL " s6, 6*" QM_WORD "(%1)\n\t" QM_SPILL " s7, 7*" QM_WORD
                        "(%1)\n\t" QM_SPILL " s8, 8*" QM_WORD "(%1)\n\t" QM_SPILL " s9, 9*" QM_WORD "(%1)\n\t" QM_SPILL
                        " s10, 10*" QM_WORD "(%1)\n\t" QM_SPILL " s11, 11*" QM_WORD
                        "(%1)\n\t"
                        "mv %0, sp"
               : "=&r"(sp)
               : "r"(&words[0])
               : "memory");
  return sp;
#else
  __builtin_unwind_init();
  return reinterpret_cast<std::uintptr_t>(&words);
#endif
}

/// The declared roots, and the platform; nullptr: none. Only while the harts stand still.
[[nodiscard]] const qm_scan_root* first_root() noexcept;
[[nodiscard]] const Platform* platform() noexcept;

}  // namespace qm::scan
