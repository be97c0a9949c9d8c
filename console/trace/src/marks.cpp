/// mark, marks, leaks, expect: objects that were allocated since a mark and are still live.

#include "mark_text.hpp"
#include "site_count.hpp"
#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/dump.hpp>

namespace qm::console::commands {
namespace {

// ---- mark, marks ----------------------------------------------------------------------------------------------------

CommandStatus run_mark(Invocation& call) noexcept {
  const std::string_view name = call.words()[1];
  trace::StackReport report;
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  switch (trace::set_mark(report, name)) {
    case Status::kOk: break;
    case Status::kInvalid: return call.fail("{} is not a name", name);
    case Status::kNoMemory: return call.fail("no memory for mark {}, or there are {}", name, trace::kMaxMarks);
    default: return call.fail("the trace refuses {}", name);
  }
  const trace::Mark* mark = find_mark(report, name);
  const trace::Coverage coverage = trace::coverage_since(mark);
  call.row("mark", "mark {name}: objects {objects}, bytes {bytes}, traced {traced} of {all_caches} caches\n", name,
           mark->objects, mark->bytes, coverage.whole, coverage.all);
  return call.ok();
}

CommandStatus run_marks(Invocation& call) noexcept {
  trace::StackReport turn;
  if (turn.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  if (call.arguments() != 0) {
    if (hal::in_panic()) return call.fail("not in panic");
    if (call.words()[1] != "drop" || call.arguments() != 2) return call.usage();
    if (drop_mark(turn, call.words()[2]) != Status::kOk) return call.fail("No such mark {}", call.words()[2]);
    return call.ok();
  }
  unsigned count = 0;
  for (const trace::Mark* mark = next_mark(turn, nullptr); mark != nullptr; mark = next_mark(turn, mark)) {
    Row row(call, "mark");
    row.print("{name:<31}: objects {objects}, bytes {bytes}", static_cast<const char*>(mark->name), mark->objects,
              mark->bytes);
    close_report(row, mark, trace::coverage_since(mark), false, true);
    ++count;
  }
  call.row("end", "marks {marks} of {room}: {verdict}\n", count, trace::kMaxMarks, closing_word(false));
  return call.ok();
}

constexpr unsigned kExpectTakes = Takes::kPatterns | Takes::kOlder;
constexpr unsigned kLeaksTakes = kExpectTakes | Takes::kByStackSite;

// ---- leaks ----------------------------------------------------------------------------------------------------------

/// The totals of a report since a mark.
struct Shown {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t own_objects = 0;  ///< slabs and spans, left out
  std::uint64_t own_bytes = 0;
  bool truncated = false;
  bool aborted = false;
};

/// Called for each object. @param[in] first whether it is the first object of @p source.
using Visit = void (*)(void* context, Traceable& source, const trace::DumpEntry& entry, bool first);

/// Calls @p visit for every live object of @p source that was recorded since the mark, with a number below @p before.
void visit_source(Invocation& call, const trace::Mark& mark, std::uint64_t before, Traceable& source, Shown& shown,
                  Visit visit, void* context) noexcept {
  static trace::Dump dump;  // 2 KiB; one command runs at a time
  static trace::DumpEntry entry;
  dump.begin(source);
  dump.since(mark.sequence);
  for (bool first = true; !shown.aborted && dump.next(entry) && entry.sequence < before;) {
    if (trace::is_own(source, entry.object)) {
      ++shown.own_objects;
      shown.own_bytes += entry.requested;
      continue;
    }
    visit(context, source, entry, first);
    first = false;
    ++shown.objects;
    shown.bytes += entry.requested;
    shown.truncated = shown.truncated || entry.truncated;
    shown.aborted = !call.yield();
  }
  shown.truncated = shown.truncated || dump.finish().reset;
}

/// Calls visit_source() for all caches and arenas of @p scope.
Shown visit_since(Invocation& call, const trace::Mark& mark, const Scope& scope, Visit visit, void* context) noexcept {
  Shown shown;
  Matching<Traceable> sources({});
  while (Traceable* source = shown.aborted ? nullptr : sources.next()) {
    if (trace::cache_trace(*source).live == 0 || !scope.includes(*source)) continue;
    visit_source(call, mark, scope.before(), *source, shown, visit, context);
    shown.aborted = shown.aborted || !call.yield();
  }
  return shown;
}

/// Prints records. Consecutive records with the same stack, size, hart and context are printed once, with their number.
class Listing {
 public:
  Listing(Invocation& call, const trace::Mark& mark) noexcept : call_(call), mark_(mark) {}

  void add(Traceable& source, const trace::DumpEntry& entry, bool first) noexcept {
    if (!first && !call_.rows() && says_the_same(entry)) {
      ++alike_;
      last_ = entry.object;
      return;
    }
    finish();
    if (first)
      call_.row("source", "Dumping outstanding allocs from {name} since {mark}\n-------------------------\n",
                source.name(), static_cast<const char*>(mark_.name));
    print_record(call_.console(), call_.out(), entry, Detail::kVerbose);
    stack_id_ = entry.stack_id;
    requested_ = entry.requested;
    hart_ = entry.hart;
    context_ = entry.context;
  }
  /// To be called after the last record.
  void finish() noexcept {
    if (alike_ != 0) call_.print("{} like it, the last {}\n\n", Counted{alike_, "more/more"}, Address{last_});
    alike_ = 0;
  }

 private:
  [[nodiscard]] bool says_the_same(const trace::DumpEntry& entry) const noexcept {
    return entry.stack_id == stack_id_ && entry.requested == requested_ && entry.hart == hart_ &&
           entry.context == context_;
  }

  Invocation& call_;
  const trace::Mark& mark_;
  std::uint32_t stack_id_ = 0;
  std::size_t requested_ = 0;
  unsigned hart_ = 0;
  std::string_view context_;
  std::uint64_t alike_ = 0;
  std::uintptr_t last_ = 0;
};

/// Prints how long a listing of all objects takes, estimated from the first objects.
void print_forecast(Invocation& call, const trace::Mark& mark, const Scope& scope, std::uint64_t objects) noexcept {
  Forecast forecast(call);
  Matching<Traceable> sources({});
  bool more = forecast.wanted(objects);
  while (Traceable* source = more ? sources.next() : nullptr) {
    static trace::Dump dump;  // 2 KiB; one command runs at a time
    static trace::DumpEntry entry;
    if (trace::cache_trace(*source).live == 0 || !scope.includes(*source)) continue;
    dump.begin(*source);
    dump.since(mark.sequence);
    while (more && dump.next(entry)) more = forecast.add(entry, Detail::kVerbose);
    (void)dump.finish();
  }
  forecast.print(objects, "at most");
}

Shown print_objects(Invocation& call, const trace::Mark& mark, const Scope& scope,
                    trace::StackReport& report) noexcept {
  report.count_since(mark.sequence, scope.before());
  print_forecast(call, mark, scope, report.totals().objects);
  Listing listing(call, mark);
  const auto add = [](void* of, Traceable& source, const trace::DumpEntry& entry, bool first) {
    static_cast<Listing*>(of)->add(source, entry, first);
  };
  const Shown shown = visit_since(call, mark, scope, add, &listing);
  listing.finish();
  if (shown.aborted && shown.objects < report.totals().objects)
    call.note("shown {} of {} that are out\n", shown.objects, report.totals().objects);
  return shown;
}

inline Shown print_sites(Invocation& call, const trace::Mark& mark, const Scope& scope) noexcept {
  static SiteCount sites;
  sites = {};
  const auto add = [](void*, Traceable& source, const trace::DumpEntry& entry, bool) { sites.add(source, entry); };
  const Shown shown = visit_since(call, mark, scope, add, nullptr);
  sites.print(call);
  return shown;
}

/// Counts the selected objects by stack, and prints the stacks.
Shown print_stacks(Invocation& call, const trace::Mark& mark, const Scope& scope, trace::StackReport& report) noexcept {
  report.count_since(mark.sequence, scope.before());
  const trace::StackTotals& totals = report.totals();
  Shown shown{.objects = totals.objects,
              .bytes = totals.bytes,
              .own_objects = totals.own_objects,
              .own_bytes = totals.own_bytes,
              .truncated = totals.truncated != 0 || totals.lost_objects != 0,
              .aborted = !call.yield()};
  trace::StackRow row;
  while (!shown.aborted && report.next(row)) {
    print_stack(call.console(), call.out(), row);
    shown.aborted = !call.yield();
  }
  print_stack_notes(call, totals);
  return shown;
}

CommandStatus run_leaks(Invocation& call) noexcept {
  Query query;
  CommandStatus read = read_query(call, 2, kLeaksTakes, query);
  if (read != CommandStatus::kOk) return read;
  const bool by_stack = query.by == Query::By::kStack;
  const bool by_site = query.by == Query::By::kSite;
  Scope scope(call);
  read = scope.read(call, query);
  if (read != CommandStatus::kOk) return read;
  trace::StackReport report;
  const trace::Mark* mark = nullptr;
  const CommandStatus found = find_mark(call, report, mark);
  if (found != CommandStatus::kOk) return found;
  scope.select(report, *mark);
  Shown shown;
  if (by_stack) shown = print_stacks(call, *mark, scope, report);
  if constexpr (kCallSites) {
    if (by_site) shown = print_sites(call, *mark, scope);
  }
  if (!by_stack && !by_site) shown = print_objects(call, *mark, scope, report);
  const trace::Coverage coverage = scope.coverage_since(mark);
  print_coverage(call, coverage);
  scope.print_left_out(call, shown.own_objects, shown.own_bytes);
  Row row(call, "end");
  row.print("leaks {mark}: objects {objects}, bytes {bytes}", static_cast<const char*>(mark->name), shown.objects,
            shown.bytes);
  close_report(row, mark, coverage, shown.aborted, !shown.truncated);
  return closing_status(shown.aborted);
}

// ---- expect ---------------------------------------------------------------------------------------------------------

CommandStatus run_expect(Invocation& call) noexcept {
  Query query;
  CommandStatus read = read_query(call, 2, kExpectTakes, query);
  if (read != CommandStatus::kOk) return read;
  Scope scope(call);
  read = scope.read(call, query);
  if (read != CommandStatus::kOk) return read;
  trace::StackReport report;
  const trace::Mark* mark = nullptr;
  const CommandStatus found = find_mark(call, report, mark);
  if (found != CommandStatus::kOk) return found;
  scope.select(report, *mark);
  const Shown shown = print_stacks(call, *mark, scope, report);
  const trace::Coverage coverage = scope.coverage_since(mark);
  const bool passes = shown.objects == 0 && coverage.complete() && !shown.aborted;
  if (passes) call.head("PASS\n");
  print_coverage(call, coverage);
  scope.print_left_out(call, shown.own_objects, shown.own_bytes);
  const std::uint64_t older = report.totals().older_objects + scope.left_out().older_objects;
  if (coverage.partial == 0 && mark->objects > older && scope.before() == UINT64_MAX) {
    call.note("{}, {} bytes from before the mark came back\n", Counted{mark->objects - older, "object/objects"},
              mark->bytes - report.totals().older_bytes - scope.left_out().older_bytes);
  }
  {
    Row row(call, "end");
    row.print("expect {mark}: objects {objects}, bytes {bytes}", static_cast<const char*>(mark->name), shown.objects,
              shown.bytes);
    row.text("answer", passes ? "PASS" : "FAIL");
    close_report(row, mark, coverage, shown.aborted, !shown.truncated);
  }
  if (shown.aborted) return call.aborted();
  if (shown.objects != 0)
    return call.fail("expect {}: {}, {} bytes more", mark->name, Counted{shown.objects, "object/objects"}, shown.bytes);
  if (!passes) return call.fail("expect {}: cannot tell, as not all was recorded", mark->name);
  return call.ok();
}

void complete_scope(Completion& completion, unsigned takes) noexcept {
  complete_mark(completion);
  if (!complete_query(completion, 2, takes)) return;
  completion.leave_out();
  offer_traceable(completion);
}

void complete_marks(Completion& completion) noexcept {
  if (completion.index() == 1) completion.offer("drop");
  if (completion.index() == 2 && completion.words()[1] == "drop") offer_marks(completion);
}

void complete_leaks(Completion& completion) noexcept { complete_scope(completion, kLeaksTakes); }
void complete_expect(Completion& completion) noexcept { complete_scope(completion, kExpectTakes); }

constexpr std::string_view kScopeForms =
    "SLAB_NAME, any number: only these; -SLAB_NAME: all but these; older T: only objects older than 500ms, 5s, 3m, "
    "1h. Without a SLAB_NAME, objects of the allocator and of background tasks are left out";

}  // namespace

constinit const Command mark = {.name = "mark",
                                .usage = "mark NAME",
                                .summary = "remember this moment, for leaks, expect and growth",
                                .run = run_mark,
                                .min_arguments = 1,
                                .max_arguments = 1,
                                .complete = complete_mark,
                                .example = "mark before",
                                .wrap = Output::Wrap::kYes};

constinit const Command marks = {.name = "marks",
                                 .usage = "marks [drop NAME]",
                                 .summary = "the moments remembered; drop forgets one",
                                 .run = run_marks,
                                 .max_arguments = 2,
                                 .complete = complete_marks,
                                 .example = "marks\nmarks drop before",
                                 .in_panic = true,
                                 .wrap = Output::Wrap::kYes};

constinit const Command leaks = {
    .name = "leaks",
    .usage = "leaks NAME [SLAB_NAME] [-SLAB_NAME] [older T] [by stack|site]",
    .summary = "objects allocated since mark NAME and not freed",
    .run = run_leaks,
    .min_arguments = 1,
    .max_arguments = 8,
    .complete = complete_leaks,
    .forms = kScopeForms,
    .example = "leaks before older 5s by stack\nleaks before packet by site\nleaks before -packet",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

constinit const Command expect = {
    .name = "expect",
    .usage = "expect NAME [SLAB_NAME] [-SLAB_NAME] [older T]",
    .summary = "PASS if all that was allocated since mark NAME is freed; else fails, with stacks",
    .run = run_expect,
    .min_arguments = 1,
    .max_arguments = 8,
    .complete = complete_expect,
    .forms = kScopeForms,
    .example = "expect before\nexpect before packet older 5s\nexpect before -session",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
