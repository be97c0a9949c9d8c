// Start, stop and reset of the trace: an allocation that begins after a start has returned and ends before a stop is given
// has a record; one that begins after the stop has returned has none; a free removes the record before the object is
// released; and the records are counted right, so the watch ends with the last one.
//
// layer: trace
// harts: 3
//
// Harts 0 and 1 allocate and free, two operations each, on fast and slow paths; either frees what the other has allocated.
// Hart 2 gives three commands: start, then two of start, stop and reset in any order. A request is served between two
// masked sections; broadcast.pml has the request itself, closing.pml the per-hart caches that harts open
// for the first time meanwhile.
//
// Memory order: the commands wait for each hart, which orders what they did before with what the hart does after. One
// variable is read without such an order: the cache of a record, which claim_own() reads alone. A sweep clears it after the
// number, by a relaxed store; the model keeps that store in a buffer until the next broadcast of the commander.
//
// Not covered: samples, counts and the event stream; arenas; a command that is given up, or whose harts are late; stashes:
// an object's record has one slot, and only an object's own record is looked for there; live_records for several sources.
//
// mutant ONE_PHASE_START: start begins to record when each hart closes its per-hart cache
// mutant EARLY_REOPENING: stop ends the watching before every hart has answered
// mutant NO_ACKNOWLEDGEMENT: start, stop and reset do not wait for the harts
// mutant WORD_READ_EARLIER: a record is made by a state word that was read in an earlier masked section
// mutant SWEEPS_BESIDE_OWNERS: a reset sweeps while frees remove records without a compare-and-swap
// mutant OWNED_TOO_EARLY: after the sweep, frees remove records so again before every hart has answered
// mutant NO_LOOK_AFTER_SETTLING: a stop that settles does not look whether the last record is gone
// mutant NOTED_BEFORE_ANSWERS: a reset sweeps before every hart has noted the number below which its records are dead

#define WORKERS 2
#define OBJECTS 2
#define BIT(object) (1 << (object))

// The state word.
#define WATCH 1
#define HOLD 2
#define RECORD 4
#define SETTLED 8
#define OWNED 16
byte word;

// The modes of a per-hart cache.
#define OPEN 0
#define WATCHING 1
#define CLOSED 2
byte mode[WORKERS];

byte magazine[WORKERS]; // sets of objects
byte held = 2;          // by users

// The record of an object: free if the number is 0 or the cache is false.
byte number[OBJECTS];
bool cache[OBJECTS];
byte hart_of[OBJECTS];
bool clear_buffered[OBJECTS]; // a sweep has cleared the cache, and other harts do not see it yet
byte live;
byte next = 1; // the sequence

bool asked[WORKERS];
byte request;
#define CLOSE 1 /* the per-hart caches */
#define VISIT 2 /* the hart does nothing but answer */
#define NOTE 3  /* the number below which its records are dead */
byte dead_before[WORKERS];

// What the properties need: the phase changes when a command is given and when it has returned.
byte phase;
bool on;     // a start or a reset has returned, and no command is under way
bool off = true; // a stop has returned, or no start was given
byte allocated; // objects that users hold and whose allocation has returned
byte former;    // those of them from before the reset that is under way

// step: alloc/src/cache/cache.cpp: const bool watching = (word & trace_state::kClosesPush) != 0 || reserve_missing() != 0;
#define MODE(seen) ((seen & HOLD) != 0 -> CLOSED : ((seen & WATCH) != 0 -> WATCHING : OPEN))

// step: trace/src/tracer_record.cpp: void Tracer::end_watch_if_done(Traceable& source)
inline end_watch_if_done() {
  if
  :: atomic { word == (WATCH | SETTLED) -> skip };
     if
     :: atomic { live == 0 -> skip };
        // step: trace/src/tracer_record.cpp: source.state().compare_exchange_weak(word, word & trace_state::kNotOfLiveTrace
        atomic { word = (word == (WATCH | SETTLED) -> 0 : word) }
     :: atomic { live != 0 -> skip }
     fi
  :: atomic { word != (WATCH | SETTLED) -> skip }
  fi
}

#define BETWEEN 0
#define ALLOCATES 1 /* in the slow half, with the object, which has no record yet */
#define UNSETTLED 2 /* the same, between two masked sections */
#define INSERTS 3
#define OPENS 4
#define RETURNS 5   /* from an allocation */
#define FREES 6
#define FORGETS 7   /* the masked section of a free that removes a record with a compare-and-swap begins */
#define RELEASES 8
#define IS_UNMASKED (step == BETWEEN || step == UNSETTLED || step == FORGETS)

