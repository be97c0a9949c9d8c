/// kmausers: one table of the stacks, call sites or tasks that hold memory, over all caches.

#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/amount.hpp>
#include <qm/console/console.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/stack_report.hpp>

#include <span>

namespace qm::console::commands {
namespace {

constexpr std::size_t kBytesWidth = 12;
constexpr std::size_t kObjectsWidth = 9;
constexpr std::size_t kMostUsers = TopSites::kTop;
constexpr std::size_t kContextsAtOnce = 16;

constexpr unsigned kUsersTakes = Takes::kInBytes | Takes::kByStackSite | Takes::kByTask | Takes::kTop;

/// Prints the rows of the table: the bytes and the number of objects held, then the holder.
class Table {
 public:
  Table(Invocation& call, Unit unit) noexcept : call_(call), unit_(unit) {}

  void header(std::string_view who) noexcept { call_.head("{:12}{:9}  {}\n", unit_.name(), "objects", who); }
  void begin(std::uint64_t bytes, std::uint64_t objects) noexcept {
    if (call_.rows()) return;
    Output& out = call_.out();
    out.hang(kBytesWidth + kObjectsWidth + 4);
    unit_.print(out, bytes, kBytesWidth);
    Unit::bytes().print(out, objects, kObjectsWidth);
    out.text("  ");
  }
  void sum(std::uint64_t bytes, std::uint64_t objects, std::string_view who) noexcept {
    begin(bytes, objects);
    Row(call_, "sum").print("{of}\n", who).number("bytes", bytes).number("objects", objects);
  }

 private:
  Invocation& call_;
  Unit unit_;
};

/// Prints the call sites as allocinfo counts them, without a trace.
inline CommandStatus show_sites(Invocation& call, const Query& query) noexcept {
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
  for (const TopSites::Figures& of : top.rows()) {
    if (shown == query.top) break;
    ++shown;
    rest_bytes -= of.bytes;
    rest_objects -= static_cast<std::uint64_t>(of.objects);
    table.begin(of.bytes, static_cast<std::uint64_t>(of.objects));
    Row row(call, "site");
    row.number("bytes", of.bytes).change("calls", of.objects);
    if (of.site == &qm_untagged_site) {
      row.print("without a site\n");
    } else {
      row.print("{function} {file}:{line}\n", of.site->function, of.site->file, of.site->line);
    }
  }
  if (top.all() > shown) table.sum(rest_bytes, rest_objects, "other sites");
  table.sum(bytes, objects, "in all");
  call.row("end", "sites {sites} of {all_sites}: {verdict}\n", shown, top.all(), closing_word(false));
  return call.ok();
}

/// Prints the stacks of traced caches and arenas.
CommandStatus show_stacks_in_lines(Invocation& call, const Query& query) noexcept {
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
    if (call.rows()) {
      print_stack(call.console(), call.out(), row);
    } else {
      table.begin(row.bytes, row.objects);
      print_stack_line(call.console(), call.out(), row.stack);
      call.print("\n");
    }
    aborted = !call.yield();
  }
  if (rest_objects != 0) table.sum(rest_bytes, rest_objects, "other stacks");
  table.sum(totals.bytes, totals.objects, "in all");
  print_stack_notes(call, totals);
  const trace::Totals all = trace::totals();
  call.row("end",
           "stacks {stacks} of {all_stacks}, traced {traced} of {all_caches} caches, dropped {dropped}: {verdict}\n",
           shown, totals.stacks, all.traced, all.caches, totals.dropped, closing_word(aborted, totals.complete()));
  return closing_status(aborted);
}

/// The contexts that hold the most, largest first.
class TopContexts {
 public:
  void enter(const trace::ContextSum& sum) noexcept {
    if (sum.objects == 0) return;
    ++all_;
    bytes_ += sum.bytes;
    objects_ += sum.objects;
    std::size_t at = count_;
    while (at > 0 && rows_[at - 1].bytes < sum.bytes) --at;
    if (at == kMostUsers) return;
    if (count_ < kMostUsers) ++count_;
    for (std::size_t i = count_ - 1; i > at; --i) rows_[i] = rows_[i - 1];
    rows_[at] = sum;
  }

