/// slab_stacks: the stacks that hold live objects, each once, largest first.

#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/names.hpp>
#include <qm/console/query.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console::commands {
namespace {

/// Stacks with fewer objects are hidden.
constinit std::uint32_t threshold = 1;

CommandStatus set_threshold(Invocation& call) noexcept {
  if (call.arguments() == 1) {
    call.row("end", "threshold {threshold}\n", threshold);
    return call.ok();
  }
  std::uint64_t number = 0;
  const Number read = parse_number(call.words()[2], UINT32_MAX, number);
  if (read != Number::kOk) return call.fail_number(call.words()[2], read);
  threshold = static_cast<std::uint32_t>(number);
  return call.ok();
}

/// Selects the caches and arenas that @p pattern names, or all, and prints notes about them.
void select(Invocation& call, std::string_view pattern, trace::StackReport& report) noexcept {
  if (pattern.empty()) {
    report.select_all();
    return;
  }
  if (names_many(pattern)) note_skipped(call, pattern);
  Matching<Traceable> sources(pattern);
  while (Traceable* source = sources.next()) {
    report.select(*source);
    const trace::CacheTrace trace = trace::cache_trace(*source);
    if (names_many(pattern) || trace.state == trace::State::kOn) continue;
    if (trace.known) {
      call.note("{}, so later allocations are not recorded\n", trace::name(trace.state));
    } else {
      call.note("never traced\n");
    }
  }
}

}  // namespace

CommandStatus show_stacks(Invocation& call, std::string_view pattern, std::size_t top, Detail detail,
                          std::uint64_t before) noexcept {
  if (!pattern.empty()) {
    const CommandStatus named = check_name(call, pattern);
    if (named != CommandStatus::kOk) return named;
  }
  trace::StackReport report;
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  select(call, pattern, report);
  if (before == UINT64_MAX) {
    report.count_live(threshold);
  } else {
    report.count_since(0, before);
  }
  const trace::StackTotals& totals = report.totals();
  std::uint32_t shown = 0;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  trace::StackRow row;
  bool aborted = !call.yield();
  while (!aborted && shown < top && report.next(row)) {
    if (detail == Detail::kVerbose) {
      const trace::StackDetails closely = report.details(row);
      print_stack(call.console(), call.out(), row, {}, &closely);
    } else {
      print_stack(call.console(), call.out(), row);
    }
    ++shown;
    objects += row.objects;
    bytes += row.bytes;
    aborted = !call.yield();
  }
  print_stack_notes(call, totals);
  if (totals.hidden_objects != 0) {
    call.note("{}, {} bytes in hidden stacks\n", Counted{totals.hidden_objects, "object/objects"}, totals.hidden_bytes);
  }
  if (shown != totals.stacks) {
    call.note("{}: {}, {} bytes\n", Counted{totals.stacks - shown, "more stack/more stacks"},
              Counted{totals.objects - totals.lost_objects - totals.hidden_objects - objects, "object/objects"},
              totals.bytes - totals.lost_bytes - totals.hidden_bytes - bytes);
  }
  const trace::Totals all = trace::totals();
  call.out().whole_line();
  call.row(
      "end",
      "stacks {stacks}, hidden {hidden} (threshold {threshold}), objects {objects}, bytes {bytes}, dropped {dropped}, "
      "not traced {not_traced} caches: {verdict}\n",
      shown, totals.hidden, threshold, totals.objects, totals.bytes, totals.dropped, all.caches - all.traced,
      closing_word(aborted, totals.complete()));
  return closing_status(aborted);
}

namespace {

constexpr unsigned kStacksTakes = Takes::kVerbose | Takes::kPattern | Takes::kTop;

CommandStatus run_slab_stacks(Invocation& call) noexcept {
  if (call.words()[1] == "threshold") return call.arguments() <= 2 ? set_threshold(call) : call.usage();
  Query query;
  const CommandStatus read = read_query(call, 1, kStacksTakes, query);
  if (read != CommandStatus::kOk) return read;
  return show_stacks(call, query.pattern(), query.top, query.verbose ? Detail::kVerbose : Detail::kPlain);
}

void complete_slab_stacks(Completion& completion) noexcept {
  if (completion.words()[1] == "threshold") return;
  if (completion.index() == 1) completion.offer("threshold");
  if (complete_query(completion, 1, kStacksTakes)) offer_traceable(completion);
}

}  // namespace

constinit const Command slab_stacks = {
    .name = "slab_stacks",
    .usage = "slab_stacks [-v] [SLAB_NAME] [top N]",
    .summary = "the stacks of objects in use, largest first",
    .run = run_slab_stacks,
    .max_arguments = 4,
    .complete = complete_slab_stacks,
    .forms =
        "slab_stacks [-v] [SLAB_NAME] [top N]  each stack with objects in use, by bytes; of all caches without a "
        "name;\n"
        "                                      -v: bytes held, ages, harts, contexts\n"
        "slab_stacks threshold [N]             hide stacks with fewer than N objects; without N: shows it\n"
        "SLAB_NAME may have * and ?",
    .example = "slab_stacks packet top 5\nslab_stacks -v\nslab_stacks threshold 2",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