proctype Worker(byte me) {
  byte operations = 2;
  byte step, object, seen, begun, mine;
  bool was_on, was_off, allocating, last;
end_idle:
  do
  // A request, between two masked sections.
  :: atomic { asked[me] && IS_UNMASKED ->
       if
       // step: trace/src/commands.cpp: mine.pending_dead = tracer.sequence.next();
       :: request == NOTE -> dead_before[me] = next; next++
       // step: trace/src/selection.hpp: cache->close(hart);
       // step: trace/src/selection.hpp: cache->open_hart_cache(hart);
       :: request == CLOSE -> mode[me] = MODE(word)
       // step: trace/src/commands.cpp: void visit(unsigned, void*) noexcept {}
       :: request == VISIT
       fi;
       asked[me] = false }

  // ---- an allocation
  :: atomic { operations > 0 && step == BETWEEN && magazine[me] != 0 ->
       operations--;
       object = (magazine[me] == 2 -> 1 : 0);
       magazine[me] = magazine[me] - BIT(object);
       begun = phase; was_on = on; was_off = off;
       allocating = true;
       if
       // The fast path, which restartable_section.pml shows to be one step.
       :: mode[me] != CLOSED ->
reach_fast_allocation: step = RETURNS
       // The slow half, also of an open per-hart cache: its loaded magazine is empty.
       :: step = ALLOCATES
       fi }
  // Masked. The object was taken in this section, too.
  // step: alloc/src/cache/cache.cpp: object = take_from_hart_cache(hart_cache(hart));
  // step: alloc/src/cache/cache.cpp: prepared.word = state_.load(std::memory_order_acquire);
  :: atomic { step == ALLOCATES -> seen = word;
       if
       // step: alloc/src/cache/cache.cpp: if ((prepared.word & trace_state::kHearsAllocation) == 0) return true;
       :: (seen & RECORD) == 0 -> step = OPENS
       :: (seen & RECORD) != 0 -> step = INSERTS
       // Something is lacking: the section ends, and the next one reads the word again.
       // step: alloc/src/cache/cache.cpp: while (object != nullptr && !settled) {
       :: (seen & RECORD) != 0 ->
reach_unsettled: step = UNSETTLED
       fi }
  :: atomic { step == UNSETTLED ->
#ifndef MUTANT_WORD_READ_EARLIER
       seen = word;
#endif
       step = ((seen & RECORD) != 0 -> INSERTS : RETURNS) }
  // step: trace/src/enter.hpp: record.set_place(one.number, hart, sequence.next_for_record());
  :: atomic { step == INSERTS -> mine = next; next++ };
     // step: trace/src/enter.hpp: source.live_records.fetch_add(1, std::memory_order_relaxed);
     live++;
     // step: trace/include/qm/trace/record_table.hpp: store_relaxed(slot.cache, static_cast<std::uint16_t>(record.cache));
     atomic { cache[object] = true; hart_of[object] = me; clear_buffered[object] = false };
     // step: trace/include/qm/trace/record_table.hpp: slot.sequence_low.store(record.sequence_low, std::memory_order_release);
reach_record:
     atomic {
       number[object] = mine;
       mine = 0;
       // The traced path leaves the per-hart cache closed.
       // step: trace/src/traced_path.cpp: if (!only_records(cache)) return nullptr;
       step = ((seen & OWNED) != 0 -> RETURNS : OPENS)
     }
  // step: alloc/src/cache/cache.cpp: const std::uint32_t word = state_.load(std::memory_order_acquire);
  :: atomic { step == OPENS -> seen = word };
     // step: alloc/src/cache/cache.cpp: store_relaxed(own.top, own.saved_top.load(std::memory_order_relaxed));
     atomic { mode[me] = MODE(seen); step = (allocating -> RETURNS : BETWEEN); seen = 0 }
  :: atomic { step == RETURNS ->
       if
       :: phase == begun && was_on ->
reach_recorded_while_on: assert(number[object] != 0)
       :: phase == begun && was_off ->
reach_not_recorded_while_off: assert(number[object] == 0)
       :: else
       fi;
       held = held | BIT(object);
       allocated = allocated | BIT(object);
       object = 0; seen = 0; begun = 0; was_on = false; was_off = false; allocating = false; step = BETWEEN }

  // ---- a free
  :: atomic { operations > 0 && step == BETWEEN && held != 0 ->
       operations--;
       if
       :: (held & 1) != 0 -> object = 0
       :: (held & 2) != 0 -> object = 1
       fi;
       held = held - BIT(object);
       allocated = allocated & (3 - BIT(object));
       former = former & (3 - BIT(object));
       if
       :: mode[me] == OPEN ->
reach_fast_free: assert(number[object] == 0);
          magazine[me] = magazine[me] | BIT(object); object = 0
       // The slow half, also of an open per-hart cache: its loaded magazine is full.
       :: step = FREES
       fi }
  // Masked.
  // step: trace/src/traced_path.cpp: if (load_relaxed(cache.state()) >= 0 || cache.has_reserve()) return false;
  :: atomic { step == FREES -> seen = word };
     if
     // step: trace/include/qm/trace/record_table.hpp: if (place.cache.load(std::memory_order_relaxed) != cache) return false;
     :: atomic { (seen & OWNED) != 0 && cache[object] -> skip };
        // step: trace/include/qm/trace/record_table.hpp: place.clear();
reach_claim_own:
        atomic { cache[object] = false; number[object] = 0; clear_buffered[object] = false };
        // step: trace/src/traced_path.cpp: cache.live_records.fetch_sub(1, std::memory_order_relaxed);
        atomic { assert(live != 0); live--; step = RELEASES }
     :: atomic { (seen & OWNED) == 0 || !cache[object] -> step = FORGETS }
     fi
  // Masked, after a section that has found nothing or was only a look at the word.
  // step: alloc/src/cache/cache.cpp: if (!held_back && (state_.load(std::memory_order_acquire) & trace_state::kHearsFree) != 0)
  :: atomic { step == FORGETS -> seen = word; step = RELEASES;
       // step: trace/include/qm/trace/record_table.hpp: std::uint32_t number = place.sequence_low.load(std::memory_order_acquire);
       mine = ((seen & WATCH) != 0 && cache[object] -> number[object] : 0) };
     if
     // step: trace/include/qm/trace/record_table.hpp: place.sequence_low.compare_exchange_strong(number, 0
     :: atomic { mine != 0 && number[object] == mine -> number[object] = 0 };
        // step: trace/include/qm/trace/record_table.hpp: store_relaxed(place.cache, 0);
        atomic { cache[object] = false; clear_buffered[object] = false };
        // step: trace/src/enter.hpp: return source.live_records.fetch_sub(1, std::memory_order_seq_cst) == 1;
        atomic { assert(live != 0); live--; last = (live == 0) };
        // step: trace/src/tracer_record.cpp: if (found && count_out(source)) end_watch_if_done(source);
        if
        :: last ->
reach_last_record: end_watch_if_done()
        :: else
        fi
     :: atomic { mine == 0 || number[object] != mine -> skip }
     fi;
     mine = 0
  // The object is released.
  // step: trace/src/traced_path.cpp: HartCache::put_at(real, place, object);
  :: atomic { step == RELEASES ->
       assert(number[object] == 0);
       magazine[me] = magazine[me] | BIT(object);
       object = 0;
       if
       :: step = OPENS
       // The traced path and that of a watched cache put the object into the per-hart cache and leave its mode.
       :: (seen & WATCH) != 0 && !last -> step = BETWEEN; seen = 0
       fi;
       last = false }
  od
}

