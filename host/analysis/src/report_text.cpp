#include <fmt/core.h>

#include <algorithm>
#include <iterator>
#include <span>

#include <qm/analysis/report.hpp>
#include <qm/analysis/symbolize.hpp>
#include <qm/host/counted.hpp>

namespace qm::analysis {
namespace {

constexpr std::size_t kNameColumns = 36;

/// Builds the text. Each figure that may be wrong has a mark that says why.
class Writer {
 public:
  explicit Writer(const Report& report) : report_(report), summary_(*report.summary) {
    // The mark of a lower bound has priority over the mark of an estimate.
    if (summary_.sampled()) mark_ = "~";
    if (summary_.lost() > 0 || summary_.counters_only() || !summary_.end().whole(summary_.stream())) mark_ = "*";
  }

  template <class... Arguments>
  void line(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    fmt::format_to(std::back_inserter(text_), format, std::forward<Arguments>(arguments)...);
    text_ += '\n';
  }

  void heading();
  void totals();
  void left_out();
  void sites(const char* title, const std::vector<Entry>& entries, std::size_t top);
  void stacks(std::size_t top);
  void traceables(std::size_t top);
  void harts();
  void lifetimes();
  void leaks(std::size_t top);
  void timeline();
  void fragmentation(const Fragmentation& of);
  void closing();
  [[nodiscard]] std::string take() { return std::move(text_); }

 private:
  [[nodiscard]] std::string number(double value) const { return fmt::format("{:.0f}{}", value, mark_); }
  [[nodiscard]] std::string bytes(double value) const { return bytes_text(value) + mark_; }
  /// @returns a number and its noun, singular or plural.
  [[nodiscard]] std::string counted(double value, const char* one, const char* many) const {
    return fmt::format("{} {}", number(value), value == 1 ? one : many);
  }
  [[nodiscard]] std::string percent(double value) const { return fmt::format("{:.3f}%{}", value, mark_); }
  void columns();
  void row(const std::string& name, const Figures& figures);
  void rest(std::size_t shown, std::size_t all, const char* one, const char* many) {
    if (shown < all) line(" ... {} more {}", all - shown, all - shown == 1 ? one : many);
  }

