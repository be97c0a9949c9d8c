// Reclaim under pressure: two allocations wait for memory while another hart frees. Each gets an object if there is one, and
// neither sleeps on when a free could serve it; a drain serves a hart if it began after the hart asked.
//
// layer: alloc
// harts: 3
//
// Harts 0 and 1 each run one allocation with WaitPolicy::kWait, without a bound. Hart 2 frees two objects, through the fast
// path, a magazine, or its slab, as the code decides; it begins with an open magazine that has an object, or none, or
// without a magazine. After a lost wake-up the run ends before both have their object.
//
// The poll, a drain by a waiting allocation, is possible only while an object lies in a magazine or in the depot. So it
// hides no lost wake-up for an object in a slab. The label reach_poll and the mutant NO_POLL show that it is needed: a free
// that has found no pressure, or an empty magazine in the depot between two steps of a drain, still puts its object
// into a magazine, and opens the per-hart cache. Then no later free on the fast path notifies anybody until the poll.
//
// Memory order: `frees`, `sleepers` and `shortages` change by sequentially consistent operations. under_pressure() is a
// relaxed read after the free to the slab; it cannot move before the slab's lock was taken, which orders it with the
// attempt of the waiting hart, under the same lock. A mutant moves it.
//
// Not covered: reclaimers; a hart that answers no broadcast; destructors; arenas and spans; passes of a drain beyond those
// that one cache needs; a `pause` and a `wake` of the firmware's own; atomic failures, which post (broadcast.pml has posts).
//
// mutant SLEEPS_UNANNOUNCED: a waiting hart sets its bit after it has compared the count of frees
// mutant COUNT_READ_LATE: the count of frees is read after the attempt
// mutant NOTE_BEFORE_FREE: a free notifies before its object is in the slab
// mutant PRESSURE_READ_FIRST: a free reads under_pressure() before its object is in the slab
// mutant NO_PRESSURE_WHILE_WAITING: memory is not under pressure while an allocation sleeps
// mutant NO_POLL: a waiting allocation does not drain again
// mutant SHARES_A_RUNNING_DRAIN: a drain that had begun when a hart asked serves that hart
// mutant ASKS_BY_THE_END: a hart that asks reads the number of the last drain that has ended, not begun

#define WAITERS 2
#define BIT(hart) (1 << (hart))

// Sets of objects, a bit each: 1, 2 and 4.
byte slab, depot;
byte loaded, previous; // of hart 2; a magazine has one slot
bool has_loaded, has_previous, opened;
byte empties; // magazines in the depot
byte received;

byte shortages, frees, sleepers;
bool interrupt[WAITERS];
bool turn;
byte begun, ended;
bool asked; // the broadcast to hart 2

#define IDLE (loaded | previous | depot)

// ---- hart 2

// step: alloc/src/cache/cache_magazines.cpp: void Cache::detach_magazines(unsigned hart)
inline detach() {
  opened = false;
  depot = depot | loaded | previous;
  empties = empties + (has_loaded && loaded == 0 -> 1 : 0) + (has_previous && previous == 0 -> 1 : 0);
  loaded = 0; previous = 0; has_loaded = false; has_previous = false
}

// Makes an empty magazine the loaded one, and puts the object there.
inline load(object) {
  // step: alloc/src/cache/cache_exchange.cpp: if (own.prev != nullptr) depot_.give(own.prev);
  if
  :: has_previous -> assert(previous != 0); depot = depot | previous
  :: else
  fi;
  has_previous = has_loaded;
  previous = loaded;
  has_loaded = true;
  loaded = object;
  opened = true
}

// step: alloc/src/pressure/exhaustion.cpp: void note_free() noexcept {
inline note_free() {
  // step: alloc/src/pressure/exhaustion.cpp: frees.fetch_add(1, std::memory_order_seq_cst);
  frees++;
  // step: alloc/src/pressure/exhaustion.cpp: const hal::HartMask asleep = sleepers.exchange(0, std::memory_order_seq_cst);
  atomic {
    interrupt[0] = interrupt[0] || (sleepers & 1) != 0;
    interrupt[1] = interrupt[1] || (sleepers & 2) != 0;
    sleepers = 0
  }
}

#define NEXT 0
#define SLOW 1          /* free_slow() */
#define NEW_MAGAZINE 2  /* Placed::kForNewMagazine */
#define INSTALL 3
#define TO_SLAB 4
#define NOTE 5

