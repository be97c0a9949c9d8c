/// mark, marks, leaks, expect: what was allocated since a moment and is still out.

#include "mark_text.hpp"
#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/site_text.hpp>
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
    default: return call.fail("the books refuse {}", name);
  }
  const trace::Mark* mark = find_mark(report, name);
  const trace::Coverage coverage = trace::coverage_since(mark);
  call.print("mark {}: objects {}, bytes {}, traced {} of {} caches\n", name, mark->objects, mark->bytes,
             coverage.whole, coverage.all);
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
    call.print("{:<31}: objects {}, bytes {}", static_cast<const char*>(mark->name), mark->objects, mark->bytes);
    const trace::Coverage coverage = trace::coverage_since(mark);
    close_report(call, mark, coverage, false, true);
    ++count;
  }
  call.print("marks {} of {}: complete\n", count, trace::kMaxMarks);
  return call.ok();
}

// ---- leaks ----------------------------------------------------------------------------------------------------------

/// What a report since a mark has shown.
struct Shown {
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  std::uint64_t own_objects = 0;  ///< slabs and spans, left out
  std::uint64_t own_bytes = 0;
  bool truncated = false;
  bool aborted = false;
};

/// Told of an object; @p first of its source.
using Visit = void (*)(void* context, Traceable& source, const trace::DumpEntry& entry, bool first);

