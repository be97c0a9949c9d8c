// Start, stop, reset: the transitions of the state word. Each takes effect on every hart before the command returns.

#include <qm/hal/turn.hpp>

#include "enter.hpp"
#include "figures.hpp"
#include "selection.hpp"

namespace qm::trace {
namespace {

using namespace trace_state;

constinit hal::Turn token;
constinit std::atomic<bool> stops_wait{false};  // a hart has not answered a stop

/// The end of a stop: from here on only frees are watched, and only while records remain.
void settle(Traceable& source) noexcept {
  change(source, kWatch | kSettled, kHold);
  Tracer::end_watch_if_done(source);
}

/// Whether no selected source still has objects that were recorded in another way of keeping.
bool may_keep(const Selection& selection, const Keeping& keeping) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if ((source_of(*one).state().load(std::memory_order_relaxed) & kWatch) != 0 && !(one->keeping() == keeping))
      return false;
  }
  return true;
}

/// Sets the way of keeping of the selected sources that are off, and the start of their samples. No hart counts or
/// records for them.
void set_keeping(const Selection& selection, const Keeping& keeping) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if ((source_of(*one).state().load(std::memory_order_relaxed) & kRecord) != 0) continue;
    one->every.store(keeping.counts ? 0 : keeping.every, std::memory_order_relaxed);
    for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
      HartTrace& mine = one->harts()[hart];
      mine.random = ((one->changes.load(std::memory_order_relaxed) * 31 + one->number) * 31 + hart) * 0x9E37'79B9 | 1;
      // The number of allocations left out between two of the sample is uniform below 2N - 1. Seen from an arbitrary
      // moment, the rest of such a gap is distributed like the smaller of two draws. So the first allocation is
      // recorded with the same probability as any other.
      const std::uint32_t a = draw(mine, 2 * keeping.every - 1);
      const std::uint32_t b = draw(mine, 2 * keeping.every);
      store_relaxed(mine.to_leave_out, a < b ? a : b);
    }
  }
}

/// The state word's flag for a way of keeping.
std::uint32_t way_of(const Keeping& keeping) noexcept {
  if (keeping.counts) return kCounts;
  return keeping.every != 1 ? kSampled : 0;
}

/// Phase 1 of start: closes every per-hart cache of the selected caches on every hart.
bool close_everywhere(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    Traceable& source = source_of(*one);
    if ((source.state().load(std::memory_order_relaxed) & kRecord) != 0) continue;  // on already
    one->previous = change(source, kWatch | kHold | (kDefect == Defect::kOnePhaseStart ? kRecord : 0), kSettled);
    one->changing = true;
  }
  Batch batch;
  for (TracedSource* one = selection.first(); one != nullptr;) {
    one = batch.fill(one);
    if (batch.count == 0) break;
    hal::HartMask harts = 0;
    for (unsigned i = 0; i < batch.count; ++i) {
      // `stopping`: a hart may still be recording from before the stop.
      const bool stopping = (batch.sources[i]->previous & (kWatch | kHold)) == (kWatch | kHold);
      Cache* cache = hart_caches_of(*batch.sources[i]);
      harts |= stopping ? hal::online_harts() : cache != nullptr ? cache->open_harts() : 0;
    }
    if (!ask(harts, close_hart_caches, &batch, patience, result)) return false;
  }
  return true;
}

void undo_start(const Selection& selection) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (!one->changing || (one->previous & kHold) != 0) continue;
    settle(source_of(*one));
  }
}

/// The function of a broadcast that each hart answers between two sections.
void visit(unsigned, void*) noexcept {}

/// The second half of a stop: after every hart has answered, the selected caches that are `changing` settle.
void settle_everywhere(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  bool any = false;
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) any = any || one->changing;
  // All harts, with or without an open per-hart cache: any of them may be on a slow path that has read RECORD.
  const bool done = !any || ask(hal::online_harts(), visit, nullptr, patience, result);
  if (!done) stops_wait.store(true, std::memory_order_relaxed);
  if (!any || !done) return;
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (one->changing) settle(source_of(*one));
  }
}

