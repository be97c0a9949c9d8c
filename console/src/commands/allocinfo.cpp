/// allocinfo: live bytes and calls of each call site, in the format of Linux's /proc/allocinfo.

#include "commands.hpp"

#include <qm/call_sites.hpp>
#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/site_text.hpp>

namespace qm::console::commands {
namespace {

using call_sites::Row;

enum class Order : std::uint8_t { kSize, kCalls };

struct Report {
  Order order = Order::kSize;
  std::size_t top = SIZE_MAX;

  [[nodiscard]] std::uint64_t key(const Row& row) const noexcept {
    return order == Order::kSize ? row.bytes : row.calls;
  }
  [[nodiscard]] std::uint64_t second_key(const Row& row) const noexcept {
    return order == Order::kSize ? row.calls : row.bytes;
  }
};

inline void print_row(Invocation& call, const Row& row) noexcept {
  if (ReportRow::wanted(call)) return send_site(call, *row.site, row.bytes, static_cast<std::int64_t>(row.calls));
  call.out().whole_line();
  call.print("{:12} {:8} ", row.bytes, row.calls);
  print_site(call, *row.site);
  if (row.waste != 0) call.print(" requested:{}", row.bytes - row.waste);
  call.print("{}\n", row.is_accurate ? "" : " accurate:no");
}

/// Goes through the rows in the order of the report.
class Selection {
 public:
  explicit Selection(const Report& report) noexcept : report_(report) {}
  [[nodiscard]] const Row& row() const noexcept { return row_; }

  /// Finds what follows the row that is here, the first to begin with. @returns false at the end. Complexity: O(sites).
  bool advance() noexcept {
    const Row last = row_;
    const std::size_t last_number = number_;
    const bool is_first = !any_;
    any_ = false;
    for (std::size_t i = 0; i < call_sites::count(); ++i) {
      const Row one = call_sites::noted_row(i);
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
  [[nodiscard]] bool precedes(const Row& a, std::size_t a_number, const Row& b, std::size_t b_number) const noexcept {
    if (report_.key(a) != report_.key(b)) return report_.key(a) > report_.key(b);
    if (report_.second_key(a) != report_.second_key(b)) return report_.second_key(a) > report_.second_key(b);
    return a_number < b_number;
  }

  const Report& report_;
  std::size_t number_ = 0;
  Row row_;
  bool any_ = false;
};

/// Who has allocated without a site, in a checking build.
inline void print_untagged_callers(Invocation& call) noexcept {
  for (unsigned i = 0; i < call_sites::kUntaggedCallers; ++i) {
    const call_sites::UntaggedCaller caller = call_sites::untagged_caller(i);
    if (caller.address == 0) return;
    Symbol symbol;
    const bool known = call.console().resolve(caller.address - 1, symbol);
    call.out().whole_line();
    call.print("# untagged: {} allocations by [<{}>] in {}\n", caller.calls, Address{caller.address},
               known ? symbol.name : std::string_view("(null)"));
  }
}

inline CommandStatus show(Invocation& call, const Report& report) noexcept {
  call_sites::note_rows();
  std::uint64_t bytes = 0;
  std::uint64_t untagged = 0;
  std::uint64_t shown_bytes = 0;
  for (std::size_t i = 0; i < call_sites::count(); ++i) {
    const Row row = call_sites::noted_row(i);
    bytes += row.bytes;
    if (row.is_untagged()) untagged = row.bytes;
  }
  if (!ReportRow::wanted(call)) call.print("allocinfo - version: 2.0\n#     <size>  <calls> <tag info>\n");
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
  call.print("# sites {} of {}, bytes {} of {}, untagged {}, state {}: {}\n", shown, call_sites::count(), shown_bytes,
             bytes, untagged, call_sites::is_on() ? "on" : "off", closing_word(aborted));
  return closing_status(aborted);
}

inline CommandStatus run(Invocation& call) noexcept {
  const Words& words = call.words();
  const std::size_t count = call.arguments();
  Report report;
  if (count == 1 && (words[1] == "on" || words[1] == "off")) {
    if (hal::in_panic()) return call.fail("not in panic");
    call_sites::set_on(words[1] == "on");
    return call.ok();
  }
  if (count % 2 != 0) return call.usage();
  for (std::size_t i = 1; i < count; i += 2) {
    const std::string_view value = words[i + 1];
    if (words[i] == "top") {
      std::uint64_t top = 0;
      const Number read = parse_number(value, SIZE_MAX, top);
      if (read != Number::kOk) return call.fail_number(value, read);
      report.top = static_cast<std::size_t>(top);
    } else if (words[i] == "sort" && (value == "size" || value == "calls")) {
      report.order = value == "size" ? Order::kSize : Order::kCalls;
    } else {
      return call.usage();
    }
  }
  return show(call, report);
}

CommandStatus run_allocinfo(Invocation& call) noexcept {
  if constexpr (kCallSites) return run(call);
  return call.fail("this build has no call sites (QM_CALL_SITES)");
}

void complete_allocinfo(Completion& completion) noexcept {
  const std::string_view before = completion.words()[completion.index() - 1];
  if (before == "sort") {
    for (const std::string_view word : {"size", "calls"}) completion.offer(word);
  } else if (before != "top") {
    for (const std::string_view word : {"top", "sort"}) completion.offer(word);
    if (completion.index() != 1) return;
    for (const std::string_view word : {"on", "off"}) completion.offer(word);
  }
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
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
