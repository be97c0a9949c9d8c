/// slab_trace: which objects of a cache, or segments of an arena, are out, who drew them, from where.

#include "site_count.hpp"
#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/hal/round.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace qm::console::commands {
namespace {

constexpr std::size_t kRule = 25;

// ---- start, stop, reset ---------------------------------------------------------------------------------------------

CommandStatus explain(Invocation& call, std::string_view pattern, const trace::CommandResult& result,
                      bool stopping = false, bool counts = false) noexcept {
  if (result.partly) {
    const bool aborted = result.status == Status::kAborted;
    const CommandStatus failed =
        call.fail("{}records and figures are gone, but not all counts: reset again", aborted ? "aborted, " : "");
    return aborted ? call.aborted() : failed;
  }
  switch (result.status) {
    case Status::kOk: break;
    case Status::kNotFound: return call.fail("No such slab {}", pattern);
    case Status::kRefused: return call.fail("Unable to trace slab {}", pattern);
    case Status::kMismatch:
      return call.fail("what is out of {} was traced in another way: stop and reset it first", pattern);
    case Status::kTimedOut:
      if (result.hart == hal::RoundResult::kNobody)
        return call.fail("the harts were busy with another command for {} s", hal::kRoundDeadlineMs / 1000);
      return call.fail("hart {} has not answered for {} s", result.hart, hal::kRoundDeadlineMs / 1000);
    case Status::kAborted:
      call.fail("aborted, {}", stopping ? "still stopping: stop again" : "nothing has changed");
      return call.aborted();
    case Status::kNoMemory: return call.fail("no memory for the books of {}", pattern);
    case Status::kBusy: call.fail("another slab_trace or kmemtrace has not ended"); return CommandStatus::kBusy;
    case Status::kUnsafe: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
    default: return call.fail("the books refuse {}", pattern);
  }
  if (names_many(pattern)) {
    call.print("{} caches, {} no-trace caches{} skipped\n", result.caches, result.skipped, counts ? " and arenas" : "");
  }
  return call.ok();
}

using Verb = trace::CommandResult (*)(std::string_view, hal::AbortTest, std::uint32_t) noexcept;

CommandStatus change(Invocation& call, Verb verb, std::string_view pattern) noexcept {
  const CommandStatus named = check_name(call, pattern);
  if (named != CommandStatus::kOk) return named;
  const trace::CommandResult result = verb(pattern, &Console::abort_requested, hal::kRoundDeadlineMs);
  return explain(call, pattern, result, verb == &trace::stop);
}

/// start NAME [counts | every N]
CommandStatus start(Invocation& call) noexcept {
  const Words& words = call.words();
  const std::string_view pattern = words[2];
  trace::Keeping keeping;
  keeping.counts = call.arguments() == 3 && words[3] == "counts";
  const bool sampled = call.arguments() == 4 && words[3] == "every";
  if (call.arguments() != 2 && !keeping.counts && !sampled) return call.usage();
  const CommandStatus named = check_name(call, pattern);
  if (named != CommandStatus::kOk) return named;
  std::uint64_t every = 1;
  if (sampled) {
    const Number read = parse_number(words[4], trace::Keeping::kMostEvery, every);
    if (read != Number::kOk) return call.fail_number(words[4], read);
    if (every == 0) return call.usage();
  }
  keeping.every = static_cast<std::uint32_t>(every);
  const bool later_too = names_many(pattern) && !keeping.counts && !sampled;
  trace::CommandResult result;
  if (later_too) result = trace::trace_from_creation(pattern, &Console::abort_requested, hal::kRoundDeadlineMs);
  if (later_too && result.status != Status::kNoMemory) return explain(call, pattern, result);
  // Without room for one more pattern, those that there are.
  result = trace::start(pattern, &Console::abort_requested, hal::kRoundDeadlineMs, keeping);
  const CommandStatus status = explain(call, pattern, result, false, keeping.counts);
  if (later_too && result.status == Status::kOk)
    call.print("note: caches made later are not traced: no room for another pattern\n");
  return status;
}

// ---- print ----------------------------------------------------------------------------------------------------------

/// What the closing line has no room for, a line each, where there is something to say.
void print_notes(Invocation& call, const trace::DumpSummary& summary) noexcept {
  if (!summary.known) {
    call.print("note: never traced\n");
  } else if (summary.state != trace::State::kOn) {
    call.print("note: {}, so later allocations are not recorded\n", trace::name(summary.state));
  }
  const trace::Figures& figures = summary.figures;
  if (summary.keeping.counts) {
    call.print("note: only counts are kept: {} out, by slab_stacks\n",
               Counted{summary.counted, "object is/objects are"});
  } else if (figures.left_out != 0) {
    call.print("note: sampled: 1 of {} allocations has a record, {} were left out\n", summary.keeping.every,
               figures.left_out);
  }
  for (unsigned reason = 0; reason < trace::kDropReasons; ++reason) {
    if (figures.dropped[reason] == 0) continue;
    call.print("note: dropped {}: {}\n", figures.dropped[reason], trace::name(static_cast<trace::Drop>(reason)));
  }
  if (figures.lost_stacks > 0)
    call.print("note: {} without a stack: the stack depot is full\n", Counted{figures.lost_stacks, "record/records"});
  if (figures.lost_contexts > 0)
    call.print("note: {} without a context\n", Counted{figures.lost_contexts, "record/records"});
  if (summary.freed_meanwhile > 0 || summary.allocated_meanwhile > 0) {
    call.print("note: during the dump {} were freed, {} allocated\n", summary.freed_meanwhile,
               summary.allocated_meanwhile);
  }
  if (!summary.ended && !summary.destroyed) {
    call.print("note: shown {} of {} that are out\n", summary.shown, summary.outstanding);
  }
  if (summary.reset) call.print("note: reset during the dump\n");
  if (summary.destroyed) call.print("note: destroyed during the dump\n");
}

unsigned count(std::string_view pattern) noexcept {
  unsigned count = 0;
  Matching<Traceable> sources(pattern);
  while (sources.next() != nullptr) ++count;
  return count;
}

/// What `print` is asked for.
struct Query {
  enum class By : std::uint8_t { kObject, kStack, kSite };
  std::string_view pattern;  ///< empty: everything
  By by = By::kObject;
  std::size_t top = SIZE_MAX;
  std::uint64_t before = UINT64_MAX;
  Detail detail = Detail::kPlain;
};

void print_head(Invocation& call, std::string_view source) noexcept {
  if (ReportRow::wanted(call)) return;
  call.print("Dumping outstanding allocs from {}\n", source);
  call.out().repeat('-', kRule);
  call.print("\n");
}

/// Says how long the dump takes, if that is long.
void print_forecast(Invocation& call, Traceable& source, const Query& query, trace::Dump& dump,
                    trace::DumpEntry& entry) noexcept {
  const std::size_t live = trace::cache_trace(source).live;
  Forecast forecast(call);
  if (!forecast.wanted(live)) return;
  dump.begin(source);
  while (dump.next(entry) && forecast.add(entry, query.detail)) {
  }
  (void)dump.finish();
  forecast.print(query.top < live ? query.top : live);
}

/// Dumps one cache or arena. @returns false when aborted.
bool print_source(Invocation& call, Traceable& source, const Query& query) noexcept {
  static trace::Dump dump;  // 2 KiB; one command runs at a time
  static trace::DumpEntry entry;
  static SiteCount sites;
  const bool by_site = kCallSites && query.by == Query::By::kSite;
  print_head(call, from_c(source.name()));
  if (!by_site && query.before == UINT64_MAX) print_forecast(call, source, query, dump, entry);
  if (by_site) sites = {};
  dump.begin(source);
  bool aborted = !call.yield();
  std::size_t shown = 0;
  bool cut = shown == query.top;
  while (!aborted && !cut && dump.next(entry)) {
    cut = entry.sequence >= query.before;
    if (cut) break;
    if (by_site) {
      if constexpr (kCallSites) sites.add(source, entry);
    } else {
      print_record(call.console(), call.out(), entry, query.detail);
    }
    cut = ++shown == query.top;
    aborted = !call.yield();
  }
  if constexpr (kCallSites) {
    if (by_site) sites.print(call);
  }
  trace::DumpSummary summary = dump.finish();
  if (cut) {
    if (shown < summary.outstanding)
      call.print("note: shown {} of {} that are out, the oldest\n", shown, summary.outstanding);
    summary.ended = true;
  }
  print_notes(call, summary);
  if (ReportRow::wanted(call)) {
    ReportRow(call, "dump")
        .text("name", from_c(source.name()))
        .number("outstanding", summary.outstanding + summary.counted)
        .number("recorded", summary.figures.recorded)
        .number("dropped", summary.figures.all_dropped())
        .number("truncated", summary.truncated_shown)
        .number("from_before_start", summary.from_before_start)
        .text("verdict", closing_word(aborted, summary.known && summary.complete()));
    return !aborted;
  }
  call.out().whole_line();
  call.print("outstanding {}, recorded {}, dropped {}, truncated stacks {}, from before start {}: {}\n",
             summary.outstanding + summary.counted, summary.figures.recorded, summary.figures.all_dropped(),
             summary.truncated_shown, summary.from_before_start,
             closing_word(aborted, summary.known && summary.complete()));
  return !aborted;
}

CommandStatus print(Invocation& call, const Query& query) noexcept {
  const std::string_view pattern = query.pattern;
  if (!pattern.empty()) {
    const CommandStatus named = check_name(call, pattern);
    if (named != CommandStatus::kOk) return named;
  }
  if (query.by == Query::By::kSite && !kCallSites) return call.fail("built without call sites");
  if (query.by == Query::By::kStack) {
    print_head(call, pattern.empty() ? "all, by stack" : pattern);
    const std::uint32_t top = query.top < kAllStacks ? static_cast<std::uint32_t>(query.top) : kAllStacks;
    return show_stacks(call, pattern, top, query.detail);
  }
  const bool many = pattern.empty() || names_many(pattern);
  unsigned shown = 0;
  if (many) note_skipped(call, pattern);
  Matching<Traceable> sources(pattern);
  while (Traceable* source = sources.next()) {
    if (many && (!source->traceable() || !trace::cache_trace(*source).known)) continue;
    ++shown;
    if (!print_source(call, *source, query)) return call.aborted();
  }
  if (shown == 0) call.print("traced 0 of {} caches: incomplete\n", count(pattern));
  return call.ok();
}

/// print [-v] [SLAB_NAME] [older T] [top N] [by stack|site]
CommandStatus print(Invocation& call) noexcept {
  const Words& words = call.words();
  Query query;
  bool any = false;
  for (std::size_t at = 2; at < words.size(); ++at) {
    const std::string_view next = words[at + 1];  // empty at the end
    if (words[at] == "-v" && query.detail == Detail::kPlain) {
      query.detail = Detail::kVerbose;
      continue;
    }
    any = true;
    if (words[at] == "by" && (next == "stack" || next == "site") && query.by == Query::By::kObject) {
      query.by = next == "stack" ? Query::By::kStack : Query::By::kSite;
      ++at;
    } else if (words[at] == "top" && !next.empty()) {
      std::uint64_t top = 0;
      const Number read = parse_number(next, SIZE_MAX, top);
      if (read != Number::kOk) return call.fail_number(next, read);
      query.top = static_cast<std::size_t>(top);
      ++at;
    } else if (words[at] == "older" && !next.empty()) {
      const CommandStatus status = read_older(call, next, query.before);
      if (status != CommandStatus::kOk) return status;
      ++at;
    } else if (query.pattern.empty() && words[at][0] != '-') {
      query.pattern = words[at];
    } else {
      return call.usage();
    }
  }
  const bool young_stacks = query.by == Query::By::kStack && query.before != UINT64_MAX;
  if (!any || young_stacks || (query.by == Query::By::kSite && query.top != SIZE_MAX)) return call.usage();
  return print(call, query);
}

// ---- status ---------------------------------------------------------------------------------------------------------

void print_status_row(Invocation& call, const Traceable& source, const trace::CacheTrace& of) noexcept {
  call.out().whole_line();
  call.print("{:<31}: {:<8} recorded {}, dropped {}, live {}, {} bytes each", source.name(), trace::name(of.state),
             of.figures.recorded, of.figures.all_dropped(), of.live,
             of.keeping.counts ? trace::kBytesPerCount : trace::kBytesPerRecord);
  if (of.keeping.counts) call.print(", counts only");
  if (of.keeping.every != 1) call.print(", sampled 1 in {}, left out {}", of.keeping.every, of.figures.left_out);
  call.print("\n");
}

CommandStatus status(Invocation& call, std::string_view pattern) noexcept {
  if (!pattern.empty()) {
    const CommandStatus named = check_name(call, pattern);
    if (named != CommandStatus::kOk) return named;
  }
  const bool one = !pattern.empty() && !names_many(pattern);
  unsigned no_trace = 0;
  std::uint64_t lost_stacks = 0;
  bool aborted = false;
  Matching<Traceable> sources(pattern);
  while (Traceable* source = aborted ? nullptr : sources.next()) {
    no_trace += source->traceable() ? 0 : 1;
    const trace::CacheTrace of = trace::cache_trace(*source);
    if (one || of.known) print_status_row(call, *source, of);
    lost_stacks += of.figures.lost_stacks;
    aborted = !call.yield();
  }
  if (names_many(pattern)) call.print("note: skipped {} no-trace caches\n", no_trace);
  if (lost_stacks != 0)
    call.print("note: {} without a stack: the stack depot is full\n", Counted{lost_stacks, "record/records"});
  const trace::Totals totals = trace::totals();
  call.out().whole_line();
  call.print("traced {} of {} caches, records {} of {} bytes, stacks {} of {} bytes, dropped {}: {}\n", totals.traced,
             totals.caches, totals.record_bytes, totals.record_capacity, totals.stack_bytes, totals.stack_capacity,
             totals.dropped, closing_word(aborted, totals.dropped == 0 && lost_stacks == 0));
  return closing_status(aborted);
}

// ---- the command ----------------------------------------------------------------------------------------------------

CommandStatus run_slab_trace(Invocation& call) noexcept {
  const Words& words = call.words();
  const std::string_view verb = words[1];
  if (verb == "status") return call.arguments() <= 2 ? status(call, words[2]) : call.usage();
  if (verb == "print") return print(call);
  if (verb == "start") return call.arguments() >= 2 ? start(call) : call.usage();
  if (call.arguments() != 2) return call.usage();
  if (verb == "stop") return change(call, &trace::stop, words[2]);
  if (verb == "reset") return change(call, &trace::reset, words[2]);
  return call.usage();
}

void complete_print(Completion& completion) noexcept {
  const std::string_view before = completion.words()[completion.index() - 1];
  if (before == "by") {
    completion.offer("stack");
    if (kCallSites) completion.offer("site");
  } else if (before != "top" && before != "older") {
    for (const std::string_view word : {"-v", "by", "older", "top"}) completion.offer(word);
    offer_traceable(completion);
  }
}

void complete_slab_trace(Completion& completion) noexcept {
  if (completion.index() == 1) {
    for (const std::string_view verb : {"start", "stop", "print", "reset", "status"}) completion.offer(verb);
  } else if (completion.words()[1] == "print") {
    complete_print(completion);
  } else if (completion.index() == 2) {
    offer_traceable(completion);
  } else if (completion.index() == 3 && completion.words()[1] == "start") {
    for (const std::string_view word : {"counts", "every"}) completion.offer(word);
  }
}

}  // namespace

