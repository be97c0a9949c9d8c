// The broadcast: a function runs once on each hart that is online, and nowhere after the call has returned, while other
// harts broadcast and post too, come online, go offline or answer late. No wake-up is lost.
//
// layer: hal
// harts: 3
//
// Hart 0 changes a word and broadcasts; its call may have a deadline. Beside that, hart 1 broadcasts, or hart 1 posts to
// hart 2 twice, or hart 0 broadcasts a second time: one of the three. Hart 2 begins online or offline and changes that
// twice; when it comes online, it opens what the word then allows, as a per-hart cache is opened. wfi blocks until an
// interrupt is pending: after a lost wake-up the run ends before all calls have returned.
//
// Memory order: each pair of accesses that could be reordered has a full fence between in the code: a hart's bit and its
// read of the word, a box and the second read of the set, the waiting hart and its read of the box. The model
// keeps the order, and a mutant exchanges the two accesses where a fence is what keeps it. The function's data travel with
// the release and the acquire of the box; the model has them in order.
//
// Not covered: two kinds of posts, which share the word `posted`; run_while_still(); threads that change harts while they wait; a panic; the abort test, which ends a wait as
// the deadline does; the host's port, where another thread serves a hart's box.
//
// mutant NO_SECOND_READ: the initiator does not look whether a hart that it asked has gone offline
// mutant SERVES_BEFORE_GOING: a hart that goes offline serves its box before it leaves the set
// mutant ANSWERS_TOO_EARLY: a hart wakes the initiator before it clears its box
// mutant NO_WITHDRAWAL: a call that gives up leaves its requests pending
// mutant BLIND_WITHDRAWAL: a request is withdrawn by a store, even if it is running
// mutant NO_FENCE_ONLINE: a hart that comes online reads the word before its bit is visible
// mutant WAITS_MASKED: a hart that waits for the turn does not serve its box
// mutant WAITS_UNANNOUNCED: a hart sets its waiting bit after it has found the turn taken
// mutant CLEARS_POST_LATE: a hart serves a post before it clears it

#define HARTS 3
#define BIT(hart) (1 << (hart))
#define FEWER(set, hart) (set & (7 - BIT(hart)))
#define NONE 0
#define PENDING 1
#define RUNNING 2

byte box[HARTS];
bool posted; // of hart 2
bool interrupt[HARTS]; // pending
byte online = 3;
bool taken;   // the turn
byte waiting; // for the turn
byte initiator;

byte word;  // what hart 0 changes before its first broadcast
bool opened; // by hart 2, which read the word as 0

// What the properties need:
bool under_way; // a call is under way
byte ran;    // the harts on which its function has run
byte staying; // the harts that are online since the call began
byte posts, seen; // posts to hart 2; those that the function of a post has seen
bool in_force; // the first broadcast is done
byte calls = 2; // that have not returned

inline function(hart) {
  assert(under_way && (ran & BIT(hart)) == 0);
  ran = ran | BIT(hart);
  if
  :: hart == 2 && word == 1 -> opened = false
  :: else
  fi
}

inline send_ipi(hart) { interrupt[hart] = true }

inline serve_box(hart) {
  // step: hal/src/broadcast.cpp: if (!slots[hart].box.compare_exchange_strong(expected, kRunning, std::memory_order_acq_rel)) return;
  if
  :: atomic { box[hart] == PENDING -> box[hart] = RUNNING };
     // step: hal/src/broadcast.cpp: broadcast_function(hart, broadcast_argument);
     atomic { function(hart) };
#ifdef MUTANT_ANSWERS_TOO_EARLY
     send_ipi(initiator);
     box[hart] = NONE
#else
     // step: hal/src/broadcast.cpp: slots[hart].box.store(kNone, std::memory_order_seq_cst);
     box[hart] = NONE;
     // step: hal/src/broadcast.cpp: const unsigned initiator = broadcast_initiator.load(std::memory_order_seq_cst);
     atomic {
       if
       :: initiator != hart -> send_ipi(initiator)
       :: else // the turn has passed on to this hart since
       fi
     }
#endif
  :: atomic { box[hart] != PENDING -> skip }
  fi
}

// Nobody posts to another hart than hart 2.
// step: hal/src/broadcast.cpp: slots[hart].posted.exchange(0, std::memory_order_acq_rel)
inline serve_post() {
  if
#ifdef MUTANT_CLEARS_POST_LATE
  :: atomic { posted -> seen = posts };
     posted = false
#else
  :: atomic { posted -> posted = false };
     seen = posts
#endif
  :: atomic { !posted -> skip }
  fi
}