/// Notes the counts of hart @p hart so far, and the number up to which its records are dead.
void note_reset(TracedSource& one, unsigned hart) noexcept {
  HartTrace& mine = one.harts()[hart];
  mine.pending.copy_from(mine.now);
  mine.pending_dead = tracer.sequence.next();
  mine.visited = true;
}

void visit_for_reset(unsigned hart, void* argument) noexcept {
  if (hart >= tracer.harts()) return;  // the hart is online but not attached: it has no figures
  const Batch& batch = *static_cast<const Batch*>(argument);
  for (unsigned i = 0; i < batch.count; ++i) note_reset(*batch.sources[i], hart);
}

/// Calls note_reset() for the harts that the broadcast has not visited: they are offline and count nothing meanwhile.
void note_absent_harts(const Selection& selection, hal::HartMask online) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
      if ((online & bit(hart)) == 0 && !one->harts()[hart].visited) note_reset(*one, hart);
    }
  }
}

bool note_everywhere(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->changing = true;
    // From the broadcast on, frees and the sweep both may remove records, and nothing is counted until the sweep is
    // over.
    one->previous = change(source_of(*one), 0, kOwned | (one->keeping().counts ? kRecord : 0));
    for (unsigned hart = 0; hart < tracer.harts(); ++hart) one->harts()[hart].visited = false;
  }
  note_absent_harts(selection, hal::online_harts());
  Batch batch;
  for (TracedSource* one = selection.first(); one != nullptr;) {
    one = batch.fill(one);
    if (!ask(hal::online_harts(), visit_for_reset, &batch, patience, result)) return false;
  }
  note_absent_harts(selection, 0);  // harts that went offline meanwhile: they count nothing
  return true;
}

/// Drops the counts of a cache. A pass may fail because slabs move between lists; it is then repeated.
void drop_counts(const TracedSource& one, const Patience& patience, CommandResult& result) noexcept {
  const std::uint64_t begin = hal::Port::ticks();
  const std::uint64_t limit = hal::ticks_of(patience.deadline_ms);
  while (!tracer.drop_counts(*hart_caches_of(one))) {
    if (patience.abort != nullptr && patience.abort()) result.status = Status::kAborted;
    if (hal::Port::ticks() - begin > limit) result.status = Status::kTimedOut;
    result.partly = result.status != Status::kOk;
    if (result.partly) return;
  }
}

void commit_reset(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->resets.fetch_add(1, std::memory_order_relaxed);
    tracer.note_change(*one);
    for (unsigned hart = 0; hart < tracer.harts(); ++hart) {
      HartTrace& mine = one->harts()[hart];
      mine.base.copy_from(mine.pending);
      mine.dead_before = mine.pending_dead;
    }
  }
  tracer.sweep(Tracer::Sweep::kDead);
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (one->keeping().counts) drop_counts(*one, patience, result);
  }
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->from_before_start.store(unrecorded(source_of(*one)), std::memory_order_relaxed);
    Tracer::end_watch_if_done(source_of(*one));
  }
}

/// The sweep is over or was cancelled: counts resume. A hart may take the short path again once it sees the effects of
/// the sweep.
void give_back_records(const Selection& selection, const Patience& patience) noexcept {
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (one->changing) change(source_of(*one), one->previous & kRecord, 0);
  }
  CommandResult unused;
  if (!ask(hal::online_harts(), visit, nullptr, patience, unused)) return;  // the longer path is correct as well
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if ((source_of(*one).state().load(std::memory_order_relaxed) & kRecord) != 0) change(source_of(*one), kOwned, 0);
  }
}

CommandResult refused(Status status) noexcept {
  CommandResult result;
  result.status = status;
  return result;
}

}  // namespace

// ---- the token ------------------------------------------------------------------------------------------------------

