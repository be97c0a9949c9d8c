/// slab_stacks: which stacks hold what is out, each once, largest first.

#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/stack_report.hpp>

namespace qm::console::commands {
namespace {

/// Stacks with fewer objects are hidden.
constinit std::uint32_t threshold = 1;

CommandStatus set_threshold(Invocation& call) noexcept {
  if (call.arguments() == 1) {
    call.print("threshold {}\n", threshold);
    return call.ok();
  }
  std::uint64_t number = 0;
  const Number read = parse_number(call.words()[2], kAllStacks, number);
  if (read != Number::kOk) return call.fail_number(call.words()[2], read);
  threshold = static_cast<std::uint32_t>(number);
  return call.ok();
}

/// Selects what @p pattern names, or all. Prints what there is to say of it beforehand.
void select(Invocation& call, std::string_view pattern, trace::StackReport& report) noexcept {
  if (pattern.empty()) {
    report.select_all();
    return;
  }
  if (names_many(pattern)) note_skipped(call, pattern);
  Matching<Traceable> sources(pattern);
  while (Traceable* source = sources.next()) {
    report.select(*source);
    const trace::CacheTrace books = trace::cache_trace(*source);
    if (names_many(pattern) || books.state == trace::State::kOn) continue;
    if (books.known) {
      call.print("note: {}, so later allocations are not recorded\n", trace::name(books.state));
    } else {
      call.print("note: never traced\n");
    }
  }
}

}  // namespace

CommandStatus show_stacks(Invocation& call, std::string_view pattern, std::uint32_t top, Detail detail) noexcept {
  if (!pattern.empty()) {
    const CommandStatus named = check_name(call, pattern);
    if (named != CommandStatus::kOk) return named;
  }
  trace::StackReport report;
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  select(call, pattern, report);
  report.count_live(threshold);
  const trace::StackTotals& totals = report.totals();
  std::uint32_t shown = 0;
  std::uint64_t objects = 0;
  std::uint64_t bytes = 0;
  trace::StackRow row;
  bool aborted = !call.yield();
  while (!aborted && shown < top && report.next(row)) {
    if (detail == Detail::kVerbose) {
      print_stack_closely(call.console(), call.out(), row, report.details(row));
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
    call.print("note: {}, {} bytes in hidden stacks\n", Counted{totals.hidden_objects, "object/objects"},
               totals.hidden_bytes);
  }
  if (shown != totals.stacks) {
    call.print("note: {}: {}, {} bytes\n", Counted{totals.stacks - shown, "more stack/more stacks"},
               Counted{totals.objects - totals.lost_objects - totals.hidden_objects - objects, "object/objects"},
               totals.bytes - totals.lost_bytes - totals.hidden_bytes - bytes);
  }
  const trace::Totals all = trace::totals();
  if (ReportRow::wanted(call)) {
    ReportRow(call, "stacks")
        .number("shown", shown)
        .number("hidden", totals.hidden)
        .number("threshold", threshold)
        .number("objects", totals.objects)
        .number("bytes", totals.bytes)
        .number("dropped", totals.dropped)
        .number("not_traced", all.caches - all.traced)
        .text("verdict", closing_word(aborted, totals.complete()));
    return closing_status(aborted);
  }
  call.out().whole_line();
  call.print("stacks {}, hidden {} (threshold {}), objects {}, bytes {}, dropped {}, not traced {} caches: {}\n", shown,
             totals.hidden, threshold, totals.objects, totals.bytes, totals.dropped, all.caches - all.traced,
             closing_word(aborted, totals.complete()));
  return closing_status(aborted);
}

namespace {

CommandStatus run_slab_stacks(Invocation& call) noexcept {
  const Words& words = call.words();
  const std::size_t count = call.arguments();
  if (words[1] == "threshold") return count <= 2 ? set_threshold(call) : call.usage();
  std::size_t at = 1;
  const Detail detail = words[at] == "-v" ? Detail::kVerbose : Detail::kPlain;
  if (detail == Detail::kVerbose) ++at;
  const std::size_t left = count + 1 - at;
  const bool named = left == 1 || left == 3;
  const std::string_view pattern = named ? words[at] : std::string_view();
  if (left < 2)
    return words[at] == "top" || words[at] == "-v" ? call.usage() : show_stacks(call, pattern, kAllStacks, detail);
  if (left > 3 || words[count - 1] != "top") return call.usage();
  std::uint64_t top = 0;
  const Number read = parse_number(words[count], kAllStacks, top);
  if (read != Number::kOk) return call.fail_number(words[count], read);
  return show_stacks(call, pattern, static_cast<std::uint32_t>(top), detail);
}

void complete_slab_stacks(Completion& completion) noexcept {
  const bool verbose = completion.index() == 2 && completion.words()[1] == "-v";
  if (completion.index() == 1 || verbose) {
    for (const std::string_view word : {"-v", "threshold", "top"}) {
      if (!verbose || word == "top") completion.offer(word);
    }
    offer_traceable(completion);
  } else if (completion.index() == 2 && completion.words()[1] != "top" && completion.words()[1] != "threshold") {
    completion.offer("top");
  }
}

}  // namespace

constinit const Command slab_stacks = {
    .name = "slab_stacks",
    .usage = "slab_stacks [-v] [SLAB_NAME] [top N]",
    .summary = "which stacks hold what is out, largest first",
    .run = run_slab_stacks,
    .max_arguments = 4,
    .complete = complete_slab_stacks,
    .forms =
        "slab_stacks [-v] [SLAB_NAME] [top N]  each stack with objects out, by bytes; of all caches without a name;\n"
        "                                      -v: bytes held, ages, harts, contexts\n"
        "slab_stacks threshold [N]             hide stacks with fewer than N objects; without N: what it is\n"
        "SLAB_NAME may have * and ?",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