proctype Freer() {
  byte object, step = NEXT;
  byte left = 6; // objects 2 and 4
  bool pressed;
end_idle:
  do
  // The broadcast of a drain, at an instruction at which interrupts are enabled.
  // step: alloc/src/pressure/drain.cpp: if (has_magazines(*self.caches_[i], hart)) self.caches_[i]->detach_magazines(hart);
  :: atomic { asked -> detach();
reach_visit: asked = false }

  :: atomic { step == NEXT && left != 0 -> object = (left == 6 -> 2 : 4); left = left - object;
       if
       :: opened && loaded == 0 ->
reach_fast_free: loaded = object; object = 0
       // The middle path. It would take an empty magazine of the depot, but without pressure the depot has none: the
       // drain that has put it there has taken it. A previous magazine is full.
       // step: alloc/src/cache/cache_exchange.cpp: if (full == nullptr || exhaustion::under_pressure()) return Placed::kNowhere;
       :: opened && loaded != 0 && shortages == 0 ->
reach_wants_new: assert(empties == 0 && (!has_previous || previous != 0));
          step = NEW_MAGAZINE
       :: !opened || (loaded != 0 && shortages != 0) ->
reach_slow_free: step = SLOW
       fi }

  // step: alloc/src/cache/cache.cpp: placed = put_in_reserve(object) ? Placed::kHere : put_in_hart_cache(hart_cache(hart), object);
  // step: alloc/src/cache/cache_exchange.cpp: return load_empty(own) && own.put(object) ? Placed::kHere : Placed::kForNewMagazine;
  :: atomic { step == SLOW && empties == 0 -> step = NEW_MAGAZINE }
  // step: alloc/src/cache/cache.cpp: placed == Placed::kForNewMagazine && may_fill_magazine() ? empty_magazine() : nullptr;
  :: atomic { step == NEW_MAGAZINE -> step = (shortages == 0 -> INSTALL : TO_SLAB) }
  // step: alloc/src/cache/cache.cpp: install_and_put(magazine, &object, 1) == 0
  :: atomic { (step == SLOW && empties != 0) || step == INSTALL ->
       if
       :: step == SLOW ->
reach_takes_empty: empties-- // between two steps of a drain
       :: step == INSTALL && shortages != 0 ->
reach_installs_late: skip // pressure has begun since the magazine was taken, with interrupts enabled
       :: step == INSTALL && shortages == 0
       fi;
       load(object);
       step = (step == SLOW -> NEXT : NOTE); // a free into a magazine of the depot returns without a note
       object = (step == NEXT -> 0 : object) }
  // step: alloc/src/cache/cache.cpp: put_in_slab(object);
  :: atomic { step == TO_SLAB ->
#ifdef MUTANT_PRESSURE_READ_FIRST
       pressed = shortages != 0 };
     atomic { true ->
#endif
#ifndef MUTANT_NOTE_BEFORE_FREE
reach_to_slab: slab = slab | object;
#endif
       step = NOTE }
  // step: alloc/src/cache/cache.cpp: if (exhaustion::under_pressure()) exhaustion::note_free();
  :: atomic { step == NOTE ->
#ifndef MUTANT_PRESSURE_READ_FIRST
       pressed = shortages != 0
#endif
     };
     if
     :: pressed ->
reach_note: note_free()
     :: else
     fi;
     atomic {
#ifdef MUTANT_NOTE_BEFORE_FREE
       slab = slab | (loaded == object || previous == object || depot == object -> 0 : object);
#endif
       pressed = false; object = 0; step = NEXT }
  od
}

// ---- harts 0 and 1

#define ENTER 0
#define TURN 1   /* waits for the turn of drains */
#define DRAIN 2
#define TRY 3    /* after a drain */
#define LOOK 4   /* the loop of wait() */
#define PAUSE 5
#define ASLEEP 6
#define DONE 7
#define FINISHED 8

// The attempt: an object of a slab, under the lock of the slab layer.
#define TAKEN (slab & 1 -> 1 : (slab & 2 -> 2 : 4))

#ifdef MUTANT_ASKS_BY_THE_END
#define LAST ended
#else
#define LAST begun
#endif