constinit const Command slab_trace = {
    .name = "slab_trace",
    .usage = "slab_trace start|stop|print|reset SLAB_NAME",
    .summary = "which objects of a cache are out, and who drew them",
    .run = run_slab_trace,
    .min_arguments = 1,
    .max_arguments = 8,
    .complete = complete_slab_trace,
    .forms =
        "slab_trace start SLAB_NAME       record every later allocation; older records stay\n"
        "slab_trace start SLAB_NAME counts   keep how many objects each stack has out, no records\n"
        "slab_trace start SLAB_NAME every N  record one of N allocations, by chance\n"
        "slab_trace stop SLAB_NAME        record no more; frees go on removing records\n"
        "slab_trace print [-v] SLAB_NAME  what is out, oldest first; -v: size, age, number\n"
        "slab_trace print [-v] [SLAB_NAME] [older T] [top N]  the N oldest; T is 500ms, 5s, 3m, 1h\n"
        "slab_trace print [SLAB_NAME] by stack|site  each stack, or call site, with how much is out\n"
        "slab_trace reset SLAB_NAME       drop the records and zero the figures\n"
        "slab_trace status [SLAB_NAME]    state, counts, memory of the books\n"
        "SLAB_NAME may have * and ?; kmalloc is kmalloc_* and kheap. Then start, without counts or every,\n"
        "also traces caches made later, until a stop of that SLAB_NAME or of *",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