// step: trace/src/selection.hpp: hal::run_on_harts(harts, function, argument, patience.deadline_ms, patience.abort);
inline ask(what) {
#ifndef MUTANT_NO_ACKNOWLEDGEMENT
  atomic {
    // The broadcast's fence drains the store buffer.
    cache[0] = cache[0] && !clear_buffered[0];
    cache[1] = cache[1] && !clear_buffered[1];
    clear_buffered[0] = false;
    clear_buffered[1] = false;
    request = what;
    asked[0] = true;
    asked[1] = true
  };
  !asked[0] && !asked[1]
#else
  skip
#endif
}

// step: trace/src/commands.cpp: void settle(Traceable& source) noexcept {
inline settle() {
  // step: trace/src/commands.cpp: change(source, kWatch | kSettled, kHold);
  word = (word | WATCH | SETTLED) & ~HOLD;
#ifndef MUTANT_NO_LOOK_AFTER_SETTLING
  // step: trace/src/commands.cpp: Tracer::end_watch_if_done(source);
  end_watch_if_done()
#endif
}

inline return_() {
  phase++;
  on = (word & RECORD) != 0;
  off = !on;
  request = 0; dead_before[0] = 0; dead_before[1] = 0; former = 0
}

#define START 1
#define STOP 2
#define RESET 3