// step: hal/src/broadcast.cpp: void withdraw(HartMask asked)
inline withdraw(set) {
  other = 0;
  do
  :: atomic { other < HARTS ->
       if
       :: (set & BIT(other)) != 0 ->
#ifdef MUTANT_BLIND_WITHDRAWAL
          box[other] = NONE
#else
          if
          // step: hal/src/broadcast.cpp: slots[hart].box.compare_exchange_strong(expected, kNone, std::memory_order_acq_rel);
          :: box[other] == PENDING -> box[other] = NONE
          :: else
          fi
#endif
       :: else
       fi };
     // step: hal/src/broadcast.cpp: while (slots[hart].box.load(std::memory_order_acquire) == kRunning && !in_panic()) Port::relax();
     atomic { (set & BIT(other)) == 0 || box[other] != RUNNING -> other++ }
  :: atomic { other == HARTS -> other = 0; break }
  od
}

// What a hart does between two interrupts that it can serve.
#define BETWEEN 0
#define TURN 1  /* tries to take the turn */
#define SLEEPS 2 /* waits for the turn */
#define SEND 3
#define ANSWERS 4 /* looks for the answers */
#define ASLEEP 5  /* waits for one */

proctype Initiator(byte me; byte broadcasts; byte posts_left) {
  byte asked, other, phase;
  bool has_deadline = (me == 0), late;
end_idle:
  do
  // Interrupts are enabled.
  :: atomic { interrupt[me] && (phase == BETWEEN || phase == SLEEPS || phase == ANSWERS || phase == ASLEEP) ->
       // step: firmware/boot/src/trap.cpp: hal::privilege::clear_ipi();
       interrupt[me] = false;
       // step: hal/src/turn.cpp: Port::wait_for_interrupt();
       phase = (phase == SLEEPS -> TURN : (phase == ASLEEP -> ANSWERS : phase)) };
#ifdef MUTANT_WAITS_MASKED
     if
     :: phase != TURN -> serve_box(me)
     :: else
     fi
#else
     serve_box(me)
#endif

  // ---- a post
  // step: hal/src/broadcast.cpp: void post(HartMask harts, Post kind)
  :: atomic { phase == BETWEEN && posts_left > 0 ->
       posts_left--;
       if
       // step: hal/src/broadcast.cpp: harts &= online_harts() & ~bit(Port::hart_index());
       :: (online & BIT(2)) != 0 -> posts++; asked = 1 // the function finds what precedes the post
       :: else ->
reach_post_to_nobody: skip
       fi };
     if
     :: atomic { asked == 1 -> asked = 0 };
        // step: hal/src/broadcast.cpp: slots[hart].posted.fetch_or(flag, std::memory_order_acq_rel) == 0
        if
        :: atomic { !posted -> posted = true };
reach_post: send_ipi(2)
        :: atomic { posted ->
reach_second_post: skip }
        fi
     :: else
     fi

  // ---- a broadcast
  :: atomic { phase == BETWEEN && broadcasts > 0 ->
       broadcasts--;
       phase = TURN;
       // step: trace/src/selection.hpp: source.state().compare_exchange_weak(word, next, std::memory_order_seq_cst)
       word = (me == 0 -> 1 : word) }
  // step: hal/src/turn.cpp: bool Turn::take_or_wait()
#ifndef MUTANT_WAITS_UNANNOUNCED
  // step: hal/src/turn.cpp: waiting_.fetch_or(self, std::memory_order_seq_cst);
  :: atomic { phase == TURN -> waiting = waiting | BIT(me) };
#else
  :: phase == TURN ->
#endif
     // step: hal/src/turn.cpp: taken_.exchange(1, std::memory_order_acquire) == 0
     if
     :: atomic { !taken ->
          taken = true;
          waiting = FEWER(waiting, me);
          phase = SEND;
          under_way = true;
          staying = online };
     :: atomic { taken ->
reach_wait_for_turn: phase = SLEEPS };
#ifdef MUTANT_WAITS_UNANNOUNCED
        waiting = waiting | BIT(me)
#endif
     fi
  // step: hal/src/broadcast.cpp: broadcast_initiator.store(self, std::memory_order_relaxed);
  :: atomic { phase == SEND -> initiator = me }; // masked until the function has run
     // step: hal/src/broadcast.cpp: harts &= online_harts();
     asked = FEWER(online, me);
     do
     :: atomic { other < HARTS ->
          if
          // step: hal/src/broadcast.cpp: if ((asked & bit(hart)) != 0) slots[hart].box.store(kPending, std::memory_order_release);
          :: (asked & BIT(other)) != 0 -> box[other] = PENDING
          :: else
          fi;
          other++ }
     :: atomic { other == HARTS -> other = 0; break }
     od;
     // step: hal/src/broadcast.cpp: if ((harts & bit(self)) != 0) function(self, argument);
     atomic { function(me) };
#ifndef MUTANT_NO_SECOND_READ
     // step: hal/src/broadcast.cpp: const HartMask gone = asked & ~online_harts(); gone != 0
     if
     :: atomic { (asked & (7 - online)) != 0 ->
reach_gone: asked = FEWER(asked, 2) }; // only hart 2 goes offline
        withdraw(BIT(2))
     :: atomic { (asked & (7 - online)) == 0 -> skip }
     fi;
#endif
     do
     :: atomic { other < HARTS ->
          if
          // step: hal/src/broadcast.cpp: Port::send_ipi(hart);
          :: (asked & BIT(other)) != 0 -> send_ipi(other)
          :: else
          fi;
          other++ }
     :: atomic { other == HARTS -> other = 0; phase = ANSWERS; break }
     od
  // step: hal/src/broadcast.cpp: while (!answered(hart))
  // step: hal/src/broadcast.cpp: slots[hart].box.load(std::memory_order_seq_cst) == kNone) return true;
  :: atomic { phase == ANSWERS && other < HARTS ->
       if
       :: (asked & BIT(other)) == 0 || box[other] == NONE -> other++
       :: else ->
reach_wait_for_answer: phase = ASLEEP // until an interrupt comes, or has come since it was masked for the read
       fi }
  // step: hal/src/broadcast.cpp: if (deadline.passed()) return BroadcastStatus::kTimedOut;
  :: atomic { phase == ASLEEP && has_deadline -> late = true; phase = ANSWERS };
#ifndef MUTANT_NO_WITHDRAWAL
reach_timed_out: withdraw(asked);
#endif
     other = HARTS
  // The call returns.
  :: atomic { phase == ANSWERS && other == HARTS ->
       under_way = false;
       assert(late || (staying & (7 - ran)) == 0); // kDone: no hart has been left out
       if
       :: me == 0 && !late ->
reach_done: in_force = true; assert(!opened)
       :: else
       fi;
       late = false; asked = 0; other = 0; ran = 0; staying = 0; calls--;
       // step: hal/src/turn.cpp: taken_.store(0, std::memory_order_seq_cst);
       taken = false };
     // step: hal/src/turn.cpp: const HartMask waiting = waiting_.exchange(0, std::memory_order_seq_cst);
     atomic {
       if
       :: (waiting & BIT(1 - me)) != 0 ->
reach_wake_next: send_ipi(1 - me)
       :: else
       fi;
       waiting = 0;
       phase = BETWEEN
     }
  od
}

