// Start, stop, reset: the state word's transitions, each made effective on every hart before the command answers.

#include <qm/hal/turn.hpp>
#include <qm/trace/glob.hpp>

#include "books.hpp"
#include "defect.hpp"

namespace qm::trace {
namespace {

using namespace trace_state;

constexpr unsigned kBatch = 16;  // sources a visit

constinit hal::Turn token;
constinit std::atomic<bool> stops_wait{false};  // a hart has not answered a stop

constexpr hal::HartMask bit(unsigned hart) { return hal::HartMask{1} << hart; }

/// Sources a command applies to, chained through their books.
class Selection {
 public:
  enum class Missing : std::uint8_t { kMake, kSkip };

  /// Finds the sources that @p pattern names. @param[in] missing whether one without books gets some or is passed by.
  Selection(std::string_view pattern, Missing missing, CommandResult& result) noexcept {
    RegistryCursor<Traceable> sources;
    bool found = false;
    while (Traceable* source = sources.next()) {
      if (!glob_matches(pattern, characters(source->name()))) continue;
      found = true;
      if (!source->traceable()) {
        ++result.skipped;
        if (!is_glob(pattern)) result.status = Status::kRefused;
        continue;
      }
      ++result.caches;
      SourceBooks* one = books_at(*source);
      if (one == nullptr && missing == Missing::kMake && (one = books.books_of(*source)) == nullptr) {
        result.status = Status::kNoMemory;
        return;
      }
      if (one != nullptr) add(one);
    }
    if (!found) result.status = Status::kNotFound;
  }
  ~Selection() {
    for (SourceBooks* one = first_; one != nullptr; one = one->next_selected) one->selected = false;
  }
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;

  [[nodiscard]] SourceBooks* first() const noexcept { return first_; }

 private:
  void add(SourceBooks* one) noexcept {
    one->next_selected = nullptr;
    one->selected = true;
    one->changing = false;
    (last_ != nullptr ? last_->next_selected : first_) = one;
    last_ = one;
  }

  SourceBooks* first_ = nullptr;
  SourceBooks* last_ = nullptr;
};

Traceable& source_of(const SourceBooks& one) noexcept { return *one.source.load(std::memory_order_relaxed); }

/// The cache, whose cells have to follow the word; nullptr for an arena: each of its operations reads the word.
Cache* cells_of(const SourceBooks& one) noexcept {
  Traceable& source = source_of(one);
  return source.kind() == RegistryKind::kCache ? static_cast<Cache*>(&source) : nullptr;
}

/// What a round needs to know besides the harts.
struct Patience {
  hal::AbortTest abort;
  std::uint32_t deadline_ms;
};

/// A round; while this hart is alone it only masks itself, which is possible at boot too.
bool ask(hal::HartMask harts, hal::RoundFunction function, void* argument, const Patience& patience,
         CommandResult& result) noexcept {
  if constexpr (kDefect == Defect::kNoAcknowledgement) return true;
  if (!hal::in_panic()) {
    const hal::InterruptGuard masked;
    const unsigned self = hal::Port::hart_index();
    if ((hal::online_harts() & ~bit(self)) == 0) {
      function(self, argument);
      return true;
    }
  }
  const hal::RoundResult answer = hal::run_on_harts(harts, function, argument, patience.deadline_ms, patience.abort);
  result.hart = answer.hart;
  if (!answer.ok()) result.status = status_of(answer.status);
  return answer.ok();
}

/// Up to kBatch of the selected sources, for one visit of each hart.
struct Batch {
  SourceBooks* sources[kBatch];
  unsigned count = 0;

