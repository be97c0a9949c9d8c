#pragma once
/// Marks: moments to compare with. What was recorded since a mark has the mark's number or a higher one, so that
/// "allocated since, and still out" is one comparison a record.
///
///     trace::StackReport report;                      // marks are set and read in the turn of a report
///     if (report.begin() != Status::kOk) ...
///     trace::set_mark(report, "before");
///     ...
///     report.select_all();
///     report.count_since(trace::find_mark(report, "before")->sequence);
///
///     a mark, in `ktrace`:  | Mark | SiteThen of each call site | SourceThen of each cache and arena | StackThen of each stack with objects |
///
/// The mark itself is its number. What lies behind it is for growth, which cannot be told from records: a stack whose
/// oldest objects come back as fast as young ones go out does not grow. It is copied when the mark is set, so setting
/// one costs a look at each cache, arena and record, however many objects there are besides.
///
/// Invariants
/// - M1 Marks name caches and arenas by their names, and stacks by entries that never go: they outlast what they tell
///      of.
/// - M2 A mark changes only in the turn of a report, so whoever has the turn may keep a pointer to one.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <qm/status.hpp>
#include <qm/trace/stack_report.hpp>
#include <qm/traceable.hpp>

namespace qm::trace {

inline constexpr unsigned kMaxMarks = 8;

/// What users hold of a cache or an arena.
struct Holding {
  std::uint64_t objects = 0;  ///< or segments
  std::uint64_t amount = 0;   ///< bytes, or what an arena hands out, as in kmemstat
};
[[nodiscard]] Holding holding_of(Traceable& source) noexcept;

/// A call site when a mark was set. In builds with call sites; in others there are none.
struct SiteThen {
  std::uint64_t bytes;
  std::uint64_t calls;
};

/// A cache or an arena when a mark was set.
struct SourceThen {
  char name[kNameBytes];
  Holding holding;
  std::uint32_t dropped;  ///< of Counts, so never reset
  std::uint32_t adopted;  ///< of its books, as the next; 0 without
  std::uint32_t changes;
  bool recording;
};

/// A stack when a mark was set.
struct StackThen {
  StackHandle handle;  ///< of the entry that speaks for it
  std::uint32_t objects;
  std::uint32_t bytes;
};

struct Mark {
  char name[kNameBytes];
  std::uint64_t sequence = 0;  ///< what is recorded since has this number or a higher one
  std::uint64_t ticks = 0;     ///< when: Port::ticks()
  std::uint64_t objects = 0;   ///< recorded as out then
  std::uint64_t bytes = 0;
  Mark* next = nullptr;
  std::size_t taken = 0;  ///< bytes in `ktrace`
  std::uint32_t source_count = 0;
  std::uint32_t stack_count = 0;
  std::uint32_t site_count = 0;  ///< all of the image, in their order

  [[nodiscard]] SiteThen* sites() noexcept { return reinterpret_cast<SiteThen*>(this + 1); }
  [[nodiscard]] const SiteThen* sites() const noexcept { return reinterpret_cast<const SiteThen*>(this + 1); }
  [[nodiscard]] SourceThen* sources() noexcept { return reinterpret_cast<SourceThen*>(sites() + site_count); }
  [[nodiscard]] const SourceThen* sources() const noexcept {
    return reinterpret_cast<const SourceThen*>(sites() + site_count);
  }
  /// The cache or arena of that name; nullptr: there was none.
  [[nodiscard]] const SourceThen* find(const char* source) const noexcept;
  [[nodiscard]] StackThen* stacks() noexcept { return reinterpret_cast<StackThen*>(sources() + source_count); }
  [[nodiscard]] const StackThen* stacks() const noexcept {
    return reinterpret_cast<const StackThen*>(sources() + source_count);
  }
};
static_assert(sizeof(Mark) % alignof(SiteThen) == 0 && alignof(SourceThen) <= alignof(SiteThen) &&
              alignof(StackThen) == 4);

/// Sets a mark, or sets the one of that name anew.
/// @returns kInvalid for what is no name (see is_valid_name()); kNoMemory: there are kMaxMarks, or no memory for it,
///          and nothing has changed; kUnsafe before initialize().
/// Complexity: O(caches and arenas), O(call sites), O(stacks), O(records), in short lock holds. Context: as
///             StackReport; counts with @p report.
Status set_mark(StackReport& report, std::string_view name) noexcept;
/// Forgets a mark. @returns kNotFound if there is none of that name.
Status drop_mark(const StackReport& turn, std::string_view name) noexcept;
/// @returns the mark, valid until the turn ends; nullptr if there is none.
[[nodiscard]] const Mark* find_mark(const StackReport& turn, std::string_view name) noexcept;
/// @returns the mark set after @p mark, the first for nullptr; nullptr at the end.
[[nodiscard]] const Mark* next_mark(const StackReport& turn, const Mark* mark) noexcept;
/// Forgets all, as the books are forgotten. Context: shutdown().
void forget_marks() noexcept;

/// What can be told of the time since a mark, of the caches and arenas that there are.
struct Coverage {
  unsigned all = 0;
  unsigned whole = 0;         ///< every allocation since was recorded or counted as dropped
  unsigned partial = 0;       ///< started, stopped or reset meanwhile
  unsigned thin = 0;          ///< sampled, or only counted
  std::uint64_t dropped = 0;  ///< allocations without a record
  /// Whether what is out since, of what is traced, is all recorded.
  [[nodiscard]] bool complete() const noexcept { return whole != 0 && partial == 0 && thin == 0 && dropped == 0; }
};
/// Whether a report is about @p source.
using SourceTest = bool (*)(const void* context, Traceable& source) noexcept;
/// @param[in] mark nullptr: since boot, or the last reset; then `partial` stays 0.
/// @param[in] is_meant which caches and arenas count but in `all`; nullptr: each.
[[nodiscard]] Coverage coverage_since(const Mark* mark, SourceTest is_meant = nullptr,
                                      const void* context = nullptr) noexcept;

}  // namespace qm::trace
