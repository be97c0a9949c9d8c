/// slab_trace print: the live objects, one record each, or counted by stack or call site.

#include "site_count.hpp"
#include "trace_commands.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/dump.hpp>
#include <qm/trace/live_trace.hpp>

namespace qm::console::commands {
namespace {

struct PrintQuery : Query {
  std::uint64_t before = UINT64_MAX;  ///< only records with a number below this one are printed
  [[nodiscard]] Detail detail() const noexcept { return verbose ? Detail::kVerbose : Detail::kPlain; }
};

/// Prints notes for which the closing line has no room, each on a line of its own.
void print_notes(Invocation& call, const trace::DumpSummary& summary) noexcept {
  if (!summary.known) {
    call.note("never traced\n");
  } else if (summary.state != trace::State::kOn) {
    call.note("{}, so later allocations are not recorded\n", trace::name(summary.state));
  }
  const trace::Figures& figures = summary.figures;
  if (summary.keeping.counts) {
    call.note("only counts are kept: {} out, by slab_stacks\n", Counted{summary.counted, "object is/objects are"});
  } else if (figures.left_out != 0) {
    call.note("sampled: 1 of {} allocations has a record, {} were left out\n", summary.keeping.every, figures.left_out);
  }
  for (unsigned reason = 0; reason < trace::kDropReasons; ++reason) {
    if (figures.dropped[reason] == 0) continue;
    call.note("dropped {}: {}\n", figures.dropped[reason], trace::name(static_cast<trace::Drop>(reason)));
  }
  if (figures.lost_stacks > 0)
    call.note("{} without a stack: the stack depot is full\n", Counted{figures.lost_stacks, "record/records"});
  if (figures.lost_contexts > 0) call.note("{} without a context\n", Counted{figures.lost_contexts, "record/records"});
  if (summary.freed_meanwhile > 0 || summary.allocated_meanwhile > 0) {
    call.note("during the dump {} were freed, {} allocated\n", summary.freed_meanwhile, summary.allocated_meanwhile);
  }
  if (!summary.ended && !summary.destroyed) {
    call.note("shown {} of {} that are out\n", summary.shown, summary.outstanding);
  }
  if (summary.reset) call.note("reset during the dump\n");
  if (summary.destroyed) call.note("destroyed during the dump\n");
}

unsigned count(std::string_view pattern) noexcept {
  unsigned count = 0;
  Matching<Traceable> sources(pattern);
  while (sources.next() != nullptr) ++count;
  return count;
}

void print_head(Invocation& call, std::string_view source) noexcept {
  call.row("source", "Dumping outstanding allocs from {name}\n-------------------------\n", source);
}

/// Prints how long the dump takes, if that is long.
void print_forecast(Invocation& call, Traceable& source, const PrintQuery& query, trace::Dump& dump,
                    trace::DumpEntry& entry) noexcept {
  const std::size_t live = trace::cache_trace(source).live;
  Forecast forecast(call);
  if (!forecast.wanted(live)) return;
  dump.begin(source);
  while (dump.next(entry) && forecast.add(entry, query.detail())) {
  }
  (void)dump.finish();
  forecast.print(query.top < live ? query.top : live);
}

/// Dumps one cache or arena. @returns false when aborted.
bool print_source(Invocation& call, Traceable& source, const PrintQuery& query) noexcept {
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
      print_record(call.console(), call.out(), entry, query.detail());
    }
    cut = ++shown == query.top;
    aborted = !call.yield();
  }
  if constexpr (kCallSites) {
    if (by_site) sites.print(call);
  }
  trace::DumpSummary summary = dump.finish();
  if (cut) {
    if (shown < summary.outstanding) call.note("shown {} of {} that are out, the oldest\n", shown, summary.outstanding);
    summary.ended = true;
  }
  print_notes(call, summary);
  call.out().whole_line();
  Row row(call, "end");
  row.text("name", from_c(source.name()));
  row.print(
      "outstanding {outstanding}, recorded {recorded}, dropped {dropped}, truncated stacks {truncated}, "
      "from before start {from_before_start}: {verdict}\n",
      summary.outstanding + summary.counted, summary.figures.recorded, summary.figures.all_dropped(),
      summary.truncated_shown, summary.from_before_start, closing_word(aborted, summary.known && summary.complete()));
  return !aborted;
}

CommandStatus print_sources(Invocation& call, const PrintQuery& query) noexcept {
  const std::string_view pattern = query.pattern();
  const bool many = pattern.empty() || names_many(pattern);
  unsigned shown = 0;
  if (many) note_skipped(call, pattern);
  Matching<Traceable> sources(pattern);
  while (Traceable* source = sources.next()) {
    if (many && (!source->traceable() || !trace::cache_trace(*source).known)) continue;
    ++shown;
    if (!print_source(call, *source, query)) return call.aborted();
  }
  if (shown == 0) {
    call.row("end", "traced {traced} of {all_caches} caches: {verdict}\n", 0U, count(pattern),
             closing_word(false, false));
  }
  return call.ok();
}

}  // namespace

CommandStatus print_outstanding(Invocation& call) noexcept {
  PrintQuery query;
  CommandStatus read = read_query(call, 2, kPrintTakes, query);
  if (read != CommandStatus::kOk) return read;
  const bool asks =
      query.pattern_count != 0 || query.top != SIZE_MAX || !query.older.empty() || query.by != Query::By::kNothing;
  if (!asks) return call.usage();
  if (!query.older.empty()) read = read_older(call, query.older, query.before);
  if (read == CommandStatus::kOk && !query.pattern().empty()) read = check_name(call, query.pattern());
  if (read != CommandStatus::kOk) return read;
  if (query.by != Query::By::kStack) return print_sources(call, query);
  print_head(call, query.pattern().empty() ? "all, by stack" : query.pattern());
  return show_stacks(call, query.pattern(), query.top, query.detail(), query.before);
}

}  // namespace qm::console::commands