  const Report& report_;
  const Summary& summary_;
  std::string text_;
  std::string mark_;
};

std::string shortened(const std::string& name, std::size_t columns) {
  return name.size() <= columns ? name : name.substr(0, columns - 1) + "~";
}

void Writer::heading() {
  const host::StreamHeader& header = summary_.definitions().header;
  line("{}: stream {} of {}, {}, {} in {}{}", report_.file, summary_.stream(), summary_.streams(),
       host::counted(header.harts, "hart"), host::counted(summary_.events(), "event"),
       seconds_text(summary_.seconds(summary_.last_ticks())), header.from_boot ? ", from the first allocation on" : "");
  if (!header.build_id.empty()) line("image {}", header.build_id);
  if (summary_.options().since_seconds > 0) line("since {}", seconds_text(summary_.options().since_seconds));
  if (!summary_.options().cache.empty()) line("only {}", summary_.options().cache);
  for (const std::string& problem : report_.problems) line("INCOMPLETE: {}", problem);
  if (!mark_.empty()) {
    line("figures marked {} are {}", mark_,
         mark_ == "~" ? "estimates" : "of what is here: what is missing may make them larger or smaller");
  }
}

void Writer::totals() {
  const Figures& all = summary_.totals();
  const double waste = all.allocated - all.requested;
  line("");
  line("Total bytes requested:              {:>16}", number(all.requested));
  line("Total bytes allocated:              {:>16}", number(all.allocated));
  line("Total bytes freed:                  {:>16}", number(all.freed));
  line("Net total bytes allocated:          {:>16}", number(all.allocated - all.freed));
  line("Wasted on internal fragmentation:   {:>16}", number(waste));
  line("Internal fragmentation:             {:>16}", percent(all.waste_percent()));
  line("Allocations:                        {:>16}", number(all.allocations));
  line("Frees:                              {:>16}", number(all.frees));
  line("Reallocations among both:           {:>16}", number(summary_.reallocations()));
  line("Cross-hart frees:                   {:>16}", number(all.cross_hart_frees));
  line("Live at the end, bytes:             {:>16}", number(all.live_bytes));
  line("Live at the end, objects:           {:>16}", number(all.live_objects));
  line("Peak of live bytes:                 {:>16}  after {}", number(all.peak_bytes),
       seconds_text(summary_.seconds(summary_.peak_ticks())));
  left_out();
  if (summary_.unknown_frees() > 0)
    line("Frees of objects from before:       {:>16}", number(summary_.unknown_frees()));
  if (summary_.replaced() > 0) line("Objects whose free is missing:      {:>16}", number(summary_.replaced()));
}

/// Reports the objects that `qm check` counts as live and the totals leave out.
void Writer::left_out() {
  Figures arenas, caches;
  for (const TraceableEntry& entry : report_.traceables) {
    if (!entry.counted) (entry.kind == host::EventKind::kArena ? arenas : caches) += entry.figures;
  }
  if (arenas.live_objects > 0) {
    line("Live in arenas, not in the totals:  {:>16}  of {}", number(arenas.live_bytes),
         counted(arenas.live_objects, "segment", "segments"));
  }
  if (caches.live_objects > 0) {
    line("Live in caches that are left out:   {:>16}  of {}", number(caches.live_bytes),
         counted(caches.live_objects, "object", "objects"));
  }
}

void Writer::columns() {
  line("{}", std::string(120, '-'));
  line(" {:<{}} | {:>15} | {:>15} | {:>10} | {:>9} | {:>9} | {:>8}", "Callsite", kNameColumns, "Total_alloc/Per",
       "Total_req/Per", "Live bytes", "Hit", "Ping-pong", "Frag");
  line("{}", std::string(120, '-'));
}

void Writer::row(const std::string& name, const Figures& figures) {
  const double per = figures.allocations > 0 ? figures.allocations : 1;
  line(" {:<{}} | {:>15} | {:>15} | {:>10} | {:>9} | {:>9} | {:>8}", shortened(name, kNameColumns), kNameColumns,
       fmt::format("{}/{:.0f}", number(figures.allocated), figures.allocated / per),
       fmt::format("{}/{:.0f}", number(figures.requested), figures.requested / per), bytes(figures.live_bytes),
       number(figures.allocations), number(figures.cross_hart_frees), percent(figures.waste_percent()));
}

void Writer::sites(const char* title, const std::vector<Entry>& entries, std::size_t top) {
  line("");
  line("{}", title);
  columns();
  const std::size_t shown = std::min(top, entries.size());
  for (std::size_t index = 0; index < shown; ++index) row(entries[index].name, entries[index].figures);
  rest(shown, entries.size(), "call site", "call sites");
}

void Writer::stacks(std::size_t top) {
  line("");
  line("Stacks");
  columns();
  const std::size_t shown = std::min(top, report_.stacks.size());
  for (std::size_t index = 0; index < shown; ++index) {
    const StackEntry& stack = report_.stacks[index];
    row("stack " + stack.origin.stack, stack.figures);
    if (!stack.origin.call_site.empty()) line("     at {}", stack.origin.call_site);
    for (const StackFrame& frame : stack.frames) {
      if (frame.pc == 0) continue;  // the call site
      line("     {:#x}{}{}", frame.pc, frame.frame.function.empty() ? "" : " " + describe(frame.frame),
           frame.frame.inlined ? ", inlined by" : "");
    }
    if (stack.truncated) line("     (truncated)");
    if (stack.collided) line("     (another stack has the same id)");
  }
  rest(shown, report_.stacks.size(), "stack", "stacks");
}

void Writer::traceables(std::size_t top) {
  line("");
  line(" {:<31} | {:>8} | {:>10} | {:>12} | {:>10} | {:>12} | {:>12} | {:>8}", "Cache or arena", "Object", "Allocs",
       "Bytes", "Live", "Live bytes", "Peak bytes", "Frag");
  line("{}", std::string(126, '-'));
  const std::size_t shown = std::min(top, report_.traceables.size());
  for (std::size_t index = 0; index < shown; ++index) {
    const TraceableEntry& entry = report_.traceables[index];
    const Figures& of = entry.figures;
    const char* const note = entry.counted                           ? ""
                             : entry.kind == host::EventKind::kArena ? "  (arena: not in the totals)"
                                                                     : "  (left out)";
    line(" {:<31} | {:>8} | {:>10} | {:>12} | {:>10} | {:>12} | {:>12} | {:>8}{}", shortened(entry.name, 31),
         entry.object_bytes, number(of.allocations), bytes(of.allocated), number(of.live_objects), bytes(of.live_bytes),
         bytes(of.peak_bytes), fmt::format("{:.2f}%", of.waste_percent()), note);
    if (entry.outstanding != 0) line("   and {} from before, in no figure", host::counted(entry.outstanding, "object"));
  }
  rest(shown, report_.traceables.size(), "cache or arena", "caches and arenas");
}

void Writer::harts() {
  line("");
  line(" {:<6} | {:>10} | {:>12} | {:>10} | {:>12} | {:>12} | {:>12} | {:>12}", "Hart", "Allocs", "Bytes", "Frees",
       "Ping-pong", "Live bytes", "Lost: ring", "Lost: line");
  line("{}", std::string(112, '-'));
  for (std::size_t index = 0; index < summary_.harts().size(); ++index) {
    const Summary::HartRow& hart = summary_.harts()[index];
    const Figures& of = hart.figures;
    line(" {:<6} | {:>10} | {:>12} | {:>10} | {:>12} | {:>12} | {:>12.0f} | {:>12.0f}", index, number(of.allocations),
         bytes(of.allocated), number(of.frees), number(of.cross_hart_frees), bytes(of.live_bytes), hart.lost_on_target,
         hart.lost_on_line);
  }
}

void Writer::lifetimes() {
  const Lifetimes& all = summary_.lifetimes();
  double sum = 0, most = 0;
  std::size_t first = Lifetimes::kBuckets, last = 0;
  for (std::size_t bucket = 0; bucket < Lifetimes::kBuckets; ++bucket) {
    sum += all.objects[bucket];
    most = std::max(most, all.objects[bucket]);
    if (all.objects[bucket] == 0) continue;
    first = std::min(first, bucket);
    last = bucket;
  }
  line("");
  if (sum == 0) return line("Lifetimes: no object was freed");
  line("Lifetimes of {}, {} on average, {} at most", counted(sum, "freed object", "freed objects"),
       seconds_text(summary_.seconds_long(all.ticks / sum)),
       seconds_text(summary_.seconds_long(static_cast<double>(all.longest))));
  double so_far = 0;
  for (std::size_t bucket = first; bucket <= last; ++bucket) {
    so_far += all.objects[bucket];
    line("  below {:>9} | {:>10} | {:>6.2f}% | {}",
         seconds_text(summary_.seconds_long(static_cast<double>(std::uint64_t{1} << bucket))),
         number(all.objects[bucket]), 100 * so_far / sum,
         std::string(static_cast<std::size_t>(60 * all.objects[bucket] / most), '#'));
  }
}

void Writer::leaks(std::size_t top) {
  std::vector<const StackEntry*> suspects;
  for (const StackEntry& stack : report_.stacks) {
    if (stack.suspects.objects > 0) suspects.push_back(&stack);
  }
  std::stable_sort(suspects.begin(), suspects.end(),
                   [](const StackEntry* a, const StackEntry* b) { return a->suspects.bytes > b->suspects.bytes; });
  line("");
  line(
      "Leak candidates: out more than twice as long as any object of their stack that was freed, and than a tenth of "
      "the recording");
  if (suspects.empty()) line("  none");
  const std::size_t shown = std::min(top, suspects.size());
  for (std::size_t index = 0; index < shown; ++index) {
    const StackEntry& stack = *suspects[index];
    line("  {} in {}, the oldest {} old, of {} allocated; {}", bytes_in_words(stack.suspects.bytes) + mark_,
         counted(stack.suspects.objects, "object", "objects"),
         seconds_text(summary_.seconds_long(static_cast<double>(stack.suspects.oldest_ticks))),
         number(stack.figures.allocations),
         stack.figures.frees == 0
             ? "none was ever freed"
             : fmt::format("freed ones lived {} at most",
                           seconds_text(summary_.seconds_long(static_cast<double>(stack.lifetimes.longest)))));
    line("    stack {} {}", stack.origin.stack, stack.name);
    const std::span<const StackFrame> callers = stack.callers();
    for (std::size_t frame = 1; frame < std::min<std::size_t>(callers.size(), 6); ++frame) {
      line("      {}", callers[frame].frame.function.empty() ? fmt::format("{:#x}", callers[frame].pc)
                                                             : describe(callers[frame].frame));
    }
  }
  rest(shown, suspects.size(), "stack", "stacks");
}

void Writer::timeline() {
  const Timeline& timeline = summary_.timeline();
  const std::vector<double>& peaks = timeline.values(Summary::kPeakSeries);
  const std::vector<double>& ends = timeline.values(Summary::kTotalSeries);
  const std::vector<double>& rates = timeline.values(Summary::kRateSeries);
  const double most = std::max(1.0, *std::max_element(peaks.begin(), peaks.end()));
  const std::size_t step = (peaks.size() + 31) / 32;
  const double seconds = summary_.seconds_long(static_cast<double>(timeline.bucket_ticks() * step));
  line("");
  line("Live bytes over time, a line each {}", seconds_text(seconds));
  line("  {:>9} | {:>12} | {:>12} | {:>14} |", "from", "at the end", "at most", "allocated / s");
  for (std::size_t from = 0; from < peaks.size(); from += step) {
    const std::size_t to = std::min(from + step, peaks.size());
    double peak = 0, sum = 0;
    for (std::size_t bucket = from; bucket < to; ++bucket) {
      peak = std::max(peak, peaks[bucket]);
      sum += rates[bucket];
    }
    line("  {:>9} | {:>12} | {:>12} | {:>14} | {}",
         seconds_text(seconds * static_cast<double>(from) / static_cast<double>(step)), bytes(ends[to - 1]),
         bytes(peak), bytes(seconds > 0 ? sum / seconds : 0),
         std::string(static_cast<std::size_t>(50 * peak / most), '#'));
  }
}

void Writer::fragmentation(const Fragmentation& of) {
  line("");
  line("Fragmentation, of {}; long-lived: for more than a tenth of them", host::counted(of.operations, "operation"));
  line("Peak of bytes in use:               {:>16}", of.peak_in_use);
  line("Peak of bytes in pages with objects:{:>16}", of.peak_spanned);
  line("Worst moment: after operation {}, at {}: {} in use in pages of {}", of.worst_operation + 1,
       seconds_text(summary_.seconds(of.worst_ticks)), bytes_in_words(static_cast<double>(of.worst_in_use)),
       bytes_in_words(static_cast<double>(of.worst_spanned)));
  line("");
  line(" {:<{}} | {:>12} | {:>6} | {:>8} | {:>10} | {}", "Pins pages, unused but for", kNameColumns, "Unused bytes",
       "Pages", "Objects", "Median age", "Lived there to 1 % of operations, 10 %, longer");
  line("{}", std::string(120, '-'));
  for (const Pin& pin : of.pins) {
    line(" {:<{}} | {:>12} | {:>6} | {:>8} | {:>10} | {}, {}, {} objects", shortened(pin.site, kNameColumns),
         kNameColumns, bytes_text(static_cast<double>(pin.bytes)), pin.pages, pin.objects,
         seconds_text(summary_.seconds_long(static_cast<double>(pin.median_ticks))), pin.lifetimes[0], pin.lifetimes[1],
         pin.lifetimes[2]);
  }
  if (of.pins.empty()) line(" none");
}

void Writer::closing() {
  line("");
  line("sites {}, stacks {}, caches and arenas {}, events {}: {}", report_.sites.size(), report_.stacks.size(),
       report_.traceables.size(), summary_.events(), report_.problems.empty() ? "complete" : "incomplete");
}

}  // namespace

std::string report_text(const Report& report, const TextOptions& options) {
  Writer writer(report);
  writer.heading();
  if (report.summary->stream() == 0) return writer.take();
  writer.totals();
  writer.sites("Call sites", report.sites, options.top);
  if (options.stacks) writer.stacks(options.top);
  writer.traceables(options.top);
  writer.harts();
  if (options.lifetimes) writer.lifetimes();
  if (options.leaks) writer.leaks(options.top);
  if (options.timeline) writer.timeline();
  if (report.fragmentation) writer.fragmentation(*report.fragmentation);
  writer.closing();
  return writer.take();
}

}  // namespace qm::analysis
