/// allocinfo: live bytes and calls of each call site, in the format of Linux's /proc/allocinfo.

#include "commands.hpp"

#include <qm/detail/call_sites.hpp>
#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>

namespace qm::console::commands {
namespace {

using Counts = call_sites::Row;

constexpr unsigned kAllocinfoTakes = Takes::kTop | Takes::kSort;

enum class Order : std::uint8_t { kSize, kCalls };

struct Report {
  Order order = Order::kSize;
  std::size_t top = SIZE_MAX;

  [[nodiscard]] std::uint64_t key(const Counts& row) const noexcept {
    return order == Order::kSize ? row.bytes : row.calls;
  }
  [[nodiscard]] std::uint64_t second_key(const Counts& row) const noexcept {
    return order == Order::kSize ? row.calls : row.bytes;
  }
};

inline void print_row(Invocation& call, const Counts& counts) noexcept {
  call.out().whole_line();
  Row row(call, "site");
  row.print("{bytes:12} {calls:8} ", counts.bytes, static_cast<std::int64_t>(counts.calls));
  print_site(row, *counts.site);
  if (counts.waste != 0) row.print(" requested:{requested_bytes}", counts.bytes - counts.waste);
  if (!counts.is_accurate) row.print(" accurate:{accurate}", "no");
  row.print("\n");
}

/// Selects the rows in the order of the report.
class Selection {
 public:
  explicit Selection(const Report& report) noexcept : report_(report) {}
  [[nodiscard]] const Counts& row() const noexcept { return row_; }

  /// Moves to the next row; the first call moves to the first row. @returns false at the end. Complexity: O(sites).
  bool advance() noexcept {
    const Counts last = row_;
    const std::size_t last_number = number_;
    const bool is_first = !any_;
    any_ = false;
    for (std::size_t i = 0; i < call_sites::count(); ++i) {
      const Counts one = call_sites::noted_row(i);
      if (one.bytes == 0 && one.calls == 0 && one.is_accurate) continue;
      if (!is_first && !precedes(last, last_number, one, i)) continue;
      if (any_ && !precedes(one, i, row_, number_)) continue;
      row_ = one;
      number_ = i;
      any_ = true;
    }
    return any_;
  }

 private:
  [[nodiscard]] bool precedes(const Counts& a, std::size_t a_number, const Counts& b,
                              std::size_t b_number) const noexcept {
    if (report_.key(a) != report_.key(b)) return report_.key(a) > report_.key(b);
    if (report_.second_key(a) != report_.second_key(b)) return report_.second_key(a) > report_.second_key(b);
    return a_number < b_number;
  }

  const Report& report_;
  std::size_t number_ = 0;
  Counts row_;
  bool any_ = false;
};

/// Prints the callers that allocated without a site, in a checking build.
inline void print_untagged_callers(Invocation& call) noexcept {
  for (unsigned i = 0; i < call_sites::kUntaggedCallers; ++i) {
    const call_sites::UntaggedCaller caller = call_sites::untagged_caller(i);
    if (caller.address == 0) return;
    Symbol symbol;
    const bool known = call.console().resolve(caller.address - 1, symbol);
    call.out().whole_line();
    Row row(call, "untagged");
    row.print("# untagged: {calls} allocations by [<{address}>] in ", caller.calls, Address{caller.address});
    known ? row.print("{function}\n", symbol.name) : row.print("(null)\n");
  }
}

inline CommandStatus show(Invocation& call, const Report& report) noexcept {
  call_sites::note_rows();
  std::uint64_t bytes = 0;
  std::uint64_t untagged = 0;
  std::uint64_t shown_bytes = 0;
  for (std::size_t i = 0; i < call_sites::count(); ++i) {
    const Counts row = call_sites::noted_row(i);
    bytes += row.bytes;
    if (row.is_untagged()) untagged = row.bytes;
  }
  call.head("allocinfo - version: 2.0\n#     <size>  <calls> <tag info>\n");
  Selection selection(report);
  std::size_t shown = 0;
  bool aborted = false;
  while (!aborted && shown < report.top && selection.advance()) {
    print_row(call, selection.row());
    shown_bytes += selection.row().bytes;
    ++shown;
    aborted = !call.yield();
  }
  print_untagged_callers(call);
  call.out().whole_line();
  call.row("end",
           "# sites {sites} of {all_sites}, bytes {bytes} of {all_bytes}, untagged {untagged_bytes}, state {state}: "
           "{verdict}\n",
           shown, call_sites::count(), shown_bytes, bytes, untagged, call_sites::is_on() ? "on" : "off",
           closing_word(aborted));
  return closing_status(aborted);
}

inline CommandStatus run(Invocation& call) noexcept {
  const Words& words = call.words();
  if (call.arguments() == 1 && (words[1] == "on" || words[1] == "off")) {
    if (hal::in_panic()) return call.fail("not in panic");
    call_sites::set_on(words[1] == "on");
    return call.ok();
  }
  Query query;
  const CommandStatus status = read_query(call, 1, kAllocinfoTakes, query);
  if (status != CommandStatus::kOk) return status;
  if (!query.sort.empty() && query.sort != "size" && query.sort != "calls") return call.usage();
  const Report report{query.sort == "calls" ? Order::kCalls : Order::kSize, query.top};
  return show(call, report);
}

CommandStatus run_allocinfo(Invocation& call) noexcept {
  if constexpr (kCallSites) return run(call);
  return call.fail("this build has no call sites (QM_CALL_SITES)");
}

void complete_allocinfo(Completion& completion) noexcept {
  if (completion.index() > 1 && completion.words()[completion.index() - 1] == "sort") {
    for (const std::string_view word : {"size", "calls"}) completion.offer(word);
    return;
  }
  (void)complete_query(completion, 1, kAllocinfoTakes);
  if (completion.index() != 1) return;
  for (const std::string_view word : {"on", "off"}) completion.offer(word);
}

}  // namespace

constinit const Command allocinfo = {
    .name = "allocinfo",
    .usage = "allocinfo [top N] [sort size|calls]",
    .summary = "live bytes and calls of each call site, largest first",
    .run = run_allocinfo,
    .max_arguments = 4,
    .complete = complete_allocinfo,
    .forms =
        "allocinfo [top N] [sort size|calls]  each place in the source that holds memory, by bytes or by calls\n"
        "allocinfo on|off                     count allocations from now on, or do not",
    .example = "allocinfo top 5 sort calls\nallocinfo sort size\nallocinfo off\nallocinfo on",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
