#pragma once
/// Prints trace records and call stacks, for the commands of the trace and for reports.

#include <qm/console/command.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console {

/// Refuses a name that no cache or arena has, and the plain name of a cache or arena that cannot be traced.
/// @returns kOk, or the status that the command returns; the error has been printed.
CommandStatus check_name(Invocation& call, std::string_view pattern) noexcept;

/// Prints `note: skipped ...` for the caches and arenas that a pattern names but that are skipped.
/// @returns how many of the caches and arenas that @p pattern names were traced at some time.
unsigned note_skipped(Invocation& call, std::string_view pattern) noexcept;

/// Converts @p ticks to a time.
[[nodiscard]] Milliseconds duration(std::uint64_t ticks) noexcept;

enum class Detail : std::uint8_t { kPlain, kVerbose };

/// Prints a record as `slab_trace print` does: the line `Obj ...`, the frames, an empty line.
/// @param[in] detail kVerbose: size, age and number on the first line.
void print_record(Console& console, Output& out, const trace::DumpEntry& entry, Detail detail) noexcept;

/// Estimates how long a listing of many records takes on this serial line, from the first of the records.
class Forecast {
 public:
  static constexpr unsigned kSample = 32;
  static constexpr std::uint64_t kPatienceMs = 5000;

  explicit Forecast(Invocation& call) noexcept : call_(call) {}
  /// Whether a listing of @p records records could be long, so that an estimate is useful.
  [[nodiscard]] bool wanted(std::uint64_t records) const noexcept;
  /// Measures a record of the listing. @returns whether the estimate can use another record.
  bool add(const trace::DumpEntry& entry, Detail detail) noexcept;
  /// Prints the number of records and the time of the listing, if that is longer than kPatienceMs.
  /// @param[in] how `about`, or `at most` where the listing may be shorter than its records.
  void print(std::uint64_t records, std::string_view how = "about") noexcept;

 private:
  Invocation& call_;
  std::uint64_t characters_ = 0;
  unsigned sampled_ = 0;
};

/// Reads the time of `older T`. @param[out] before a number greater than that of every record older than T.
/// @returns kOk, or the status that the command returns; the error has been printed.
CommandStatus read_older(Invocation& call, std::string_view text, std::uint64_t& before) noexcept;

/// Prints a stack as `slab_stacks` does: frames, count, bytes, id, an empty line.
/// @param[in] sign    printed before count and bytes: "+" in a report of growth, where a count may be negative.
/// @param[in] closely if not null, four more lines are printed from it: bytes held, ages, harts, contexts.
void print_stack(Console& console, Output& out, const trace::StackRow& row, std::string_view sign = {},
                 const trace::StackDetails* closely = nullptr) noexcept;

/// Prints notes for which the closing line of a report on stacks has no room.
void print_stack_notes(Invocation& call, const trace::StackTotals& totals) noexcept;
/// The one of these on sampled caches.
void print_sample_note(Invocation& call, const trace::StackTotals& totals) noexcept;

/// Prints a stack on one line, innermost first: `packet_alloc+0x3a < rx_deliver+0x12 < ...`.
void print_stack_line(Console& console, Output& out, const trace::CallStack& stack) noexcept;

}  // namespace qm::console
