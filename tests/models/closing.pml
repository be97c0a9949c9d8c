// Closing and opening a per-hart cache: once every hart that may have an open per-hart cache has answered, none is open
// until the word changes back; and no object is lost on the way.
//
// layer: alloc
// harts: 3
//
// Harts 0 and 1 own a per-hart cache each; hart 2 commands: close, open, close. An owner runs three of: a fast pop (one step,
// by restartable_section.pml), a slow allocation, the loading of its first magazine, and the return of its magazines.
// A request is served at any step at which interrupts are enabled; broadcast.pml has the request itself.
//
// Memory order: an owner sets its bit, then reads the word; the commander changes the word, then reads the bits. Each side
// has a full fence between the two (store buffering). The model keeps that order, except that an owner's bit is set
// through a store buffer: the fence, or the next step of the owner, drains it. Without the fence the owner may read the
// word first.
//
// Not covered: `watching`, the mode in which only the push is closed (start_stop.pml has it); the inlined form's pointer; the
// reserve; the host's flagged section, which shuts the sections of a hart that another thread serves.
//
// mutant NO_FENCE: an owner reads the word before its bit is visible
// mutant BITS_READ_FIRST: the commander reads the bits before it changes the word
// mutant WORD_READ_UNMASKED: an owner opens by a word that it read before it masked interrupts
// mutant NO_ACKNOWLEDGEMENT: the commander does not wait for the answers
// mutant CLOSE_SAVES_ALWAYS: close() saves the closed address, too
// mutant BIT_CLEARED_FIRST: an owner clears its bit before it closes

#define OWNERS 2
#define CLOSED 15 /* `top` while the per-hart cache is closed; else the number of objects in the magazine */
#define NO_MAGAZINE 14
#define SLOTS 2
#define BIT(hart) (1 << (hart))

bool closes;       // the state word: the pop has to be closed
byte bits;         // magazine_harts_
bool bit_buffered[OWNERS]; // a bit that its hart has set and that no other hart sees yet
byte top[OWNERS] = CLOSED;
byte saved_top[OWNERS] = NO_MAGAZINE;
bool asked[OWNERS];
bool closed_in_force; // every hart has answered
byte depot;  // objects in magazines that no hart has
byte held;   // objects that users hold
byte given;  // objects that came from the slabs

// step: alloc/include/qm/detail/magazine.hpp: Closes both paths; saved_top is valid from here on
inline close(hart) {
#ifdef MUTANT_CLOSE_SAVES_ALWAYS
  saved_top[hart] = top[hart];
#else
  // step: alloc/include/qm/detail/magazine.hpp: if (real != closed_address()) store_relaxed(saved_top, real);
  if
  :: top[hart] != CLOSED -> saved_top[hart] = top[hart]
  :: else
  fi;
#endif
  top[hart] = CLOSED
}

// The rest of open_hart_cache(), after the bit is set.
inline open(hart) {
  if
  // step: alloc/src/cache/cache.cpp: if (kChecked || (word & trace_state::kClosesPop) != 0) return;
  :: closes || saved_top[hart] == NO_MAGAZINE
  // step: alloc/src/cache/cache.cpp: store_relaxed(own.top, own.saved_top.load(std::memory_order_relaxed));
  :: !closes && saved_top[hart] != NO_MAGAZINE -> top[hart] = saved_top[hart]
  fi
}

