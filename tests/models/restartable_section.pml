// The restartable section: an interrupt at any instruction of a pop or a push sends it back to its start, and no object
// is lost or handed out twice, whatever the interrupt does meanwhile.
//
// layer: alloc
// harts: 3
//
// Each thread runs two operations, instruction by instruction. At any of them an interrupt may come: it rewinds the
// program counter, may close or open the hart's per-hart cache or swap its magazines, as a broadcast or the slow half of
// an interrupt handler does, and then lets another thread run on the hart. A thread that runs both its operations while
// the other one is interrupted stands for an interrupt handler. An interrupted thread continues on any idle hart.
//
// Memory order: a section reads and writes data of its own hart only, and each hart sees its own accesses in their
// order. A thread that changes harts passes the fences of its scheduler. So interleaving is all there is.
//
// Not covered: the inlined form and that of the heap, whose sections begin after the address of the hart's pointer was
// formed; the search for a section's start in qm_rewind(); the flagged section of the host; the charge of call sites.
//
// mutant NO_REWIND: the trap entry leaves the program counter as it is
// mutant REWIND_TO_TOP: a restart does not form the address of the per-hart cache again
// mutant COMMIT_GOES_ON: a section that is interrupted at its commit is not rewound
// mutant COUNT_NOT_FINISHED: a pop that is interrupted between its two stores does the second one later
// mutant RESULT_TOO_EARLY: the pop writes a0 before its commit, and a restart needs it
// mutant STORE_AFTER_COMMIT: the push stores the object after the commit

#define HARTS 3
#define THREADS 2
#define INTERRUPTS 2
#define SLOTS 2     /* of a magazine */
#define MAGAZINES 6 /* hart h has the magazines 2h and 2h + 1 */
#define OBJECTS 7   /* numbers 1 to 7; 0 is null */
#define NONE 15

// Addresses are indexes of `memory`. kClosed[0] is at 0, so 1 is the closed address. Behind it lie the magazines: a null,
// then the slots.
#define CLOSED 1
#define BOTTOM(m) (2 + (m) * (SLOTS + 1))
#define FIRST(m) (BOTTOM(m) + 1)
#define END(m) (FIRST(m) + SLOTS)

typedef HartCache {
  byte top = CLOSED, limit, saved_top = CLOSED;
  byte loaded, previous; // magazines
  byte allocs
};

byte memory[2 + MAGAZINES * (SLOTS + 1)];
HartCache caches[HARTS];
byte rounds[MAGAZINES]; // of a magazine that is not loaded
byte slab;              // the free objects of the slabs, one bit each
bool closes;            // the state word: the per-hart caches have to be closed
byte runs[HARTS] = NONE;
byte interrupts = INTERRUPTS;
byte done;
byte counted[HARTS]; // what `allocs` must be
byte holder[OBJECTS + 1] = NONE;

#define cache caches[hart]
#define BIT(object) (1 << ((object) - 1))
#define MINE (hart != NONE && runs[hart] == me)

// step: alloc/include/qm/detail/magazine.hpp: Closes both paths; saved_top is valid from here on
inline close() {
  if
  :: cache.top != CLOSED -> cache.saved_top = cache.top
  :: else
  fi;
  cache.top = CLOSED;
  cache.limit = 0
}

// step: alloc/src/cache/cache.cpp: void Cache::open_hart_cache(unsigned hart)
inline open() {
  if
  :: closes
  :: else ->
    cache.limit = END(cache.loaded);
    cache.top = cache.saved_top
  fi
}

// step: alloc/src/cache/magazine.cpp: void HartCache::swap()
inline swap() {
  rounds[cache.loaded] = cache.saved_top - FIRST(cache.loaded);
  cache.loaded = cache.loaded ^ 1;
  cache.saved_top = FIRST(cache.loaded) + rounds[cache.loaded];
  cache.previous = cache.loaded ^ 1
}

inline take(object) {
  assert(object != 0 && holder[object] == NONE);
  holder[object] = me
}

// Each object is held by a thread, in a magazine or in the slabs, and in one of these only.
inline check_objects() {
  byte object, hart_, slot, places;
  object = 1;
  do
  :: object <= OBJECTS ->
    places = (holder[object] != NONE -> 1 : 0) + ((slab & BIT(object)) != 0 -> 1 : 0);
    hart_ = 0;
    do
    :: hart_ < HARTS ->
      slot = FIRST(caches[hart_].loaded);
      do
      :: slot < (caches[hart_].top != CLOSED -> caches[hart_].top : caches[hart_].saved_top) ->
        places = places + (memory[slot] == object -> 1 : 0);
        slot++
      :: else -> break
      od;
      slot = FIRST(caches[hart_].previous);
      do
      :: slot < FIRST(caches[hart_].previous) + rounds[caches[hart_].previous] ->
        places = places + (memory[slot] == object -> 1 : 0);
        slot++
      :: else -> break
      od;
      hart_++
    :: else -> break
    od;
    assert(places == 1);
    object++
  :: else -> break
  od;
  hart_ = 0;
  do
  :: hart_ < HARTS -> assert(caches[hart_].allocs == counted[hart_]); hart_++
  :: else -> break
  od
}