/// Calls @p visit for every object of @p source that was recorded since and is out.
void visit_source(Invocation& call, const trace::Mark& mark, Traceable& source, Shown& shown, Visit visit,
                  void* context) noexcept {
  static trace::Dump dump;  // 2 KiB; one command runs at a time
  static trace::DumpEntry entry;
  dump.begin(source);
  dump.since(mark.sequence);
  for (bool first = true; !shown.aborted && dump.next(entry);) {
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

/// The same for all caches and arenas of @p scope.
Shown visit_since(Invocation& call, const trace::Mark& mark, const Scope& scope, Visit visit, void* context) noexcept {
  Shown shown;
  Matching<Traceable> sources({});
  while (Traceable* source = shown.aborted ? nullptr : sources.next()) {
    if (trace::cache_trace(*source).live == 0 || !scope.includes(*source)) continue;
    visit_source(call, mark, *source, shown, visit, context);
    shown.aborted = shown.aborted || !call.yield();
  }
  return shown;
}

Shown print_objects(Invocation& call, const trace::Mark& mark, const Scope& scope) noexcept {
  struct Context {
    Invocation& call;
    const trace::Mark& mark;
  } context{call, mark};
  const auto print = [](void* of, Traceable& source, const trace::DumpEntry& entry, bool first) {
    auto& [out, since] = *static_cast<Context*>(of);
    if (first)
      out.print("Dumping outstanding allocs from {} since {}\n-------------------------\n", source.name(), since.name);
    print_record(out.console(), out.out(), entry, Detail::kVerbose);
  };
  return visit_since(call, mark, scope, print, &context);
}

/// Counts by call site, and prints those with most bytes. The site of an object is beside it; one that is freed
/// meanwhile has none.
class SiteCount {
 public:
  void add(Traceable& source, const trace::DumpEntry& entry) noexcept {
    const CallSite* site = site_of(source, entry.object);
    unsigned at = 0;
    while (at < count_ && rows_[at].site != site) ++at;
    if (at == kSites) {
      ++others_;
      return;
    }
    if (at == count_) rows_[count_++] = {site, 0, 0};
    ++rows_[at].objects;
    rows_[at].bytes += entry.requested;
  }
  void print(Invocation& call) noexcept {
    static TopSites top;
    top.clear();
    for (unsigned i = 0; i < count_; ++i) top.enter(rows_[i]);
    top.print(call, TopSites::Numbers::kHeld);
    if (others_ != 0)
      call.print("note: {} of other sites than the first {}\n", Counted{others_, "object/objects"}, kSites);
  }

 private:
  static constexpr unsigned kSites = 64;

  static const CallSite* site_of(Traceable& source, std::uintptr_t object) noexcept {
    const CallSite* site = source.kind() == RegistryKind::kCache
                               ? static_cast<Cache&>(source).site_of(reinterpret_cast<void*>(object))
                               : static_cast<Arena&>(source).site_of(object);
    return site != nullptr ? site : &qm_untagged_site;
  }

  TopSites::Row rows_[kSites];
  unsigned count_ = 0;
  std::uint64_t others_ = 0;
};

inline Shown print_sites(Invocation& call, const trace::Mark& mark, const Scope& scope) noexcept {
  static SiteCount sites;
  sites = {};
  const auto add = [](void*, Traceable& source, const trace::DumpEntry& entry, bool) { sites.add(source, entry); };
  const Shown shown = visit_since(call, mark, scope, add, nullptr);
  sites.print(call);
  return shown;
}

/// Counts by stack what is selected, and prints the stacks.
Shown print_stacks(Invocation& call, const trace::Mark& mark, trace::StackReport& report) noexcept {
  report.count_since(mark.sequence);
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

/// A pattern that names something, or none. @returns false, and the command has failed, for one that names nothing.
bool names_something(Invocation& call, std::string_view pattern) noexcept {
  if (pattern.empty() || names_any<Traceable>(pattern)) return true;
  call.fail("No such slab {}", pattern);
  return false;
}

CommandStatus run_leaks(Invocation& call) noexcept {
  const std::size_t words = call.words().size();
  const bool by = words >= 4 && call.words()[words - 2] == "by";
  const bool by_stack = by && call.words()[words - 1] == "stack";
  const bool by_site = by && call.words()[words - 1] == "site";
  const std::size_t rest = words - (by_stack || by_site ? 2 : 0);  // leaks NAME [SLAB_NAME]
  if (rest > 3 || (rest == 3 && call.words()[2] == "by")) return call.usage();
  if (by_site && !kCallSites) return call.fail("built without call sites");
  const std::string_view pattern = rest == 3 ? call.words()[2] : std::string_view();
  if (!names_something(call, pattern)) return CommandStatus::kFailed;
  trace::StackReport report;
  const trace::Mark* mark = nullptr;
  const CommandStatus found = find_mark(call, report, mark);
  if (found != CommandStatus::kOk) return found;
  Scope scope(call, pattern);
  scope.select(report, *mark);
  Shown shown;
  if (by_stack) shown = print_stacks(call, *mark, report);
  if constexpr (kCallSites) {
    if (by_site) shown = print_sites(call, *mark, scope);
  }
  if (!by_stack && !by_site) shown = print_objects(call, *mark, scope);
  const trace::Coverage coverage = scope.coverage_since(mark);
  print_coverage(call, coverage);
  scope.print_left_out(call, shown.own_objects, shown.own_bytes);
  call.print("leaks {}: objects {}, bytes {}", mark->name, shown.objects, shown.bytes);
  close_report(call, mark, coverage, shown.aborted, !shown.truncated);
  return closing_status(shown.aborted);
}

// ---- expect ---------------------------------------------------------------------------------------------------------

CommandStatus run_expect(Invocation& call) noexcept {
  if (!names_something(call, call.words()[2])) return CommandStatus::kFailed;
  trace::StackReport report;
  const trace::Mark* mark = nullptr;
  const CommandStatus found = find_mark(call, report, mark);
  if (found != CommandStatus::kOk) return found;
  Scope scope(call, call.words()[2]);
  scope.select(report, *mark);
  const Shown shown = print_stacks(call, *mark, report);
  const trace::Coverage coverage = scope.coverage_since(mark);
  const bool passes = shown.objects == 0 && coverage.complete() && !shown.aborted;
  if (passes) call.print("PASS\n");
  print_coverage(call, coverage);
  scope.print_left_out(call, shown.own_objects, shown.own_bytes);
  const std::uint64_t older = report.totals().older_objects + scope.left_out().older_objects;
  if (coverage.partial == 0 && mark->objects > older) {
    call.print("note: {}, {} bytes from before the mark came back\n", Counted{mark->objects - older, "object/objects"},
               mark->bytes - report.totals().older_bytes - scope.left_out().older_bytes);
  }
  call.print("expect {}: objects {}, bytes {}", mark->name, shown.objects, shown.bytes);
  close_report(call, mark, coverage, shown.aborted, !shown.truncated);
  if (shown.aborted) return call.aborted();
  if (shown.objects != 0)
    return call.fail("expect {}: {} objects, {} bytes more", mark->name, shown.objects, shown.bytes);
  if (!passes) return call.fail("expect {}: cannot tell, as not all was recorded", mark->name);
  return call.ok();
}

void complete_leaks(Completion& completion) noexcept {
  complete_mark(completion);
  if (completion.index() == 2) offer_traceable(completion);
  if (completion.index() == 2 || completion.index() == 3) completion.offer("by");
  if (completion.index() < 3 || completion.words()[completion.index() - 1] != "by") return;
  completion.offer("stack");
  if (kCallSites) completion.offer("site");
}

void complete_expect(Completion& completion) noexcept {
  complete_mark(completion);
  if (completion.index() == 2) offer_traceable(completion);
}

}  // namespace

constinit const Command mark = {.name = "mark",
                                .usage = "mark NAME",
                                .summary = "remember this moment, for leaks, expect and growth",
                                .run = run_mark,
                                .min_arguments = 1,
                                .max_arguments = 1,
                                .complete = complete_mark,
                                .wrap = Output::Wrap::kYes};

constinit const Command marks = {.name = "marks",
                                 .usage = "marks [drop NAME]",
                                 .summary = "the moments remembered; drop forgets one",
                                 .run = run_marks,
                                 .max_arguments = 2,
                                 .in_panic = true,
                                 .wrap = Output::Wrap::kYes};

constinit const Command leaks = {.name = "leaks",
                                 .usage = "leaks NAME [SLAB_NAME] [by stack|site]",
                                 .summary = "what was allocated since mark NAME and is still out",
                                 .run = run_leaks,
                                 .min_arguments = 1,
                                 .max_arguments = 4,
                                 .complete = complete_leaks,
                                 .in_panic = true,
                                 .wrap = Output::Wrap::kYes};

constinit const Command expect = {
    .name = "expect",
    .usage = "expect NAME [SLAB_NAME]",
    .summary = "PASS if nothing allocated since mark NAME is out, else what, and it fails",
    .run = run_expect,
    .min_arguments = 1,
    .max_arguments = 2,
    .complete = complete_expect,
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
