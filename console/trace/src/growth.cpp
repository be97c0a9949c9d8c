/// growth: which caches, arenas, call sites and stacks hold more than at a mark.

#include "mark_text.hpp"
#include "trace_commands.hpp"
#include "trace_text.hpp"

#include <cstring>

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/console/site_text.hpp>

namespace qm::console::commands {
namespace {

/// The largest number of rows shown: of caches and arenas, and of stacks.
constexpr unsigned kTop = 10;

struct Source {
  char name[kNameBytes];
  bool is_arena;
  std::uint64_t now;
  std::uint64_t more;
  std::int64_t more_objects;
  [[nodiscard]] bool before(const Source& other) const noexcept {
    return more != other.more ? more > other.more : more_objects > other.more_objects;
  }
};

/// The caches and arenas that have grown most.
struct Growth {
  Source rows[kTop];
  unsigned count = 0;
  unsigned caches = 0;
  unsigned arenas = 0;
  unsigned known = 0;          ///< caches and arenas that the mark has
  std::uint64_t more = 0;      ///< growth of those that are not in `rows`
  bool whole = false;          ///< includes the allocator's own caches and arenas
  unsigned own = 0;            ///< those of the allocator that grew and were left out
  std::uint64_t own_more = 0;  ///< their growth

  void look_at(Traceable& source, const trace::Mark* mark) noexcept {
    const trace::SourceThen* then = mark != nullptr ? mark->find(source.name()) : nullptr;
    known += then != nullptr ? 1 : 0;
    const trace::Holding now = trace::holding_of(source);
    const trace::Holding before = then != nullptr ? then->holding : trace::Holding{};
    Source row{};
    row.more_objects = static_cast<std::int64_t>(now.objects - before.objects);
    if (now.amount < before.amount || (now.amount == before.amount && row.more_objects <= 0)) return;
    if (!whole && is_own_structure(from_c(source.name()))) {
      ++own;
      own_more += now.amount - before.amount;
      return;
    }
    row.is_arena = source.kind() == RegistryKind::kArena;
    row.now = now.amount;
    row.more = now.amount - before.amount;
    source.copy_name(row.name);
    ++(row.is_arena ? arenas : caches);
    enter(row);
  }

 private:
  /// Whether @p name is a cache or arena of the allocator or of the trace itself.
  static bool is_own_structure(std::string_view name) noexcept {
    return starts_with(name, "kmem_") || name == "ktrace";
  }
  void enter(const Source& row) noexcept {
    unsigned place = count;
    while (place != 0 && row.before(rows[place - 1])) --place;
    if (count == kTop) more += (place == kTop ? row : rows[kTop - 1]).more;
    if (place == kTop) return;
    if (count < kTop) ++count;
    for (unsigned i = count - 1; i > place; --i) rows[i] = rows[i - 1];
    rows[place] = row;
  }
};

void print_rows(Invocation& call, const Growth& growth) noexcept {
  call.head("{:<30}:Typ:      Alloc Amt:         Growth:     Objects\n", "Arena/Slab Name");
  call.head("-------------------------------------------------------------------------------\n");
  for (unsigned i = 0; i < growth.count; ++i) {
    const Source& row = growth.rows[i];
    call.row(row.is_arena ? "arena" : "cache", "{name:<30}: {} :{used_bytes:15}:{growth_bytes:15}:{objects:12}\n",
             static_cast<const char*>(row.name), row.is_arena ? "A" : "S", row.now, row.more, row.more_objects);
  }
  const unsigned grown = growth.caches + growth.arenas;
  if (grown > growth.count) call.note("{} more grew by {} together\n", grown - growth.count, growth.more);
  if (growth.own != 0) {
    call.note("{} of the allocator's own grew by {} together, left out\n", growth.own, growth.own_more);
  }
  call.head("\n");
}

/// Prints the sites that have more bytes than at the mark, or as many bytes and more calls.
inline void print_sites(Invocation& call, const trace::Mark* mark) noexcept {
  static TopSites top;
  top.clear();
  for (std::size_t i = 0; i < call_sites::count(); ++i) {
    const call_sites::Row now = call_sites::row(i);
    const trace::SiteThen then = mark != nullptr && i < mark->site_count ? mark->sites()[i] : trace::SiteThen{};
    const auto more_bytes = static_cast<std::int64_t>(now.bytes - then.bytes);
    const auto more_calls = static_cast<std::int64_t>(now.calls - then.calls);
    if (more_bytes < 0 || (more_bytes == 0 && more_calls <= 0)) continue;
    top.enter({now.site, more_calls, static_cast<std::uint64_t>(more_bytes)});
  }
  top.print(call, TopSites::Numbers::kChanges);
}

CommandStatus run_growth(Invocation& call) noexcept {
  static Growth growth;  // 800 bytes; one command runs at a time
  trace::StackReport report;
  const trace::Mark* mark = nullptr;
  const Words& words = call.words();
  const bool whole = words[call.arguments()] == "all" && call.arguments() != 0;
  if (call.arguments() > (whole ? 2u : 1u)) return call.usage();
  if (call.arguments() > (whole ? 1u : 0u)) {
    const CommandStatus found = find_mark(call, report, mark);
    if (found != CommandStatus::kOk) return found;
  } else if (report.begin() != Status::kOk) {
    return call.fail("another report on stacks has not ended");
  }
  growth = {};
  growth.whole = whole;
  bool aborted = false;
  Matching<Traceable> sources({});
  while (Traceable* source = aborted ? nullptr : sources.next()) {
    growth.look_at(*source, mark);
    aborted = !call.yield();
  }
  print_rows(call, growth);
  if (mark != nullptr && !aborted && growth.known < mark->source_count) {
    call.note("{} gone\n",
              Counted{mark->source_count - growth.known, "cache or arena of then is/caches and arenas of then are"});
  }
  if constexpr (kCallSites) print_sites(call, mark);
  report.select_all();
  report.count_growth(mark);
  const trace::StackTotals& totals = report.totals();
  trace::StackRow row;
  unsigned shown = 0;
  for (; !aborted && shown < kTop && report.next(row); ++shown) {
    print_stack(call.console(), call.out(), row, "+");
    aborted = !call.yield();
  }
  print_stack_notes(call, totals);
  if (totals.stacks > shown) call.note("{} more stacks grew\n", totals.stacks - shown);
  const trace::Coverage coverage = trace::coverage_since(mark);
  print_coverage(call, coverage);
  Row closing(call, "end");
  closing.print("growth {mark}: {caches} caches, {arenas} arenas, {stacks} stacks",
                mark != nullptr ? mark->name : "since boot", growth.caches, growth.arenas, totals.stacks);
  close_report(closing, mark, coverage, aborted,
               totals.truncated == 0 && totals.lost_objects == 0 && totals.sampled == 0);
  return closing_status(aborted);
}

void complete_growth(Completion& completion) noexcept {
  complete_mark(completion);
  if (completion.index() <= 2 && completion.words()[1] != "all") completion.offer("all");
}

}  // namespace

constinit const Command growth = {
    .name = "growth",
    .usage = "growth [NAME] [all]",
    .summary = "caches, arenas, sites and stacks that hold more than at mark NAME, or at boot",
    .run = run_growth,
    .max_arguments = 2,
    .complete = complete_growth,
    .forms = "all: also the memory of the allocator and the trace, kmem_* and ktrace",
    .example = "growth before\ngrowth before all",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
