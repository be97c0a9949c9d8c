/// slab_trace: the live objects of a cache or segments of an arena, with the context and the stack that allocated each.

#include "trace_commands.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/trace/live_trace.hpp>

namespace qm::console::commands {
namespace {

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
    case Status::kMismatch: return call.fail("{} has objects traced in another way: stop and reset it first", pattern);
    case Status::kTimedOut:
      if (result.hart == hal::BroadcastResult::kNobody)
        return call.fail("the harts were busy with another command for {} s", hal::kBroadcastDeadlineMs / 1000);
      return call.fail("hart {} has not answered for {} s", result.hart, hal::kBroadcastDeadlineMs / 1000);
    case Status::kAborted:
      call.fail("aborted, {}", stopping ? "still stopping: stop again" : "nothing has changed");
      return call.aborted();
    case Status::kNoMemory: return call.fail("no memory for the trace of {}", pattern);
    case Status::kBusy: call.fail("another slab_trace or kmemtrace has not ended"); return CommandStatus::kBusy;
    case Status::kUnsafe: return call.fail("not in {}", hal::in_panic() ? "panic" : "this context");
    default: return call.fail("the trace refuses {}", pattern);
  }
  if (names_many(pattern)) {
    call.row("end", "{caches} caches, {skipped} no-trace caches{} skipped\n", result.caches, result.skipped,
             counts ? " and arenas" : "");
    return call.ok();
  }
  Matching<Traceable> sources(pattern);
  if (Traceable* source = sources.next()) {
    const trace::CacheTrace now = trace::cache_trace(*source);
    call.row("trace", "{name}: {state}, live {live}, from before start {from_before_start}\n", source->name(),
             trace::name(now.state), now.live, now.from_before_start);
  }
  return call.ok();
}

using Verb = trace::CommandResult (*)(std::string_view, hal::AbortTest, std::uint32_t) noexcept;

CommandStatus change(Invocation& call, Verb verb, std::string_view pattern) noexcept {
  const CommandStatus named = check_name(call, pattern);
  if (named != CommandStatus::kOk) return named;
  const trace::CommandResult result = verb(pattern, &Console::abort_requested, hal::kBroadcastDeadlineMs);
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
  if (later_too) result = trace::trace_from_creation(pattern, &Console::abort_requested, hal::kBroadcastDeadlineMs);
  if (later_too && result.status != Status::kNoMemory) return explain(call, pattern, result);
  // There is no room for another pattern: trace the caches and arenas that exist now.
  result = trace::start(pattern, &Console::abort_requested, hal::kBroadcastDeadlineMs, keeping);
  const CommandStatus status = explain(call, pattern, result, false, keeping.counts);
  if (later_too && result.status == Status::kOk)
    call.note("caches made later are not traced: no room for another pattern\n");
  return status;
}

// ---- status ---------------------------------------------------------------------------------------------------------

void print_status_row(Invocation& call, const Traceable& source, const trace::CacheTrace& of) noexcept {
  call.out().whole_line();
  Row row(call, "trace");
  row.print("{name:<31}: {state:<8} recorded {recorded}, dropped {dropped}, live {live}, {record_bytes} bytes each",
            source.name(), trace::name(of.state), of.figures.recorded, of.figures.all_dropped(), of.live,
            of.keeping.counts ? trace::kBytesPerCount : trace::kBytesPerRecord);
  if (of.keeping.counts) row.print(", {keeps} only", "counts");
  if (of.keeping.every != 1)
    row.print(", sampled 1 in {every}, left out {left_out}", of.keeping.every, of.figures.left_out);
  row.print("\n");
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
  if (names_many(pattern)) call.note("skipped {} no-trace caches\n", no_trace);
  if (lost_stacks != 0)
    call.note("{} without a stack: the stack depot is full\n", Counted{lost_stacks, "record/records"});
  const trace::Totals totals = trace::totals();
  call.out().whole_line();
  call.row(
      "end",
      "traced {traced} of {all_caches} caches, records {record_bytes} of {record_room} bytes, stacks {stack_bytes} of "
      "{stack_room} bytes, dropped {dropped}: {verdict}\n",
      totals.traced, totals.caches, totals.record_bytes, totals.record_capacity, totals.stack_bytes,
      totals.stack_capacity, totals.dropped, closing_word(aborted, totals.dropped == 0 && lost_stacks == 0));
  return closing_status(aborted);
}

// ---- the command ----------------------------------------------------------------------------------------------------

CommandStatus run_slab_trace(Invocation& call) noexcept {
  const Words& words = call.words();
  const std::string_view verb = words[1];
  if (verb == "status") return call.arguments() <= 2 ? status(call, words[2]) : call.usage();
  if (verb == "print") return print_outstanding(call);
  if (verb == "start") return call.arguments() >= 2 ? start(call) : call.usage();
  if (call.arguments() != 2) return call.usage();
  if (verb == "stop") return change(call, &trace::stop, words[2]);
  if (verb == "reset") return change(call, &trace::reset, words[2]);
  return call.usage();
}

void complete_slab_trace(Completion& completion) noexcept {
  if (completion.index() == 1) {
    for (const std::string_view verb : {"start", "stop", "print", "reset", "status"}) completion.offer(verb);
  } else if (completion.words()[1] == "print") {
    if (complete_query(completion, 2, kPrintTakes)) offer_traceable(completion);
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
    .summary = "which objects of a cache are allocated, and who allocated them",
    .run = run_slab_trace,
    .min_arguments = 1,
    .max_arguments = 8,
    .complete = complete_slab_trace,
    .forms =
        "slab_trace start SLAB_NAME       record every later allocation; older records stay\n"
        "slab_trace start SLAB_NAME counts   count the objects in use of each stack, no records\n"
        "slab_trace start SLAB_NAME every N  record one of N allocations, by chance\n"
        "slab_trace stop SLAB_NAME        record no more; frees go on removing records\n"
        "slab_trace print [-v] SLAB_NAME  objects in use, oldest first; -v: size, age, number\n"
        "slab_trace print [-v] [SLAB_NAME] [older T] [top N]  the N oldest; T is 500ms, 5s, 3m, 1h\n"
        "slab_trace print [SLAB_NAME] [older T] by stack|site  each stack, or call site, with its objects in use\n"
        "slab_trace reset SLAB_NAME       drop the records and zero the figures\n"
        "slab_trace status [SLAB_NAME]    state, counts, memory of the trace\n"
        "SLAB_NAME may have * and ?; kmalloc is kmalloc_* and kheap. Then start, without counts or every,\n"
        "also traces caches made later, until a stop of a SLAB_NAME that matches it",
    .example =
        "slab_trace start packet\n"
        "slab_trace print packet top 3\n"
        "slab_trace print -v packet older 5s\n"
        "slab_trace print by stack\n"
        "slab_trace print packet by site\n"
        "slab_trace status\n"
        "slab_trace stop packet\n"
        "slab_trace reset packet\n"
        "slab_trace start stacks counts\n"
        "slab_trace start session every 10",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