CommandToken::CommandToken(std::uint32_t deadline_ms, hal::AbortTest abort) noexcept {
  const std::uint64_t start_ticks = hal::Port::ticks();
  const std::uint64_t patience = hal::ticks_of(deadline_ms);
  while (!token.take_or_wait()) {
    if (hal::in_panic()) status_ = Status::kUnsafe;
    if (deadline_ms != 0 && hal::Port::ticks() - start_ticks > patience) status_ = Status::kBusy;
    if (abort != nullptr && abort()) status_ = Status::kAborted;
    if (status_ != Status::kOk) return;
  }
}

CommandToken::~CommandToken() {
  if (status_ != Status::kOk) return;
  token.give_back();
}

// ---- the commands ---------------------------------------------------------------------------------------------------

CommandResult start(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms,
                    const Keeping& keeping) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  if (keeping.every == 0 || keeping.every > Keeping::kMostEvery || (keeping.counts && keeping.every != 1)) {
    return refused(Status::kInvalid);
  }
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection(pattern, Selection::Missing::kMake, result,
                            keeping.counts ? Selection::Kind::kCaches : Selection::Kind::kAll);
  if (result.status != Status::kOk) return result;
  if (!may_keep(selection, keeping)) {
    result.status = Status::kMismatch;
    return result;
  }
  if (!close_everywhere(selection, {abort, deadline_ms}, result)) {
    undo_start(selection);
    return result;
  }
  set_keeping(selection, keeping);
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (!one->changing) continue;
    one->from_before_start.store(unrecorded(source_of(*one)), std::memory_order_relaxed);
    one->traced.store(true, std::memory_order_relaxed);
    change(source_of(*one), kRecord | kOwned | way_of(keeping), 0);
    tracer.note_change(*one);
  }
  return result;
}

CommandResult stop(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const bool dropped = tracer.drop_patterns(pattern);  // first, so that sources created from here on are not traced
  const Selection selection(pattern, Selection::Missing::kSkip, result);
  if (dropped && result.status == Status::kNotFound) result.status = Status::kOk;
  if (result.status != Status::kOk) return result;
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    const std::uint32_t before = change(source_of(*one), 0, kRecord | kOwned | kThin);
    one->changing = (before & kHold) != 0;
    if ((before & kRecord) != 0) tracer.note_change(*one);
    if constexpr (kDefect == Defect::kEarlyReopening) settle(source_of(*one));
  }
  settle_everywhere(selection, {abort, deadline_ms}, result);
  return result;
}

bool is_stopping() noexcept { return stops_wait.load(std::memory_order_relaxed); }

CommandResult finish_stopping(std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection("*", Selection::Missing::kSkip, result);
  result = {};
  for (TracedSource* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->changing = (source_of(*one).state().load(std::memory_order_relaxed) & (kRecord | kHold)) == kHold;
    result.caches += one->changing ? 1 : 0;
  }
  stops_wait.store(false, std::memory_order_relaxed);
  settle_everywhere(selection, {nullptr, deadline_ms}, result);
  return result;
}

CommandResult reset(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection(pattern, Selection::Missing::kSkip, result);
  if (result.status == Status::kNotFound && tracer.keeps(pattern)) result.status = Status::kOk;
  if (result.status != Status::kOk || selection.first() == nullptr) return result;
  const Patience patience{abort, deadline_ms};
  if (note_everywhere(selection, patience, result)) commit_reset(selection, patience, result);
  give_back_records(selection, patience);
  return result;
}

CommandResult trace_from_creation(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!tracer.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  bool was_kept = false;
  {
    const CommandToken held(deadline_ms, abort);
    Status status = held.status();
    if (status == Status::kOk) status = tracer.open();  // first: creating a cache may read the patterns
    was_kept = tracer.keeps(pattern);
    if (status == Status::kOk) status = tracer.keep_pattern(pattern);
    if (status != Status::kOk) return refused(status);
  }
  CommandResult result = start(pattern, abort, deadline_ms);
  if (result.status == Status::kNotFound) result.status = Status::kOk;
  if (result.status != Status::kOk && !was_kept) tracer.drop_pattern(pattern);
  return result;
}

}  // namespace qm::trace
