// What programs call: commands by name, dumps.

#include <qm/trace/dump.hpp>
#include <qm/trace/glob.hpp>
#include <qm/trace/live_trace.hpp>

#include "books.hpp"

namespace qm::trace {
namespace {

/// A command on what a pattern names.
struct Selection {
  Action action;
  std::string_view pattern;
  std::uint32_t sources = 0;  ///< a bit for each number
  CommandResult result;

  void apply(Traceable& of, std::size_t out) noexcept {
    const Status status = books.apply(action, of, out);
    if (status == Status::kOk) {
      ++result.caches;
      sources |= std::uint32_t{1} << of.number();
    } else if (status == Status::kRefused) {
      ++result.skipped;
    } else {
      result.status = status;
    }
  }
};

void consider(Cache& cache, void* context) noexcept {
  Selection& selection = *static_cast<Selection*>(context);
  if (cache.name() != nullptr && glob_matches(selection.pattern, characters(cache.name())))
    selection.apply(cache.traceable(), cache.in_use());
}

Selection select(Action action, std::string_view pattern) noexcept {
  Selection selection{action, pattern, 0, {}};
  CommandResult& result = selection.result;
  if (!books.ready()) {
    result.status = Status::kUnsafe;
    return selection;
  }
  if (glob_matches(pattern, kHeapName)) selection.apply(heap::traceable(), heap::blocks_out());
  Cache::for_each(consider, &selection);
  if (result.caches == 0 && result.status == Status::kOk)
    result.status = result.skipped != 0 ? Status::kRefused : Status::kNotFound;
  return selection;
}

}  // namespace

Status initialize(const Config& config) noexcept { return books.initialize(config); }
void shutdown() noexcept { books.shutdown(); }

CommandResult start(std::string_view pattern) noexcept { return select(Action::kStart, pattern).result; }
CommandResult stop(std::string_view pattern) noexcept { return select(Action::kStop, pattern).result; }
CommandResult reset(std::string_view pattern) noexcept {
  const CommandResult result = select(Action::kReset, pattern).result;
  if (result.caches != 0) books.sweep();
  return result;
}

Status start(Traceable& source, std::size_t out) noexcept { return books.apply(Action::kStart, source, out); }
Status stop(Traceable& source) noexcept { return books.apply(Action::kStop, source, 0); }
Status reset(Traceable& source, std::size_t out) noexcept {
  const Status status = books.apply(Action::kReset, source, out);
  if (status == Status::kOk) books.sweep();
  return status;
}

CacheTrace cache_trace(const Traceable& source) noexcept { return books.look(source.number()); }
Totals totals() noexcept { return books.totals(); }
bool validate() noexcept { return books.validate(); }

// ---- dumps ----------------------------------------------------------------------------------------------------------

bool find(const Traceable& source, std::uintptr_t object, DumpEntry& entry) noexcept {
  return books.find(source.number(), object, entry);
}

void Dump::begin_of(std::uint32_t sources) noexcept {
  *this = {};
  sources_ = sources;
  window_ = books.window();
}

Status Dump::begin(std::string_view pattern) noexcept {
  const Selection selection = select(Action::kLook, pattern);
  begin_of(selection.sources);
  return selection.result.status;
}

bool Dump::next(DumpEntry& entry) noexcept {
  ended_ = !books.next(sources_, last_, window_, entry);
  if (ended_) return false;
  last_ = entry.sequence;
  ++shown_;
  if (entry.truncated) ++truncated_;
  return true;
}

DumpSummary Dump::finish() const noexcept {
  DumpSummary summary;
  summary.outstanding = shown_;
  summary.truncated_shown = truncated_;
  summary.ended = ended_ && books.ready();
  if (books.ready()) books.summarize(sources_, window_, summary);
  return summary;
}

}  // namespace qm::trace
