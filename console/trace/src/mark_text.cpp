#include "mark_text.hpp"

#include "trace_text.hpp"

#include <qm/console/names.hpp>
#include <qm/hal/port.hpp>

namespace qm::console {

CommandStatus find_mark(Invocation& call, trace::StackReport& report, const trace::Mark*& mark) noexcept {
  if (report.begin() != Status::kOk) return call.fail("another report on stacks has not ended");
  mark = trace::find_mark(report, call.words()[1]);
  if (mark == nullptr) return call.fail("No such mark {}", call.words()[1]);
  return call.ok();
}

void print_coverage(Invocation& call, const trace::Coverage& coverage) noexcept {
  if (coverage.whole + coverage.partial + coverage.thin == 0) call.print("note: nothing is traced\n");
  if (coverage.thin != 0) call.print("note: {} caches are sampled or only counted\n", coverage.thin);
  if (coverage.partial != 0) call.print("note: {} caches were not traced all the time, or reset\n", coverage.partial);
}

void close_report(Invocation& call, const trace::Mark* mark, const trace::Coverage& coverage, bool aborted,
                  bool whole) noexcept {
  if (mark != nullptr) {
    call.print(", age ");
    print_seconds(call.out(), hal::Port::ticks() - mark->ticks);
  }
  call.print(", traced {} of {} caches, dropped {}: {}\n", coverage.whole, coverage.all, coverage.dropped,
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