  [[nodiscard]] std::span<const trace::ContextSum> rows() const noexcept { return std::span(rows_).first(count_); }
  [[nodiscard]] std::size_t all() const noexcept { return all_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t objects() const noexcept { return objects_; }

 private:
  trace::ContextSum rows_[kMostUsers];
  std::size_t count_ = 0;
  std::size_t all_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint64_t objects_ = 0;
};

/// Prints the tasks and interrupt handlers that allocated the live objects with a record.
CommandStatus show_tasks(Invocation& call, const Query& query) noexcept {
  trace::StackReport report;  // for its counts of objects without a record
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  report.select_all();
  TopContexts top;
  trace::ContextSum sums[kContextsAtOnce];
  const std::uint64_t before = trace::next_record();
  bool aborted = !call.yield();
  for (std::size_t found = kContextsAtOnce, first = 0; !aborted && found == kContextsAtOnce;
       first = sums[found - 1].id + 1) {
    found = trace::sum_contexts(static_cast<std::uint32_t>(first), before, sums);
    if (found == 0) break;
    for (const trace::ContextSum& sum : std::span(sums).first(found)) top.enter(sum);
    aborted = !call.yield();
  }
  Table table(call, query.in_bytes ? Unit::bytes() : Unit::of(top.bytes()));
  table.header("task");
  std::uint64_t rest_bytes = top.bytes();
  std::uint64_t rest_objects = top.objects();
  std::size_t shown = 0;
  for (const trace::ContextSum& of : top.rows()) {
    if (shown == query.top) break;
    ++shown;
    rest_bytes -= of.bytes;
    rest_objects -= of.objects;
    table.begin(of.bytes, of.objects);
    Row(call, "task")
        .print("{context}\n", of.id != 0 ? trace::context_label(of.id) : "not known")
        .number("bytes", of.bytes)
        .number("objects", of.objects);
  }
  if (shown != top.all()) table.sum(rest_bytes, rest_objects, "other tasks");
  table.sum(top.bytes(), top.objects(), "in all");
  const trace::StackTotals& totals = report.totals();
  print_sample_note(call, totals);
  if (totals.counting != 0)
    call.note("{} counts only, without tasks\n", Counted{totals.counting, "cache keeps/caches keep"});
  const trace::Totals all = trace::totals();
  call.row(
      "end", "tasks {tasks} of {all_tasks}, traced {traced} of {all_caches} caches, dropped {dropped}: {verdict}\n",
      shown, top.all(), all.traced, all.caches, totals.dropped,
      closing_word(aborted, totals.known != 0 && totals.dropped == 0 && totals.sampled == 0 && totals.counting == 0));
  return closing_status(aborted);
}

CommandStatus run_kmausers(Invocation& call) noexcept {
  Query query;
  const CommandStatus read = read_query(call, 1, kUsersTakes, query);
  if (read != CommandStatus::kOk) return read;
  if (query.top == SIZE_MAX) query.top = kMostUsers;
  if (query.by == Query::By::kTask) return show_tasks(call, query);
  if constexpr (kCallSites) {
    if (query.by != Query::By::kStack) return show_sites(call, query);
  }
  return show_stacks_in_lines(call, query);
}

void complete_kmausers(Completion& completion) noexcept { (void)complete_query(completion, 1, kUsersTakes); }

}  // namespace

constinit const Command kmausers = {
    .name = "kmausers",
    .usage = "kmausers [-b] [by stack|site|task] [top N]",
    .summary = "who holds how much of all caches, a line each, largest first",
    .run = run_kmausers,
    .max_arguments = 5,
    .complete = complete_kmausers,
    .forms =
        "kmausers [-b] [by site] [top N]  the call sites, of which there are at most 10; -b: in bytes\n"
        "kmausers [-b] by stack [top N]   the stacks of what is traced\n"
        "kmausers [-b] by task [top N]    the tasks and handlers that allocated what is traced, of which there are at "
        "most 10",
    .example = "kmausers by stack top 5\nkmausers -b by site\nkmausers by task",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