proctype Owner(byte me) {
  byte operations = 3;
  bool word;
end_idle:
  do
  // A request, at an instruction at which interrupts are enabled.
  // step: trace/src/selection.hpp: inline void close_hart_caches(unsigned hart, void* argument)
  :: atomic { asked[me] ->
       bits = bits | (bit_buffered[me] -> BIT(me) : 0);
       bit_buffered[me] = false;
       close(me);
       open(me);
reach_answer: asked[me] = false }

  // A fast pop.
  :: atomic { operations > 0 && top[me] != CLOSED && top[me] > 0 ->
reach_fast_pop: assert(!closed_in_force);
       operations--;
       top[me] = top[me] - 1;
       held++ }

  // A slow allocation. It finds the per-hart cache closed or empty, and loads a magazine if it has none.
  // step: alloc/src/cache/cache.cpp: void* Cache::allocate_slow(const CallSite* site
  :: atomic { operations > 0 && (top[me] == CLOSED || top[me] == 0) -> operations--;
#ifdef MUTANT_WORD_READ_UNMASKED
       word = closes };
     atomic { true ->
#endif
       // Interrupts are masked from here on.
       // step: alloc/src/cache/cache.cpp: hart_cache(hart).close();
       close(me);
       if
       // step: alloc/src/cache/cache_exchange.cpp: own.set_prev(own.load(magazine));
       :: saved_top[me] == NO_MAGAZINE -> saved_top[me] = SLOTS; given = given + SLOTS
       :: saved_top[me] == 0 -> saved_top[me] = SLOTS; given = given + SLOTS
       :: else
       fi;
       saved_top[me] = saved_top[me] - 1;
       held++ };
     // step: alloc/src/cache/cache.cpp: magazine_harts_.fetch_or(bit(hart), std::memory_order_seq_cst);
     if
     :: atomic { (bits & BIT(me)) == 0 -> bit_buffered[me] = true };
#ifndef MUTANT_NO_FENCE
        // step: alloc/src/cache/cache.cpp: std::atomic_thread_fence(std::memory_order_seq_cst);
        atomic { bits = bits | BIT(me); bit_buffered[me] = false }
#endif
     :: atomic { (bits & BIT(me)) != 0 -> skip }
     fi;
     // step: alloc/src/cache/cache.cpp: const std::uint32_t word = state_.load(std::memory_order_acquire);
#ifndef MUTANT_WORD_READ_UNMASKED
     word = closes;
#endif
     // It acts on the word that it has read, which the commander may have changed since.
     atomic {
       if
       :: word ->
reach_stays_closed: skip
       :: !word ->
reach_opens: top[me] = saved_top[me]
       fi;
       word = false
     };
     atomic { bits = bits | (bit_buffered[me] -> BIT(me) : 0); bit_buffered[me] = false }

  // The return of its magazines: a drain, or a post. Masked.
  // step: alloc/src/cache/cache_magazines.cpp: void Cache::detach_magazines(unsigned hart)
  :: atomic { operations > 0 && saved_top[me] != NO_MAGAZINE -> operations-- };
#ifdef MUTANT_BIT_CLEARED_FIRST
     bits = bits & (3 - BIT(me));
#endif
     atomic {
       // step: alloc/src/cache/cache_magazines.cpp: own.close();
       close(me);
       // step: alloc/src/cache/cache_magazines.cpp: Magazine* loaded = own.load(nullptr);
       depot = depot + saved_top[me];
       saved_top[me] = NO_MAGAZINE
     };
#ifndef MUTANT_BIT_CLEARED_FIRST
     // step: alloc/src/cache/cache_magazines.cpp: magazine_harts_.fetch_and(~bit(hart), std::memory_order_seq_cst);
reach_detached: bits = bits & (3 - BIT(me))
#endif
  od
}

// What the trace does in close_everywhere() and in settle(): the word first, then the harts that may have an open
// per-hart cache.
inline close_everywhere() {
#ifdef MUTANT_BITS_READ_FIRST
  harts = bits;
  closes = true;
#else
  // step: trace/src/selection.hpp: source.state().compare_exchange_weak(word, next, std::memory_order_seq_cst)
  closes = true;
  // step: alloc/include/qm/cache.hpp: [[nodiscard]] hal::HartMask open_harts() const noexcept {
  // step: alloc/include/qm/cache.hpp: magazine_harts_.load(std::memory_order_seq_cst)
  harts = bits;
#endif
  // step: trace/src/commands.cpp: if (!ask(harts, close_hart_caches, &batch, patience, result)) return false;
  atomic { asked[0] = harts & 1; asked[1] = harts >> 1 };
#ifndef MUTANT_NO_ACKNOWLEDGEMENT
  !asked[0] && !asked[1];
#endif
reach_closed: closed_in_force = true
}

proctype Commander() {
  byte harts, times = 2;
  do
  :: times > 0 ->
    times--;
    close_everywhere();
    atomic {
      assert(top[0] == CLOSED && top[1] == CLOSED);
      if
      :: times > 0 -> closed_in_force = false
      :: else -> break // it stays closed
      fi
    };
    // step: trace/src/commands.cpp: change(source, kWatch | kSettled, kHold);
    closes = false
  od
}

// The objects of a hart's magazine.
#define IN(hart) (top[hart] != CLOSED -> top[hart] : (saved_top[hart] != NO_MAGAZINE -> saved_top[hart] : 0))

init {
  atomic {
    run Owner(0);
    run Owner(1);
    run Commander()
  };
  timeout -> assert(IN(0) + IN(1) + depot + held == given)
}
