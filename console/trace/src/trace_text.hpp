#pragma once
/// Trace records and call stacks as text: what the commands of the trace share with reports.

#include <qm/console/command.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console {

/// Refuses a name that no cache or arena has, and the plain name of a no-trace one.
/// @returns kOk, or what the command answers.
CommandStatus check_name(Invocation& call, std::string_view pattern) noexcept;

/// Prints `note: skipped ...` for a pattern: what it passes over.
/// @returns how many of the caches and arenas it names were traced at some time.
unsigned note_skipped(Invocation& call, std::string_view pattern) noexcept;

/// How long so many ticks are.
[[nodiscard]] Milliseconds duration(std::uint64_t ticks) noexcept;

enum class Detail : std::uint8_t { kPlain, kVerbose };

/// Prints a record as `slab_trace print` does: the line `Obj ...`, the frames, an empty line.
/// @param[in] detail kVerbose: size, age and number on the first line.
void print_record(Console& console, Output& out, const trace::DumpEntry& entry, Detail detail) noexcept;

/// How long a listing of many records takes on this line, from how the first of them look.
class Forecast {
 public:
  static constexpr unsigned kSample = 32;
  static constexpr std::uint64_t kPatienceMs = 5000;

  explicit Forecast(Invocation& call) noexcept : call_(call) {}
  /// Whether a listing of @p records could be long: there is something to look at.
  [[nodiscard]] bool wanted(std::uint64_t records) const noexcept;
  /// Looks at a record that would be printed. @returns whether another one is welcome.
  bool add(const trace::DumpEntry& entry, Detail detail) noexcept;
  /// Says of how many records the listing is and how long that takes, if it is longer than kPatienceMs.
  /// @param[in] how `about`, or `at most` where the listing may be shorter than its records.
  void print(std::uint64_t records, std::string_view how = "about") noexcept;

 private:
  Invocation& call_;
  std::uint64_t characters_ = 0;
  unsigned sampled_ = 0;
};

/// Reads the time of `older T`, and finds the number that all records older than that have less than.
/// @returns kOk, or what the command answers.
CommandStatus read_older(Invocation& call, std::string_view text, std::uint64_t& before) noexcept;

/// Prints a stack as `slab_stacks` does: frames, count, bytes, id, an empty line.
/// @param[in] sign    printed before count and bytes: "+" in a report of growth, where a count may be negative.
/// @param[in] closely if there, what its records say besides, in four lines: bytes held, ages, harts, contexts.
void print_stack(Console& console, Output& out, const trace::StackRow& row, std::string_view sign = {},
                 const trace::StackDetails* closely = nullptr) noexcept;

/// Prints what the closing line of a report on stacks has no room for.
void print_stack_notes(Invocation& call, const trace::StackTotals& totals) noexcept;

/// Prints a stack on one line, innermost first: `packet_alloc+0x3a < rx_deliver+0x12 < ...`.
void print_stack_line(Console& console, Output& out, const trace::CallStack& stack) noexcept;

}  // namespace qm::console
