/// kmausers: who holds how much, over all caches, in one table.

#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/amount.hpp>
#include <qm/console/console.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console::commands {
namespace {

constexpr std::size_t kBytesWidth = 12;
constexpr std::size_t kObjectsWidth = 9;
constexpr std::uint32_t kMostUsers = TopSites::kTop;

struct UsersQuery {
  bool by_stack = !kCallSites;
  bool in_bytes = false;
  std::uint32_t top = kMostUsers;
};

/// The table's rows: what is held, by how many objects; then who.
class Table {
 public:
  Table(Invocation& call, Unit unit) noexcept : call_(call), unit_(unit) {}

  void header(std::string_view who) noexcept {
    if (ReportRow::wanted(call_)) return;
    call_.print("{:12}{:9}  {}\n", unit_.name(), "objects", who);
  }
  void begin(std::uint64_t bytes, std::uint64_t objects) noexcept {
    Output& out = call_.out();
    out.hang(kBytesWidth + kObjectsWidth + 4);
    unit_.print(out, bytes, kBytesWidth);
    Unit::bytes().print(out, objects, kObjectsWidth);
    out.text("  ");
  }
  void row(std::uint64_t bytes, std::uint64_t objects, std::string_view who) noexcept {
    if (ReportRow::wanted(call_)) return;
    begin(bytes, objects);
    call_.print("{}\n", who);
  }

 private:
  Invocation& call_;
  Unit unit_;
};

/// The call sites, as allocinfo counts them: nothing need be traced.
inline CommandStatus show_sites(Invocation& call, const UsersQuery& query) noexcept {
  static TopSites top;
  top.clear();
  std::uint64_t bytes = 0;
  std::uint64_t objects = 0;
  for (std::size_t i = 0; i < call_sites::count(); ++i) {
    const call_sites::Row row = call_sites::row(i);
    if (row.bytes == 0 && row.calls == 0) continue;
    bytes += row.bytes;
    objects += row.calls;
    top.enter({row.site, static_cast<std::int64_t>(row.calls), row.bytes});
  }
  Table table(call, query.in_bytes ? Unit::bytes() : Unit::of(bytes));
  table.header("call site");
  std::uint64_t rest_bytes = bytes;
  std::uint64_t rest_objects = objects;
  unsigned shown = 0;
  for (const TopSites::Row& row : top.rows()) {
    if (shown == query.top) break;
    ++shown;
    rest_bytes -= row.bytes;
    rest_objects -= static_cast<std::uint64_t>(row.objects);
    if (ReportRow::wanted(call)) {
      send_site(call, *row.site, row.bytes, row.objects);
      continue;
    }
    table.begin(row.bytes, static_cast<std::uint64_t>(row.objects));
    const bool is_untagged = row.site == &qm_untagged_site;
    if (is_untagged) {
      call.print("without a site\n");
    } else {
      call.print("{} {}:{}\n", row.site->function, row.site->file, row.site->line);
    }
  }
  if (top.all() > shown) table.row(rest_bytes, rest_objects, "other sites");
  table.row(bytes, objects, "in all");
  call.print("sites {} of {}: complete\n", shown, top.all());
  return call.ok();
}

/// The stacks of what is traced.
CommandStatus show_stacks_in_lines(Invocation& call, const UsersQuery& query) noexcept {
  trace::StackReport report;
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  report.select_all();
  report.count_live(1);
  const trace::StackTotals& totals = report.totals();
  Table table(call, query.in_bytes ? Unit::bytes() : Unit::of(totals.bytes));
  table.header("stack");
  std::uint32_t shown = 0;
  std::uint64_t rest_bytes = totals.bytes;
  std::uint64_t rest_objects = totals.objects;
  trace::StackRow row;
  bool aborted = !call.yield();
  while (!aborted && shown < query.top && report.next(row)) {
    ++shown;
    rest_bytes -= row.bytes;
    rest_objects -= row.objects;
    if (ReportRow::wanted(call)) {
      print_stack(call.console(), call.out(), row);
    } else {
      table.begin(row.bytes, row.objects);
      print_stack_line(call.console(), call.out(), row.stack);
      call.print("\n");
    }
    aborted = !call.yield();
  }
  if (rest_objects != 0) table.row(rest_bytes, rest_objects, "other stacks");
  table.row(totals.bytes, totals.objects, "in all");
  const trace::Totals all = trace::totals();
  call.print("stacks {} of {}, traced {} of {} caches, dropped {}: {}\n", shown, totals.stacks, all.traced, all.caches,
             totals.dropped, closing_word(aborted, totals.complete()));
  return closing_status(aborted);
}

CommandStatus run_kmausers(Invocation& call) noexcept {
  const Words& words = call.words();
  UsersQuery query;
  for (std::size_t at = 1; at < words.size(); ++at) {
    const std::string_view next = words[at + 1];  // empty at the end
    if (words[at] == "-b") {
      query.in_bytes = true;
    } else if (words[at] == "by" && (next == "stack" || next == "site")) {
      query.by_stack = next == "stack";
      ++at;
    } else if (words[at] == "top" && !next.empty()) {
      std::uint64_t top = 0;
      const Number read = parse_number(next, UINT32_MAX, top);
      if (read != Number::kOk) return call.fail_number(next, read);
      query.top = static_cast<std::uint32_t>(top);
      ++at;
    } else {
      return call.usage();
    }
  }
  if constexpr (kCallSites) {
    if (!query.by_stack) return show_sites(call, query);
  }
  if (!query.by_stack) return call.fail("built without call sites");
  return show_stacks_in_lines(call, query);
}

void complete_kmausers(Completion& completion) noexcept {
  const std::string_view before = completion.words()[completion.index() - 1];
  if (before == "by") {
    completion.offer("stack");
    if (kCallSites) completion.offer("site");
  } else if (before != "top") {
    for (const std::string_view word : {"-b", "by", "top"}) completion.offer(word);
  }
}

}  // namespace

constinit const Command kmausers = {
    .name = "kmausers",
    .usage = "kmausers [-b] [by stack|site] [top N]",
    .summary = "who holds how much of all caches, a line each, largest first",
    .run = run_kmausers,
    .max_arguments = 5,
    .complete = complete_kmausers,
    .forms =
        "kmausers [-b] [by site] [top N]  the call sites, of which there are at most 10; -b: in bytes\n"
        "kmausers [-b] by stack [top N]   the stacks of what is traced",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
