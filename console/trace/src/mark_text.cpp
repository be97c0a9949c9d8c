#include "mark_text.hpp"

#include "trace_text.hpp"

#include <qm/console/console.hpp>
#include <qm/console/names.hpp>
#include <qm/hal/port.hpp>

namespace qm::console {

CommandStatus find_mark(Invocation& call, trace::StackReport& report, const trace::Mark*& mark) noexcept {
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  mark = trace::find_mark(report, call.words()[1]);
  if (mark == nullptr) return call.fail("No such mark {}", call.words()[1]);
  return call.ok();
}

Scope::Scope(Invocation& call, std::string_view pattern) noexcept
    : pattern_(pattern), background_(call.console().config().background) {}

bool Scope::includes(Traceable& source) const noexcept {
  const std::string_view name = from_c(source.name());
  if (!pattern_.empty()) return names(pattern_, name);
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
    report.count_since(mark.sequence);
    left_out_ = report.totals();
  }
}

void Scope::print_left_out(Invocation& call, std::uint64_t own_objects, std::uint64_t own_bytes) const noexcept {
  if (pattern_.empty() && left_out_.objects != 0) {
    call.print("note: left out: {}, {} bytes of kmem_cache{}{}\n", Counted{left_out_.objects, "object/objects"},
               left_out_.bytes, background_.empty() ? "" : ",", background_);
  }
  if (own_objects != 0)
    call.print("note: left out: {} of the allocator, {} bytes\n", Counted{own_objects, "slab or span/slabs and spans"},
               own_bytes);
}

void print_coverage(Invocation& call, const trace::Coverage& coverage) noexcept {
  if (coverage.whole + coverage.partial + coverage.thin == 0) call.print("note: nothing is traced\n");
  if (coverage.thin != 0)
    call.print("note: {} sampled or only counted\n", Counted{coverage.thin, "cache is/caches are"});
  if (coverage.partial != 0)
    call.print("note: {} not traced all the time, or reset\n", Counted{coverage.partial, "cache was/caches were"});
}

void close_report(Invocation& call, const trace::Mark* mark, const trace::Coverage& coverage, bool aborted,
                  bool whole) noexcept {
  if (mark != nullptr) {
    call.print(", age ");
    print_seconds(call.out(), hal::Port::ticks() - mark->ticks);
  }
  call.print("\ntraced {} of {} caches, dropped {}: {}\n", coverage.whole, coverage.all, coverage.dropped,
             closing_word(aborted, whole && coverage.complete()));
}

void complete_mark(Completion& completion) noexcept {
  trace::StackReport turn;
  if (completion.index() != 1 || turn.begin() != Status::kOk) return;
  for (const trace::Mark* mark = next_mark(turn, nullptr); mark != nullptr; mark = next_mark(turn, mark)) {
    completion.offer(from_c(mark->name));
  }
}

}  // namespace qm::console