proctype Commander() {
  byte commands = 3, at, found, command = START;
  do
  :: atomic { commands > 0 -> commands--; phase++; on = false; off = false };
     if
     :: command == START ->
        // step: trace/src/commands.cpp: change(source, kWatch | kHold | (kDefect == Defect::kOnePhaseStart ? kRecord : 0), kSettled)
#ifdef MUTANT_ONE_PHASE_START
        word = (word | WATCH | HOLD | RECORD) & ~SETTLED;
#else
        word = (word | WATCH | HOLD) & ~SETTLED;
#endif
        // step: trace/src/commands.cpp: if (!ask(harts, close_hart_caches, &batch, patience, result)) return false;
        ask(CLOSE);
        // step: trace/src/commands.cpp: change(source_of(*one), kRecord | kOwned | way_of(keeping), 0);
        word = word | RECORD | OWNED
     :: command == STOP ->
        // step: trace/src/commands.cpp: const std::uint32_t before = change(source_of(*one), 0, kRecord | kOwned | kThin);
        word = word & ~(RECORD | OWNED);
#ifdef MUTANT_EARLY_REOPENING
        // step: trace/src/commands.cpp: if constexpr (kDefect == Defect::kEarlyReopening) settle(source_of(*one));
        settle();
        ask(VISIT)
#else
        // step: trace/src/commands.cpp: const bool done = !any || ask(hal::online_harts(), visit, nullptr, patience, result);
        ask(VISIT);
        settle()
#endif
     :: command == RESET ->
        // step: trace/src/commands.cpp: one->previous = change(source_of(*one), 0, kOwned | (one->keeping().counts ? kRecord : 0));
#ifdef MUTANT_SWEEPS_BESIDE_OWNERS
        former = allocated;
#else
        atomic { former = allocated; word = word & ~OWNED };
#endif
#ifdef MUTANT_NOTED_BEFORE_ANSWERS
        request = NOTE; asked[0] = true; asked[1] = true;
#else
        // step: trace/src/commands.cpp: if (!ask(hal::online_harts(), visit_for_reset, &batch, patience, result)) return false;
        ask(NOTE);
#endif
        // step: trace/src/tracer.cpp: void Tracer::sweep(Sweep what) noexcept {
        do
        :: at < OBJECTS ->
           // step: trace/src/tracer.cpp: found.sequence() >= one->harts()[found.hart()].dead_before) continue;
           atomic { found = (cache[at] && number[at] < dead_before[hart_of[at]] -> number[at] : 0) };
           if
           // step: trace/src/record_table.cpp: at(slot).sequence_low.compare_exchange_strong(number, 0
           // step: trace/src/record_table.cpp: store_relaxed(at(slot).cache, 0);
           :: atomic { found != 0 && number[at] == found ->
reach_sweep: number[at] = 0;
                // The store is visible at once or later. Both are one step, because the slot goes to no other object yet.
                if
                :: cache[at] = false
                :: clear_buffered[at] = true
                fi };
              // step: trace/src/tracer.cpp: if (count_out(source)) end_watch_if_done(source);
              atomic { assert(live != 0); live-- };
              if
              :: live == 0 -> end_watch_if_done()
              :: else
              fi
           :: atomic { found == 0 || number[at] != found -> skip }
           fi;
           atomic { found = 0; at++ }
        :: else -> at = 0; break
        od;
        // step: trace/src/commands.cpp: if (!ask(hal::online_harts(), visit, nullptr, patience, unused)) return;
#ifndef MUTANT_OWNED_TOO_EARLY
        ask(VISIT);
#endif
        // step: trace/src/commands.cpp: & kRecord) != 0) change(source_of(*one), kOwned, 0);
        atomic {
          word = ((word & RECORD) != 0 -> word | OWNED : word);
          assert((former & 1) == 0 || number[0] == 0);
          assert((former & 2) == 0 || number[1] == 0)
        }
     fi;
     atomic {
       return_();
       if
       :: !on -> command = START
       :: on -> command = STOP
       :: command = RESET
       fi
     }
  :: atomic { commands == 0 -> break }
  od
}

init {
  atomic {
    magazine[0] = 1; // object 0; object 1 is held, from before the start
    run Worker(0);
    run Worker(1);
    run Commander()
  };
  timeout ->
    assert(live == (number[0] != 0 -> 1 : 0) + (number[1] != 0 -> 1 : 0));
    assert(!off || live != 0 || word == 0) // the watch has ended
}