  /// Takes the next ones from @p one on. @returns where to go on.
  SourceBooks* fill(SourceBooks* one) noexcept {
    for (count = 0; one != nullptr && count < kBatch; one = one->next_selected) {
      if (one->changing) sources[count++] = one;
    }
    return one;
  }
};

/// Changes the state word. @returns what it was.
std::uint32_t change(Traceable& source, std::uint32_t set, std::uint32_t clear) noexcept {
  std::uint32_t word = source.state().load(std::memory_order_relaxed);
  // seq_cst: against expose(), which publishes its hart's bit and then reads the word again.
  while (!source.state().compare_exchange_weak(word, (word & ~clear) | set, std::memory_order_seq_cst)) {
  }
  return word;
}

/// Objects or segments that users hold and that have no record.
Word unrecorded(const SourceBooks& one) noexcept {
  Traceable& source = source_of(one);
  Cache* cache = cells_of(one);
  const std::size_t held = cache != nullptr ? cache->stats().in_use : static_cast<Arena&>(source).segments_held();
  const std::size_t recorded = source.live_records.load(std::memory_order_relaxed);
  return held > recorded ? held - recorded : 0;
}

/// The end of a stop: only frees are watched from here on, and those only while records remain.
void settle(Traceable& source) noexcept {
  change(source, kWatch | kSettled, kHold);
  Books::end_watch_if_done(source);
}

void shut_cells(unsigned hart, void* argument) noexcept {
  const Batch& batch = *static_cast<const Batch*>(argument);
  for (unsigned i = 0; i < batch.count; ++i) {
    Cache* cache = cells_of(*batch.sources[i]);
    if (cache == nullptr) continue;
    cache->close(hart);
    cache->expose(hart);
  }
}

/// Phase 1 of start: every cell of the selected caches is closed on every hart.
bool close_everywhere(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    Traceable& source = source_of(*one);
    if ((source.state().load(std::memory_order_relaxed) & kRecord) != 0) continue;  // on already
    one->previous = change(source, kWatch | kHold | (kDefect == Defect::kOnePhaseStart ? kRecord : 0), kSettled);
    one->changing = true;
  }
  Batch batch;
  for (SourceBooks* one = selection.first(); one != nullptr;) {
    one = batch.fill(one);
    if (batch.count == 0) break;
    hal::HartMask harts = 0;
    for (unsigned i = 0; i < batch.count; ++i) {
      // `stopping`: a hart may still be recording for the time before the stop.
      const bool stopping = (batch.sources[i]->previous & (kWatch | kHold)) == (kWatch | kHold);
      Cache* cache = cells_of(*batch.sources[i]);
      harts |= stopping ? hal::online_harts() : cache != nullptr ? cache->magazine_harts() : 0;
    }
    if (!ask(harts, shut_cells, &batch, patience, result)) return false;
  }
  return true;
}

void undo_start(const Selection& selection) noexcept {
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (!one->changing || (one->previous & kHold) != 0) continue;
    settle(source_of(*one));
  }
}

void visit_for_stop(unsigned, void*) noexcept {}

/// The second half of a stop: once every hart has answered, the selected caches that are `changing` settle.
void settle_everywhere(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  bool any = false;
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) any = any || one->changing;
  // All harts, whether they have an open cell or not: a slow path that read RECORD may be under way on any.
  const bool done = !any || ask(hal::online_harts(), visit_for_stop, nullptr, patience, result);
  if (!done) stops_wait.store(true, std::memory_order_relaxed);
  if (!any || !done) return;
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (one->changing) settle(source_of(*one));
  }
}

/// Notes how far hart @p hart has counted, and up to which number its records are dead.
void note_reset(SourceBooks& one, unsigned hart) noexcept {
  HartBooks& mine = one.harts()[hart];
  mine.pending.copy_from(mine.now);
  mine.pending_dead = books.sequence.next();
  mine.visited = true;
}

void visit_for_reset(unsigned hart, void* argument) noexcept {
  const Batch& batch = *static_cast<const Batch*>(argument);
  for (unsigned i = 0; i < batch.count; ++i) note_reset(*batch.sources[i], hart);
}

/// Speaks for the harts that no round has visited: they are not online, so they count nothing meanwhile.
void note_absent_harts(const Selection& selection, hal::HartMask online) noexcept {
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    for (unsigned hart = 0; hart < books.harts(); ++hart) {
      if ((online & bit(hart)) == 0 && !one->harts()[hart].visited) note_reset(*one, hart);
    }
  }
}