// The program counter: 0 to POP_END in the pop, PUSH to PUSH_END in the push.
#define POP_COMMIT 4
#define POP_COUNT 5
#define POP_END 6
#define PUSH 10
#define PUSH_COMMIT 14
#define PUSH_END 15
#define BETWEEN 20 /* between operations */
#define SLOW_POP 30
#define SLOW_PUSH 31

#ifdef MUTANT_COMMIT_GOES_ON
#define IN_POP (pc < POP_COMMIT)
#define IN_PUSH (pc >= PUSH && pc < PUSH_COMMIT)
#else
#define IN_POP (pc <= POP_COMMIT)
#define IN_PUSH (pc >= PUSH && pc <= PUSH_COMMIT)
#endif
#ifdef MUTANT_REWIND_TO_TOP
#define START(start) (pc == start -> start : start + 1)
#else
#define START(start) start
#endif

proctype Thread(byte me) {
  byte hart = NONE;
  byte pc = BETWEEN;
  byte operations = 2;
  byte t0, t1, t2, t3, a0, a1; // registers; set to 0 when they are not needed any more, for fewer states
  byte mine = me + 1; // the object that the thread holds; at first number 1 or 2
  holder[mine] = me;
  do
  // ---- the pop. An instruction that uses registers only is one step with the access before it: an interrupt between
  // the two finds the same memory.
  // step: alloc/src/fastpath/sections.S: LOAD t0, %tprel_lo(qm_hart_cache_offset)(tp)
  // step: alloc/src/fastpath/sections.S: add t0, t0, a0
  :: atomic { MINE && pc == 0 -> assert(a0 == 0); t0 = hart; pc = 1 } // a0: the cache, which is 0
  // step: alloc/src/fastpath/sections.S: LOAD t1, QM_HART_CACHE_TOP(t0)
  :: atomic { MINE && pc == 1 -> t1 = caches[t0].top; pc = 2 }
  // step: alloc/src/fastpath/sections.S: LOAD t2, -QM_WORD_BYTES(t1)
  // step: alloc/src/fastpath/sections.S: beqz t2, \slow
  :: atomic { MINE && pc == 2 -> t2 = memory[t1 - 1]; pc = (t2 == 0 -> SLOW_POP : 3) }
  // step: alloc/src/fastpath/sections.S: LOAD t3, QM_HART_CACHE_ALLOCS(t0)
  // step: alloc/src/fastpath/sections.S: addi t1, t1, -QM_WORD_BYTES
  // step: alloc/src/fastpath/sections.S: addi t3, t3, 1
  :: atomic { MINE && pc == 3 ->
       t3 = caches[t0].allocs + 1;
       t1 = t1 - 1;
#ifdef MUTANT_RESULT_TOO_EARLY
       a0 = t2;
#endif
       pc = POP_COMMIT }
  // step: alloc/src/fastpath/sections.S: STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
  :: atomic { MINE && pc == POP_COMMIT ->
reach_pop: caches[t0].top = t1; counted[t0]++; t1 = 0; pc = POP_COUNT }
  // step: alloc/src/fastpath/sections.S: STORE t3, QM_HART_CACHE_ALLOCS(t0)
  :: atomic { MINE && pc == POP_COUNT -> caches[t0].allocs = t3; t0 = 0; t3 = 0; pc = POP_END }
  // step: alloc/src/fastpath/sections.S: mv a0, t2                              /* only now: a restart needs a0 */
  :: atomic { MINE && pc == POP_END -> take(t2); mine = t2; a0 = 0; t2 = 0; pc = BETWEEN }

  // ---- the push
  :: atomic { MINE && pc == PUSH -> t0 = hart; pc = PUSH + 1 }
  :: atomic { MINE && pc == PUSH + 1 -> t1 = caches[t0].top; pc = PUSH + 2 }
  // step: alloc/src/fastpath/sections.S: LOAD t2, QM_HART_CACHE_LIMIT(t0)
  // step: alloc/src/fastpath/sections.S: bgeu t1, t2, .Lfree_slow
  :: atomic { MINE && pc == PUSH + 2 -> pc = (t1 >= caches[t0].limit -> SLOW_PUSH : PUSH + 3) }
  // step: alloc/src/fastpath/sections.S: STORE a1, 0(t1)                        /* above top: invisible until the commit */
  // step: alloc/src/fastpath/sections.S: addi t1, t1, QM_WORD_BYTES
  :: atomic { MINE && pc == PUSH + 3 ->
#ifndef MUTANT_STORE_AFTER_COMMIT
       memory[t1] = a1;
#endif
       t1 = t1 + 1;
       pc = PUSH_COMMIT }
  :: atomic { MINE && pc == PUSH_COMMIT ->
reach_push: caches[t0].top = t1; pc = PUSH_END }
  :: atomic { MINE && pc == PUSH_END ->
#ifdef MUTANT_STORE_AFTER_COMMIT
       memory[t1 - 1] = a1;
#endif
       a1 = 0; t0 = 0; t1 = 0; pc = BETWEEN }

  // ---- the slow halves: interrupts are masked, and other harts do not touch this hart's per-hart cache
  // step: alloc/src/cache/cache.cpp: object = take_from_hart_cache(hart_cache(hart));
  :: atomic { MINE && pc == SLOW_POP ->
       close();
       if
       :: cache.saved_top == FIRST(cache.loaded) && rounds[cache.previous] != 0 -> swap()
       :: else
       fi;
       if
       :: cache.saved_top != FIRST(cache.loaded) ->
reach_slow_take: cache.saved_top = cache.saved_top - 1;
         mine = memory[cache.saved_top];
         cache.allocs++;
         counted[hart]++;
         take(mine)
       :: else ->
reach_no_object: mine = 0
       fi;
       open();
       t0 = 0; t1 = 0; t2 = 0; pc = BETWEEN }
  // step: alloc/src/cache/cache.cpp: placed = put_in_reserve(object) ? Placed::kHere : put_in_hart_cache(hart_cache(hart), object);
  :: atomic { MINE && pc == SLOW_PUSH ->
       close();
       if
       :: cache.saved_top == END(cache.loaded) && rounds[cache.previous] != SLOTS -> swap()
       :: else
       fi;
       if
       :: cache.saved_top != END(cache.loaded) ->
reach_slow_put: memory[cache.saved_top] = a1;
         cache.saved_top = cache.saved_top + 1
       :: else ->
reach_slab: slab = slab | BIT(a1)
       fi;
       open();
       a1 = 0; t0 = 0; t1 = 0; t2 = 0; pc = BETWEEN }

  // ---- the next operation
  :: atomic { MINE && pc == BETWEEN && operations > 0 ->
       operations--;
       if
       :: mine == 0 -> a0 = 0; pc = 0
       :: mine != 0 -> a1 = mine; holder[mine] = NONE; mine = 0; pc = PUSH
       :: mine != 0 -> a0 = 0; pc = 0 // the thread keeps what it holds
       fi }
  :: atomic { MINE && pc == BETWEEN && operations == 0 -> runs[hart] = NONE; hart = NONE; break }

  // ---- an interrupt, and a thread that continues
  :: atomic { MINE && pc < SLOW_POP && interrupts > 0 ->
       interrupts--;
       // step: firmware/boot/src/trap.cpp: frame->pc = qm_rewind(frame->original_pc, frame->x.data());
#ifndef MUTANT_NO_REWIND
       if
       // step: alloc/src/fastpath/rewind.cpp: if (inside <= commit) return pc - inside;
       :: IN_POP ->
reach_rewound_pop: pc = START(0)
       :: IN_PUSH ->
reach_rewound_push: pc = START(PUSH)
#ifndef MUTANT_COUNT_NOT_FINISHED
       // step: alloc/src/fastpath/rewind.cpp: finish_count(registers);
       :: pc == POP_COUNT ->
reach_finished_count: caches[t0].allocs = t3; t0 = 0; t3 = 0; pc = POP_END
#endif
       :: else // behind the section
       fi;
#ifndef MUTANT_REWIND_TO_TOP
       if
       :: pc == 0 || pc == PUSH -> t0 = 0; t1 = 0; t2 = 0; t3 = 0 // the section reads them again: fewer states
       :: else
       fi;
#endif
#endif
       if
       :: true // the handler does not use the cache
       // step: trace/src/selection.hpp: cache->close(hart);
       :: closes = !closes;
reach_visit: close(); open()
       :: close(); swap(); open()
       fi;
       if
       :: runs[hart] = NONE; hart = NONE // the scheduler takes the hart from the thread
       :: true
       fi }
  :: atomic { hart == NONE && runs[0] == NONE -> hart = 0; runs[0] = me }
  :: atomic { hart == NONE && runs[1] == NONE -> hart = 1; runs[1] = me }
  :: atomic { hart == NONE && runs[2] == NONE -> hart = 2; runs[2] = me }
  od;
  atomic {
    done++;
    if
    :: done == THREADS -> check_objects()
    :: else
    fi
  }
}

init {
  atomic {
    byte h = 0;
    do
    :: h < HARTS ->
      caches[h].loaded = 2 * h;
      caches[h].previous = 2 * h + 1;
      caches[h].saved_top = FIRST(2 * h) + 1;
      caches[h].top = caches[h].saved_top;
      caches[h].limit = END(2 * h);
      memory[FIRST(2 * h)] = 3 + h; // each hart has one object in its loaded magazine
      h++
    :: else -> break
    od;
    memory[FIRST(1)] = 6; // the previous magazine of hart 0 is full
    memory[FIRST(1) + 1] = 7;
    rounds[1] = SLOTS;
    run Thread(0);
    run Thread(1)
  }
}
