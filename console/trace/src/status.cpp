/// status: shows everything that is switched on, on one screen.

#include "trace_commands.hpp"

#include <qm/detail/call_sites.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/fault.hpp>
#include <qm/guards.hpp>
#include <qm/trace/event_stream.hpp>
#include <qm/trace/live_trace.hpp>
#include <qm/trace/marks.hpp>

namespace qm::console::commands {
namespace {

constexpr std::size_t kColumn = 10;

/// One line of the report: its subject, then items separated by commas, or `none`.
class Items {
 public:
  /// @param[in] what the subject. @param[in] kind the kind of the items' rows.
  Items(Invocation& call, std::string_view what, std::string_view kind) noexcept : call_(call), kind_(kind) {
    call.out().hang(kColumn);
    call.head("{:<10}", what);
  }
  ~Items() { call_.head("{}\n", any_ ? "" : "none"); }
  Items(const Items&) = delete;
  Items& operator=(const Items&) = delete;

  template <class... Arguments>
  void add(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    separate();
    call_.row<Arguments...>(kind_, format, arguments...);
  }
  /// Adds an item whose state is shown only to programs.
  void add_on(std::string_view name, std::string_view state) noexcept {
    separate();
    Row(call_, kind_).print("{name}", name).text("state", state);
  }
  /// Prints text that is not an item, for people only.
  template <class... Arguments>
  void say(Format<std::type_identity_t<Arguments>...> format, const Arguments&... arguments) noexcept {
    separate();
    call_.head<Arguments...>(format, arguments...);
  }

 private:
  void separate() noexcept {
    if (any_) call_.head(", ");
    any_ = true;
  }

  Invocation& call_;
  std::string_view kind_;
  bool any_ = false;
};

/// Prints first the traces that are draining, keep counts or sample, then the others, of which people see at most
/// kMostPlain.
void print_traces(Invocation& call) noexcept {
  constexpr unsigned kMostPlain = 12;
  Items items(call, "traces", "trace");
  unsigned plain = 0;
  for (const bool special : {true, false}) {
    Matching<Traceable> sources({});
    while (Traceable* source = sources.next()) {
      const trace::CacheTrace of = trace::cache_trace(*source);
      const bool is_on = of.state == trace::State::kOn;
      const bool keeps_all = !of.keeping.counts && of.keeping.every == 1;
      if (!of.known || of.state == trace::State::kOff || special == (is_on && keeps_all)) continue;
      const std::string_view state = trace::name(of.state);
      if (of.keeping.counts) {
        items.add("{name} {state} ({keeps})", source->name(), state, "counts");
      } else if (of.keeping.every != 1) {
        items.add("{name} {state} (one in {every})", source->name(), state, of.keeping.every);
      } else if (special) {
        items.add("{name} {state}", source->name(), state);
      } else if (call.rows() || plain++ < kMostPlain) {
        items.add_on(source->name(), state);
      }
    }
  }
  if (plain > kMostPlain) items.say("{} more", plain - kMostPlain);
}

void print_stream(Invocation& call) noexcept {
  Items items(call, "stream", "stream");
  const trace::StreamFigures figures = trace::stream_figures();
  if (figures.state == trace::StreamState::kOff) return;
  items.add("number {stream} of {sources}", figures.number,
            Counted{figures.sources, "cache or arena/caches and arenas"});
  if (figures.lost != 0) items.add("{lost} lost", Counted{figures.lost, "event/events"});
}

/// @returns false if the marks could not be read because another report has the turn.
bool print_marks(Invocation& call) noexcept {
  trace::StackReport turn;
  Items items(call, "marks", "mark");
  if (turn.begin() != Status::kOk) {
    items.add("not known, as a report on stacks has not ended");
    return false;
  }
  for (const trace::Mark* mark = next_mark(turn, nullptr); mark != nullptr; mark = next_mark(turn, mark))
    items.add("{name}", static_cast<const char*>(mark->name));
  return true;
}

void print_limits(Invocation& call) noexcept {
  Items items(call, "limits", "limit");
  Matching<Cache> caches({});
  while (Cache* cache = caches.next()) {
    const CacheStats stats = cache->stats();
    if (stats.limit != 0) items.add("{name} at {limit}", cache->name(), Counted{stats.limit, "object/objects"});
    if (stats.quarantine != 0) {
      items.add("{name} with {quarantine_bytes} bytes of quarantine", cache->name(), stats.quarantine);
    }
    if (stats.reserve != 0) items.add("{name} with {reserve} in reserve", cache->name(), stats.reserve);
  }
}

CommandStatus run_status(Invocation& call) noexcept {
  print_traces(call);
  print_stream(call);
  const bool whole = print_marks(call);
  {
    Items items(call, "faults", "fault");
    for (unsigned index = 0; index < fault::kMaxFaults; ++index) {
      const fault::Fault one = fault::at(index);
      const std::string_view mode = fault::kModeNames[static_cast<unsigned>(one.mode)];
      if (one.of == fault::Of::kCache) {
        items.add("{cache} {mode} {n}, {failed} of {counted} failed", one.owner->name(), mode, one.n, one.failed,
                  one.counted);
      } else if (one.of != fault::Of::kNothing) {
        items.add("{source} {mode} {n}, {failed} of {counted} failed",
                  one.owner != nullptr ? one.owner->name() : "internal", mode, one.n, one.failed, one.counted);
      }
    }
  }
  {
    Items items(call, "guards", "guard");
    const guards::Stats stats = guards::stats();
    if (stats.slots != 0 && stats.every != 0) items.add("one in {every}", stats.every);
    if (stats.slots != 0 && stats.ms != 0) items.add("one in {ms} ms", stats.ms);
    if (stats.slots != 0) items.add("{live} in use, {freed} freed of {places}", stats.live, stats.freed, stats.slots);
  }
  print_limits(call);
  if constexpr (kCallSites) {
    Items items(call, "allocinfo", "allocinfo");
    items.add("{state}", call_sites::is_on() ? "on" : "off");
  }
  call.row("end", "status: {verdict}\n", closing_word(false, whole));
  return call.ok();
}

}  // namespace

constinit const Command status = {
    .name = "status",
    .usage = "status",
    .summary = "everything that is on: traces, stream, marks, faults, guards, limits, quarantines",
    .run = run_status,
    .example = "status",
    .in_panic = true,
    .wrap = Output::Wrap::kYes};

}  // namespace qm::console::commands