proctype Comer() {
  byte changes = 2;
  bool on = (online & BIT(2)) != 0, going;
end_comer:
  do
  // step: hal/src/broadcast.cpp: void hart_online(unsigned hart)
  :: atomic { changes > 0 && !on -> changes-- };
     // step: hal/src/broadcast.cpp: slots[hart].posted.store(0, std::memory_order_relaxed);
     posted = false;
#ifdef MUTANT_NO_FENCE_ONLINE
     if // the read was satisfied before the bit was set
     :: atomic { word == 0 -> opened = true }
     :: atomic { word == 1 -> skip }
     fi;
     online = online | BIT(2);
#else
     // step: hal/src/broadcast.cpp: online.fetch_or(bit(hart), std::memory_order_seq_cst);
     online = online | BIT(2);
     // step: alloc/src/cache/cache.cpp: const std::uint32_t word = state_.load(std::memory_order_acquire);
     if // masked
     :: atomic { word == 0 ->
reach_opened: opened = true; assert(!in_force) }
     :: atomic { word == 1 ->
reach_saw_word: skip }
     fi;
#endif
     on = true
  // step: hal/src/broadcast.cpp: void hart_offline(unsigned hart)
  // Its per-hart caches are detached before. Interrupts are masked.
#ifdef MUTANT_SERVES_BEFORE_GOING
  :: atomic { changes > 0 && on -> changes--; opened = false; going = true; interrupt[2] = true }
  :: atomic { going && !interrupt[2] -> online = FEWER(online, 2); staying = FEWER(staying, 2); going = false; on = false; seen = posts }
#else
  // step: hal/src/broadcast.cpp: online.fetch_and(~bit(hart), std::memory_order_seq_cst);
  :: atomic { changes > 0 && on -> changes--; opened = false; on = false };
     atomic { online = FEWER(online, 2); staying = FEWER(staying, 2); going = true; interrupt[2] = true }
#endif
  // An interrupt while it is online, or the last call of on_ipi() in hart_offline(). An offline hart serves none.
  // step: hal/src/broadcast.cpp: on_ipi(hart);
  :: atomic { interrupt[2] && (on || going) -> interrupt[2] = false };
     serve_box(2);
     serve_post();
#ifndef MUTANT_SERVES_BEFORE_GOING
     if
     :: atomic { going -> going = false; seen = posts } // its magazines are drained: a post has nothing left to ask for
     :: else
     fi
#endif
  od
}

init {
  atomic {
    if
    :: online = 7
    :: online = 3
    fi;
    if
    :: run Initiator(0, 1, 0); run Initiator(1, 1, 0)
    :: run Initiator(0, 1, 0); run Initiator(1, 0, 2); calls = 1
    :: run Initiator(0, 2, 0); run Initiator(1, 0, 0)
    fi;
    run Comer()
  };
  // At the end, all calls have returned, and every post to a hart that is online was served.
  timeout -> assert(calls == 0); assert((online & BIT(2)) == 0 || seen == posts)
}
