#pragma once
/// Marks: moments to compare with. A record made since a mark has the mark's number or a higher one, so "allocated
/// since the mark and still in use" takes one comparison a record.
///
///     trace::StackReport report;                      // marks are set and read during a report
///     if (report.begin() != Status::kOk) ...
///     trace::set_mark(report, "before");
///     ...
///     report.select_all();
///     report.count_since(trace::find_mark(report, "before")->sequence);
///
///     a mark, in `ktrace`:  | Mark | SiteThen of each call site | SourceThen of each cache and arena
///                                  | StackThen of each stack with objects |
///
/// The mark itself is its number. The data behind it serves to find growth, which records do not show: a stack does not
/// grow if it frees old objects as fast as it allocates new ones. Setting a mark copies this data, so it reads each
/// cache, arena and record once; the number of objects without records does not matter.
///
/// Invariants
/// - M1 A mark refers to caches and arenas by name, and to stacks by depot entries, which are never removed. So a mark
///      stays valid when a cache or an arena is destroyed.
/// - M2 Marks change only during a report, so code that holds the report may keep a pointer to a mark.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/status.hpp>
#include <qm/trace/stack_report.hpp>
#include <qm/detail/traceable.hpp>

namespace qm::trace {

inline constexpr unsigned kMaxMarks = 8;

/// Objects of a cache or segments of an arena that users hold.
struct Holding {
  std::uint64_t objects = 0;  ///< or segments
  std::uint64_t amount = 0;   ///< bytes, or the arena's own unit, as in kmemstat
};
[[nodiscard]] Holding holding_of(Traceable& source) noexcept;

/// A call site at the time of a mark. Only in builds with call sites.
struct SiteThen {
  std::uint64_t bytes;
  std::uint64_t calls;
};

/// A cache or an arena at the time of a mark.
struct SourceThen {
  char name[kNameBytes];
  Holding holding;
  std::uint32_t dropped;  ///< allocations without a record since the boot
  std::uint32_t adopted;  ///< the trace's counter of the source, as is `changes`; 0 if the source has no trace
  std::uint32_t changes;
  bool recording;
};

/// A stack at the time of a mark.
struct StackThen {
  StackHandle handle;  ///< of the entry that represents the stack
  std::uint32_t objects;
  std::uint32_t bytes;
};

struct Mark {
  char name[kNameBytes];
  std::uint64_t sequence = 0;  ///< records since have this number or a higher one
  std::uint64_t ticks = 0;     ///< when: Port::ticks()
  std::uint64_t objects = 0;   ///< live objects with a record at the time of the mark
  std::uint64_t bytes = 0;
  Mark* next = nullptr;
  std::size_t taken = 0;  ///< bytes allocated from `ktrace`
  std::uint32_t source_count = 0;
  std::uint32_t stack_count = 0;
  std::uint32_t site_count = 0;  ///< all call sites of the image, in their order

  [[nodiscard]] SiteThen* sites() noexcept { return reinterpret_cast<SiteThen*>(this + 1); }
  [[nodiscard]] const SiteThen* sites() const noexcept { return reinterpret_cast<const SiteThen*>(this + 1); }
  [[nodiscard]] SourceThen* sources() noexcept { return reinterpret_cast<SourceThen*>(sites() + site_count); }
  [[nodiscard]] const SourceThen* sources() const noexcept {
    return reinterpret_cast<const SourceThen*>(sites() + site_count);
  }
  /// The cache or arena of that name at the time of the mark; nullptr if there was none.
  [[nodiscard]] const SourceThen* find(const char* source) const noexcept;
  [[nodiscard]] StackThen* stacks() noexcept { return reinterpret_cast<StackThen*>(sources() + source_count); }
  [[nodiscard]] const StackThen* stacks() const noexcept {
    return reinterpret_cast<const StackThen*>(sources() + source_count);
  }
};
static_assert(sizeof(Mark) % alignof(SiteThen) == 0 && alignof(SourceThen) <= alignof(SiteThen) &&
              alignof(StackThen) == 4);

/// Sets a mark; a mark of that name is replaced.
/// @returns kInvalid if @p name is not a valid name (see is_valid_name()); kNoMemory: there are kMaxMarks marks, or
///          memory is lacking, and nothing has changed; kUnsafe before initialize().
/// Complexity: O(caches and arenas), O(call sites), O(stacks), O(records), in short lock holds.
/// Context:    as StackReport; it runs a count with @p report.
Status set_mark(StackReport& report, std::string_view name) noexcept;
/// Removes a mark. @returns kNotFound if no mark has that name.
Status drop_mark(const StackReport& turn, std::string_view name) noexcept;
/// @returns the mark, valid until the report ends; nullptr if there is none.
[[nodiscard]] const Mark* find_mark(const StackReport& turn, std::string_view name) noexcept;
/// @returns the mark set after @p mark, or the first mark for nullptr; nullptr at the end.
[[nodiscard]] const Mark* next_mark(const StackReport& turn, const Mark* mark) noexcept;
/// Removes all marks. Context: shutdown().
void forget_marks() noexcept;

/// How much of the allocations since a mark the trace has covered, for the existing caches and arenas.
struct Coverage {
  unsigned all = 0;
  unsigned whole = 0;         ///< every allocation since the mark was recorded or counted as dropped
  unsigned partial = 0;       ///< tracing was started, stopped or reset meanwhile
  unsigned thin = 0;          ///< sampled, or with counts only
  std::uint64_t dropped = 0;  ///< allocations without a record
  /// Whether each object of a traced source that was allocated since and is still in use has a record.
  [[nodiscard]] bool complete() const noexcept { return whole != 0 && partial == 0 && thin == 0 && dropped == 0; }
};
/// Whether a report includes @p source.
using SourceTest = bool (*)(const void* context, Traceable& source) noexcept;
/// @param[in] mark     nullptr: since boot, or the last reset; then `partial` stays 0.
/// @param[in] is_meant selects the caches and arenas that count; `all` counts the others as well. nullptr: all of them.
[[nodiscard]] Coverage coverage_since(const Mark* mark, SourceTest is_meant = nullptr,
                                      const void* context = nullptr) noexcept;

}  // namespace qm::trace