bool note_everywhere(const Selection& selection, const Patience& patience, CommandResult& result) noexcept {
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->changing = true;
    for (unsigned hart = 0; hart < books.harts(); ++hart) one->harts()[hart].visited = false;
  }
  note_absent_harts(selection, hal::online_harts());
  Batch batch;
  for (SourceBooks* one = selection.first(); one != nullptr;) {
    one = batch.fill(one);
    if (!ask(hal::online_harts(), visit_for_reset, &batch, patience, result)) return false;
  }
  note_absent_harts(selection, 0);  // gone offline meanwhile, so nobody counts there
  return true;
}

void commit_reset(const Selection& selection) noexcept {
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->resets.fetch_add(1, std::memory_order_relaxed);
    for (unsigned hart = 0; hart < books.harts(); ++hart) {
      HartBooks& mine = one->harts()[hart];
      mine.base.copy_from(mine.pending);
      mine.dead_before = mine.pending_dead;
    }
  }
  books.sweep(Books::Sweep::kDead);
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->from_before_start.store(unrecorded(*one), std::memory_order_relaxed);
    Books::end_watch_if_done(source_of(*one));
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
  const std::uint64_t patience = hal::Port::tick_rate() / 1000 * deadline_ms;
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

CommandResult start(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!books.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection(pattern, Selection::Missing::kMake, result);
  if (result.status != Status::kOk) return result;
  if (!close_everywhere(selection, {abort, deadline_ms}, result)) {
    undo_start(selection);
    return result;
  }
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    if (!one->changing) continue;
    one->from_before_start.store(unrecorded(*one), std::memory_order_relaxed);
    change(source_of(*one), kRecord, 0);
    one->changes.fetch_add(1, std::memory_order_relaxed);
  }
  return result;
}

CommandResult stop(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!books.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection(pattern, Selection::Missing::kSkip, result);
  if (result.status != Status::kOk) return result;
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    const std::uint32_t before = change(source_of(*one), 0, kRecord);
    one->changing = (before & kHold) != 0;
    if ((before & kRecord) != 0) one->changes.fetch_add(1, std::memory_order_relaxed);
    if constexpr (kDefect == Defect::kEarlyReopening) settle(source_of(*one));
  }
  settle_everywhere(selection, {abort, deadline_ms}, result);
  return result;
}

bool is_stopping() noexcept { return stops_wait.load(std::memory_order_relaxed); }

CommandResult finish_stopping(std::uint32_t deadline_ms) noexcept {
  if (!books.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection("*", Selection::Missing::kSkip, result);
  result = {};
  for (SourceBooks* one = selection.first(); one != nullptr; one = one->next_selected) {
    one->changing = (source_of(*one).state().load(std::memory_order_relaxed) & (kRecord | kHold)) == kHold;
    result.caches += one->changing ? 1 : 0;
  }
  stops_wait.store(false, std::memory_order_relaxed);
  settle_everywhere(selection, {nullptr, deadline_ms}, result);
  return result;
}

CommandResult reset(std::string_view pattern, hal::AbortTest abort, std::uint32_t deadline_ms) noexcept {
  if (!books.ready() || hal::in_panic()) return refused(Status::kUnsafe);
  const CommandToken held(deadline_ms, abort);
  if (held.status() != Status::kOk) return refused(held.status());
  CommandResult result;
  const Selection selection(pattern, Selection::Missing::kSkip, result);
  if (result.status != Status::kOk || selection.first() == nullptr) return result;
  if (note_everywhere(selection, {abort, deadline_ms}, result)) commit_reset(selection);
  return result;
}

CommandResult trace_from_creation(std::string_view pattern) noexcept {
  if (!books.ready()) return refused(Status::kUnsafe);
  {
    const CommandToken held(hal::kRoundDeadlineMs);
    Status status = held.status();
    if (status == Status::kOk) status = books.open();  // first: whoever creates a cache may look at the patterns
    if (status == Status::kOk) status = books.add_pattern(pattern);
    if (status != Status::kOk) return refused(status);
  }
  CommandResult result = start(pattern);
  if (result.status == Status::kNotFound) result.status = Status::kOk;
  return result;
}

}  // namespace qm::trace
