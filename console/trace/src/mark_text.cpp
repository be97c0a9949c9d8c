#include "mark_text.hpp"

#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/console/row.hpp>
#include <qm/hal/port.hpp>

namespace qm::console {

CommandStatus find_mark(Invocation& call, trace::StackReport& report, const trace::Mark*& mark) noexcept {
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  mark = trace::find_mark(report, call.words()[1]);
  if (mark == nullptr) return call.fail("No such mark {}", call.words()[1]);
  return call.ok();
}

std::string_view Scope::background_of(Invocation& call) noexcept { return call.console().config().background; }

CommandStatus Scope::read(Invocation& call, const Query& query) noexcept {
  if (!query.older.empty()) {
    const CommandStatus status = read_older(call, query.older, before_);
    if (status != CommandStatus::kOk) return status;
  }
  for (unsigned at = 0; at < query.pattern_count; ++at) {
    std::string_view pattern = query.patterns[at];
    patterns_[count_++] = pattern;
    const bool leaves_out = pattern[0] == '-';
    named_ = named_ || !leaves_out;
    if (leaves_out) pattern.remove_prefix(1);
    if (!names_any<Traceable>(pattern)) return call.fail("No such slab {}", pattern);
  }
  return call.ok();
}

bool Scope::includes(Traceable& source) const noexcept {
  const std::string_view name = from_c(source.name());
  bool named = false;
  for (unsigned i = 0; i < count_; ++i) {
    const bool leaves_out = patterns_[i][0] == '-';
    if (leaves_out && names(part(patterns_[i], 1), name)) return false;
    named = named || (!leaves_out && names(patterns_[i], name));
  }
  if (named_) return named;
  if (name == "kmem_cache") return false;
  for (std::string_view list = background_; !list.empty();) {
    if (glob_matches(next_item(list), name)) return false;
  }
  return true;
}

trace::Coverage Scope::coverage_since(const trace::Mark* mark) const noexcept {
  const auto is_meant = [](const void* scope, Traceable& source) noexcept {
    return static_cast<const Scope*>(scope)->includes(source);
  };
  return trace::coverage_since(mark, is_meant, this);
}

void Scope::select(trace::StackReport& report, const trace::Mark& mark) noexcept {
  for (const bool meant : {false, true}) {
    (void)report.begin();
    Matching<Traceable> sources({});
    while (Traceable* source = sources.next()) {
      if (includes(*source) == meant) report.select(*source, trace::StackReport::Own::kLeaveOut);
    }
    if (meant) return;
    report.count_since(mark.sequence, before_);
    left_out_ = report.totals();
  }
}

void Scope::print_left_out(Invocation& call, std::uint64_t own_objects, std::uint64_t own_bytes) const noexcept {
  if (!named_ && left_out_.objects != 0) {
    call.note("left out: {}, {} bytes of kmem_cache{}{}", Counted{left_out_.objects, "object/objects"}, left_out_.bytes,
              background_.empty() ? "" : ",", background_);
    for (unsigned i = 0; i < count_; ++i) call.print(",{}", part(patterns_[i], 1));
    call.print("\n");
  }
  if (own_objects != 0)
    call.note("left out: {} of the allocator, {} bytes\n", Counted{own_objects, "slab or span/slabs and spans"},
              own_bytes);
}

void print_coverage(Invocation& call, const trace::Coverage& coverage) noexcept {
  if (coverage.whole + coverage.partial + coverage.thin == 0) call.note("nothing is traced\n");
  if (coverage.thin != 0) call.note("{} sampled or only counted\n", Counted{coverage.thin, "cache is/caches are"});
  if (coverage.partial != 0)
    call.note("{} not traced all the time, or reset\n", Counted{coverage.partial, "cache was/caches were"});
}

void close_report(Row& row, const trace::Mark* mark, const trace::Coverage& coverage, bool aborted,
                  bool whole) noexcept {
  if (mark != nullptr) row.print(", age {age_ms}", duration(hal::Port::ticks() - mark->ticks));
  row.print("\ntraced {traced} of {all_caches} caches, dropped {dropped}: {verdict}\n", coverage.whole, coverage.all,
            coverage.dropped, closing_word(aborted, whole && coverage.complete()));
}

void complete_mark(Completion& completion) noexcept {
  if (completion.index() == 1) offer_marks(completion);
}

void offer_marks(Completion& completion) noexcept {
  trace::StackReport turn;
  if (turn.begin() != Status::kOk) return;
  for (const trace::Mark* mark = next_mark(turn, nullptr); mark != nullptr; mark = next_mark(turn, mark)) {
    completion.offer(from_c(mark->name));
  }
}

}  // namespace qm::console
