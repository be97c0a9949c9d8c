#pragma once
/// The leak scan: finds the objects to which no pointer leads any more. It needs no trace, neither now nor earlier.
///
///     LeakScan scan;
///     if (scan.run() == Status::kOk) for (const LeakGroup& group : scan.groups()) ...
///
/// The other harts stand still during run(); scan.summary() says how long. run_sliced() finds the same on a system that
/// cannot be stopped.
///
/// The scan starts at the roots: data, bss, stacks, registers, and the roots of add_root(). It follows every word that
/// may be a pointer through all objects that users hold. Objects that it does not reach are leaked. Of a leaked list or
/// tree only the head is reported; the other objects count under it. A cycle has one head.
///
/// A pointer into an object keeps it, just as a pointer to its start does. Idle objects in magazines, depots and slabs
/// are neither reported nor read, and neither is the allocator's own memory.
///
/// In doubt an object is not reported: a number that happens to be an object's address keeps the object.
///
/// Limits: these are roots and never reported: pages allocated directly from base_arena(), objects whose alignment is
/// below kScanAlignment, and objects of caches over memory that was not given to the allocator, unless they are
/// no-touch. Arenas over such memory are not examined.
///
/// Source: Boehm and Weiser 1988 for the marking; illumos' findleaks for the reports.

#include <cstddef>
#include <cstdint>
#include <span>

#include <qm/hal/port.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/scan.h>
#include <qm/status.hpp>
#include <qm/system.hpp>
#include <qm/detail/traceable.hpp>

namespace qm {

struct CallSite;

namespace scan {

/// Least alignment of objects that a scan examines.
inline constexpr std::size_t kScanAlignment = 8;

/// Receives the roots of a platform. The cost of a call is small against that of the words it names.
class Roots {
 public:
  /// A range of memory that the scan reads word by word.
  virtual void range(std::uintptr_t low, std::uintptr_t high) noexcept = 0;
  /// The value of a register.
  virtual void word(std::uintptr_t value) noexcept = 0;
  /// A stack that is in use from @p sp on. If the stack is itself an object, the object is kept, and words below @p sp
  /// keep nothing.
  virtual void stack(const hal::StackBounds& whole, std::uintptr_t sp) noexcept = 0;

 protected:
  ~Roots() = default;
};

/// The firmware's part of a scan, set once.
struct Platform {
  /// Names data and bss except the allocator's own, and all stacks with the registers saved on them. Called while the
  /// harts stand still, on the hart that scans: interrupts masked, must not allocate. In a panic (hal::in_panic()) it
  /// names the stack and the registers of the context that panicked too. @param[in] sp stack pointer of the running
  /// context: its stack is in use from there on.
  void (*visit)(Roots& roots, std::uintptr_t sp) noexcept = nullptr;
  /// For a scan in a panic: a hart that is not halted at an interrupt, so that it may hold a lock of the allocator or
  /// have registers that visit() does not name; hal::BroadcastResult::kNobody: none. nullptr: there never is one.
  unsigned (*busy_hart)() noexcept = nullptr;
  /// Readable memory outside the allocator's memory regions; empty: all but address 0.
  std::span<const MemoryRange> memory = {};
};
/// @param[in] platform must live as long as scans run; nullptr: none any more.
void set_platform(const Platform* platform) noexcept;

/// Gives scans memory to work in, for a system whose own memory may be used up. Without it a scan allocates pages from
/// base_arena() and frees them afterwards. The memory may lie anywhere; it is no root. {0, 0}: no more.
/// @returns kInvalid for an invalid range.
Status set_memory(const MemoryRange& memory) noexcept;

/// Declares a root: see <qm/scan.h>.
Status add_root(qm_scan_root& root) noexcept;
Status remove_root(qm_scan_root& root) noexcept;

class Scanner;

}  // namespace scan

/// Leaked objects of one origin.
struct LeakGroup {
  static constexpr unsigned kExamples = 3;
  Traceable* owner = nullptr;      ///< the cache or the arena; nullptr: origins beyond the end of the list
  std::size_t object_size = 0;     ///< bytes
  const CallSite* site = nullptr;  ///< of the allocation, if known
  std::uint32_t stack = 0;         ///< handle of the stack that allocated it, 0: not recorded
  std::size_t heads = 0;           ///< objects to which no other leaked object leads; one of a cycle
  std::size_t head_bytes = 0;
  std::size_t under = 0;  ///< objects to which only these lead
  std::size_t under_bytes = 0;
  std::uintptr_t examples[kExamples] = {};  ///< the first heads in order of address; 0: no more