proctype Waiter(byte me) {
  byte step = ENTER;
  byte number, seen, idle, drains, moved;
  bool shared;
end_done:
  do
  // step: alloc/src/pressure/exhaustion.cpp: internal::shortages.fetch_add(1, std::memory_order_seq_cst);
  :: atomic { step == ENTER -> shortages++ };
     // step: alloc/src/pressure/drain.cpp: const std::uint32_t asked = begun.load(std::memory_order_seq_cst);
reach_ask: atomic { number = LAST; idle = IDLE; step = TURN }
  // step: alloc/src/pressure/drain.cpp: while (!turn.take_or_wait())
  :: atomic { step == TURN && (!turn || ended > number) ->
       // step: alloc/src/pressure/drain.cpp: if (is_served(asked)) return share();
       if
#ifdef MUTANT_SHARES_A_RUNNING_DRAIN
       :: ended >= number && ended != 0 ->
#else
       :: ended > number ->
#endif
reach_shared: shared = true; step = TRY
       :: else ->
          // step: alloc/src/pressure/drain.cpp: const std::uint32_t number = begun.fetch_add(1, std::memory_order_seq_cst) + 1;
          turn = true; begun++; number = begun; shared = false; step = DRAIN
       fi }
  // step: alloc/src/pressure/drain.cpp: Drained drain_now() noexcept {
  :: atomic { step == DRAIN -> shortages++ };
     do
     :: // step: alloc/src/pressure/drain.cpp: const hal::BroadcastResult answer = hal::run_on_harts(harts, visit, this, deadline_ms);
        atomic { asked = has_loaded };
        !asked;
        // step: alloc/src/cache/cache_magazines.cpp: while (Magazine* full = depot_.take_full()) objects += empty_into_slabs(full);
        atomic { moved = moved | depot; drains = (depot != 0 -> 1 : 0); slab = slab | depot; depot = 0 };
        // step: alloc/src/cache/cache_magazines.cpp: while (Magazine* empty = depot_.take_empty()) internal::free_magazine(empty);
        empties = 0;
        // step: alloc/src/pressure/drain.cpp: if (drained.bytes == before) break;
        if
        :: atomic { drains == 1 -> drains = 0 }
        :: atomic { drains == 0 -> break }
        fi
     od;
     atomic { shortages--; step = TRY };
     // step: alloc/src/pressure/drain.cpp: ended.store(number, std::memory_order_release);
     ended = number;
     // step: alloc/src/pressure/drain.cpp: turn.give_back();
     turn = false
  // step: alloc/src/pressure/exhaustion.cpp: if (try_again()) return true;
  :: atomic { step == TRY ->
       assert((idle & IDLE) == 0); // what was idle when the drain was asked for is so no more
       idle = 0;
       if
       :: slab != 0 ->
reach_rescued: received++; slab = slab - TAKEN; step = DONE
       // step: alloc/src/pressure/exhaustion.cpp: if (!drained.shared && !drained.moved()) return false;
       :: slab == 0 && (shared || moved != 0) -> number = LAST; idle = IDLE; step = TURN
       :: slab == 0 && !shared && moved == 0 -> step = LOOK
       fi;
       moved = 0; shared = false }
  // step: alloc/src/pressure/exhaustion.cpp: const std::uint32_t seen = frees.load(std::memory_order_acquire);
  :: atomic { step == LOOK -> seen = frees };
     // step: alloc/src/pressure/exhaustion.cpp: if (try_again()) return;
     atomic {
       if
       :: slab != 0 ->
reach_served: received++; slab = slab - TAKEN; step = DONE
       :: else -> step = PAUSE
       fi
     };
#ifdef MUTANT_COUNT_READ_LATE
     seen = frees
#endif
  // step: alloc/src/pressure/exhaustion.cpp: sleepers.fetch_or(hal::HartMask{1} << hal::Port::hart_index(), std::memory_order_seq_cst);
  // Masked until it sleeps: an interrupt stays pending and ends the sleep.
  :: atomic { step == PAUSE ->
#ifndef MUTANT_SLEEPS_UNANNOUNCED
       sleepers = sleepers | BIT(me)
#endif
     };
     // step: alloc/src/pressure/exhaustion.cpp: if (frees.load(std::memory_order_seq_cst) == seen && hal::Port::ticks() < until)
     atomic {
       if
       :: frees == seen ->
#ifdef MUTANT_NO_PRESSURE_WHILE_WAITING
          shortages--;
#endif
reach_sleep: step = ASLEEP
       :: else ->
reach_no_sleep: step = LOOK
       fi
     };
#ifdef MUTANT_SLEEPS_UNANNOUNCED
     sleepers = sleepers | BIT(me)
#endif
  :: atomic { interrupt[me] && (step == ASLEEP || step == LOOK) ->
#ifdef MUTANT_NO_PRESSURE_WHILE_WAITING
       shortages = shortages + (step == ASLEEP -> 1 : 0);
#endif
       interrupt[me] = false; step = LOOK }
#ifndef MUTANT_NO_POLL
  // step: alloc/src/pressure/exhaustion.cpp: if (drain_and_try()) return;
  :: atomic { step == ASLEEP && IDLE != 0 ->
#ifdef MUTANT_NO_PRESSURE_WHILE_WAITING
       shortages++;
#endif
reach_poll: number = LAST; idle = IDLE; step = TURN }
#endif
  // step: alloc/src/pressure/exhaustion.cpp: internal::shortages.fetch_sub(1, std::memory_order_seq_cst);
  :: atomic { step == DONE -> shortages--; number = 0; seen = 0; step = FINISHED }
  od
}

init {
  atomic {
    if
    :: has_loaded = true; opened = true; loaded = 1
    :: has_loaded = true; opened = true
    :: true
    fi;
    run Freer();
    run Waiter(0);
    run Waiter(1)
  };
  timeout -> assert(received == WAITERS && shortages == 0)
}