  [[nodiscard]] std::size_t bytes() const noexcept { return head_bytes + under_bytes; }
};

/// Totals of a scan.
struct LeakSummary {
  std::size_t live = 0;  ///< objects that users hold, leaked ones included
  std::size_t live_bytes = 0;
  std::size_t words = 0;       ///< words of memory read
  std::size_t references = 0;  ///< words that lead to an object
  std::size_t leaked = 0;      ///< leaked objects, those under heads included
  std::size_t leaked_bytes = 0;
  std::size_t inner_only = 0;  ///< objects kept only by pointers into them, none to their start
  std::size_t inner_only_bytes = 0;
  std::uintptr_t inner_examples[LeakGroup::kExamples] = {};
  std::size_t not_judged = 0;     ///< objects of caches that are roots: see above
  std::uint64_t pause_ticks = 0;  ///< ticks during which the harts stood still; run_sliced(): the longest time
  unsigned passes = 0;            ///< run_sliced(): passes over the memory
  std::size_t work_bytes = 0;     ///< memory that the scan worked in
  std::size_t wanted_bytes = 0;   ///< kNoMemory: the memory that the scan needs
  unsigned hart = 0;              ///< kTimedOut: the hart that has not answered, or hal::BroadcastResult::kNobody;
                                  ///< kUnsafe in a panic: the hart that may be inside the allocator
  const char* damaged =
      nullptr;  ///< kMismatch: the cache, the arena or "the registry"; kInvalid: the root that is no memory
};

/// One scan and its results.
class LeakScan {
 public:
  LeakScan() noexcept = default;
  /// Frees the scan's memory.
  ~LeakScan();
  LeakScan(const LeakScan&) = delete;
  LeakScan& operator=(const LeakScan&) = delete;

  /// Scans. Call it once for each LeakScan.
  /// @returns kOk; any other status reports no leaks: kBusy while another scan has its results; kRefused without a
  ///          platform, or before initialize(); kNoMemory (summary().wanted_bytes); kTimedOut if a hart does not
  ///          answer; kUnsafe in another context than below; kMismatch if the allocator's data are damaged, and
  ///          kInvalid for a root that is not memory (summary().damaged).
  /// Complexity: O(pages of memory), O(objects) and O(words of live objects and roots); the harts stand still for all
  ///             but the first.
  /// Context:    hal::may_ask_harts(). Allocates pages from base_arena() before the pause, unless set_memory() was
  ///             called. Or a panic (hal::in_panic()) in which the other harts are halted: then the scan asks no hart,
  ///             so it knows the hardware roots of this hart only; it allocates nothing, but writes into free pages;
  ///             and it is kUnsafe if this hart holds a lock of the allocator, or Platform::busy_hart() names a hart.
  Status run() noexcept;

  /// Asked after each pass whether to go on. Context: that of run_sliced().
  using GoOn = bool (*)(void* argument) noexcept;
  /// As run(), beside running harts. They stand still once in each pass, while the scan notes the roots; it reads
  /// memory without a lock and with interrupts enabled. It repeats the pass until 16 passes in a row have reached none
  /// of the objects that all passes before have missed. So code that moves a pointer during the scan does not make it
  /// report an object in use. The next scan reports what is leaked during this one.
  /// @param[in] go_on nullptr: always.
  /// @returns as run(); kAborted if @p go_on returned false, or if slabs came and went too fast for many passes;
  ///          kUnsafe in a panic.
  /// Complexity: as run(), in each of 17 passes or more. In a pass the harts stand still for about 25 instructions a
  ///             root. Other holds of locks are as long as those of `verify`.
  /// Context:    hal::may_ask_harts(). Guarded objects are read with their traps off, 32 words at a time.
  Status run_sliced(GoOn go_on = nullptr, void* argument = nullptr) noexcept;

  [[nodiscard]] const LeakSummary& summary() const noexcept;
  /// Groups with the most bytes first. At most kMostGroups; the last one, without an owner, has the remaining origins.
  [[nodiscard]] std::span<const LeakGroup> groups() const noexcept;
  static constexpr unsigned kMostGroups = 64;

 private:
  Status begin(std::size_t (*more)(std::size_t pages) noexcept) noexcept;
  bool is_mine_ = false;
};

}  // namespace qm
