// The ring of events of one hart, which one reader empties: an event is read as it was put, in order; each event that found
// no room is counted in a note at its place; and after the stop nothing is missing.
//
// layer: trace
// harts: 2
//
// The hart puts five times: an event, a reallocation (two entries) or a change of its mode. The ring has four entries, and
// its counters wrap at 8, so both wrap around. An entry has two words, which are written and read in two steps. The reader,
// on the console's hart, takes what there is and stops the stream at any moment.
//
// Memory order: the entry is written before the head (release), the head is read before the entry (acquire), the entry
// before the tail (release), and the tail before the entry is overwritten (acquire). The model keeps these orders; a mutant
// exchanges the two accesses, as the processor may without the release. Accesses without such an order between them do not
// matter: nobody reads an entry that is not published.
//
// Not covered: the global numbers of several harts; the encoding of events into frames; a start of the stream.
//
// mutant HEAD_FIRST: the head is published before the entry is written
// mutant TAIL_FIRST: the reader frees the room before it has read the entry
// mutant LIMIT_STAYS: a drop leaves the limit as it is, so the next event takes no note along
// mutant LIMIT_FROM_HEAD: the limit is a whole ring behind the head instead of the tail
// mutant NOTES_NEED_NO_ROOM: the notes are not counted when room is looked for
// mutant HALF_A_MOVE: the first entry of a reallocation is published alone
// mutant UNSAID_TOO_EARLY: the stop does not wait for the hart before the reader takes what no note has said

#define PUTS 5
#define ENTRIES 4
#define WRAP(counter) ((counter) & 7)

#define EVENT 1
#define MOVE 2
#define MOVED_TO 3
#define LOST 4
#define MODE 5

// An entry: what it is with the mode that the hart was in; its number, or the note's value.
byte what[ENTRIES], value[ENTRIES];
byte head = 6, tail = 6;
byte limit = 2; // WRAP(tail + ENTRIES)
byte lost_unsaid;
bool mode_unsaid;
bool mode;
bool streaming = true; // the state word
bool asked;
bool ending;  // StreamState::kEnding
byte numbers; // events put or dropped, as the reader must count them

#define WHAT(kind) ((kind) + (mode -> 8 : 0))

inline write(at, kind, number) {
  // step: trace/include/qm/trace/event_ring.hpp: entry.what = what;
  what[at & (ENTRIES - 1)] = WHAT(kind);
  // step: trace/include/qm/trace/event_ring.hpp: entry.number = numbers.fetch_add(1, std::memory_order_relaxed);
  value[at & (ENTRIES - 1)] = number
}

// step: trace/src/event_ring.cpp: void EventRing::put_note(wire::Operation operation, std::uint32_t value)
inline put_note(kind, number) {
  write(head, kind, number);
  head = WRAP(head + 1)
}

// The mode of the hart is in the note too; the number of what was lost, or the mode.
// step: trace/src/event_ring.cpp: bool EventRing::say(std::uint32_t entries)
inline say(entries) {
  // step: trace/src/event_ring.cpp: const std::uint32_t tail = tail_.load(std::memory_order_acquire);
  seen_tail = tail;
  // step: trace/src/event_ring.cpp: const std::uint32_t room = mask_ + 1 - (head_.load(std::memory_order_relaxed) - tail);
  notes = (lost_unsaid != 0 -> 1 : 0) + (mode_unsaid -> 1 : 0);
#ifdef MUTANT_NOTES_NEED_NO_ROOM
  fits = ENTRIES - WRAP(head - seen_tail) >= entries;
#else
  fits = ENTRIES - WRAP(head - seen_tail) >= entries + notes;
#endif
  if
  :: fits ->
    if
    // step: trace/src/event_ring.cpp: put_note(wire::Operation::kLost, lost_unsaid_);
    :: lost_unsaid != 0 -> put_note(LOST, lost_unsaid)
    :: else
    fi;
    if
    // step: trace/src/event_ring.cpp: if (mode_unsaid_) put_note(wire::Operation::kMode
    :: mode_unsaid -> put_note(MODE, mode)
    :: else
    fi;
    lost_unsaid = 0;
    mode_unsaid = false;
    // step: trace/src/event_ring.cpp: limit_ = tail + mask_ + 1;
#ifdef MUTANT_LIMIT_FROM_HEAD
    limit = WRAP(head + ENTRIES)
#else
    limit = WRAP(seen_tail + ENTRIES)
#endif
  :: else
  fi
}

proctype Hart() {
  byte puts = PUTS, seen_tail, notes, entries, at;
  bool fits, slow;
  do
  // The answer to the broadcast of the stop, between two masked sections.
  // step: trace/src/stream.cpp: if (!ask(hal::online_harts(), visit_nothing, nullptr, {abort, deadline_ms}, result)) return result;
  :: asked -> asked = false; break
  // step: trace/include/qm/trace/event_ring.hpp: void put(std::uint32_t what, std::uint64_t address
  // step: trace/src/event_ring.cpp: void EventRing::put_move(const RingEntry& from
  :: atomic { puts > 0 && streaming ->
       puts--;
       if
       :: entries = 1
       :: entries = 2
       fi;
       // step: trace/include/qm/trace/event_ring.hpp: if (head == limit_) [[unlikely]]
       slow = (entries == 2 || head == limit);
       fits = true };
     if
     :: slow -> say(entries)
     :: else
     fi;
     at = head;
     if
     :: !fits ->
        // step: trace/src/event_ring.cpp: ++lost_unsaid_;
reach_drop:
        atomic {
          lost_unsaid++;
          numbers++;
          // step: trace/src/event_ring.cpp: limit_ = head_.load(std::memory_order_relaxed);
#ifndef MUTANT_LIMIT_STAYS
          limit = head
#endif
        }
     :: fits ->
#ifdef MUTANT_HEAD_FIRST
        head = WRAP(head + entries);
#endif
#ifdef MUTANT_HALF_A_MOVE
        if
        :: entries == 2 -> write(at, MOVE, numbers); head = WRAP(head + 1); write(at + 1, MOVED_TO, numbers)
        :: else -> write(at, EVENT, numbers)
        fi;
#else
        if
        // step: trace/src/event_ring.cpp: entries_[(head + 1) & mask_] = to;
        :: entries == 2 ->
reach_move: write(at + 1, MOVED_TO, numbers);
           write(at, MOVE, numbers)
        :: else ->
reach_event: write(at, EVENT, numbers)
        fi;
#endif
        atomic {
          numbers++;
          // step: trace/include/qm/trace/event_ring.hpp: head_.store(head + 1, std::memory_order_release);
          // step: trace/src/event_ring.cpp: head_.store(head + 2, std::memory_order_release);  // as in put()
#ifndef MUTANT_HEAD_FIRST
          head = WRAP(at + entries)
#endif
        }
     fi;
     atomic { seen_tail = 0; notes = 0; entries = 0; at = 0; fits = false; slow = false }
  // step: trace/src/event_ring.cpp: void EventRing::change_mode(wire::StreamMode mode)
  :: atomic { puts > 0 && streaming -> puts--; mode = !mode; mode_unsaid = true };
     say(0);
     if
     :: fits ->
reach_mode_said: skip
     :: else ->
reach_mode_unsaid: limit = head
     fi;
     atomic { seen_tail = 0; notes = 0; fits = false }
  od
}

proctype Reader() {
  byte taken, kind, number; // `taken`: the number of the next event
  byte seen_head, first, entries = 1;
  bool now, stopping;
  do
  // step: trace/src/stream_reader.cpp: if (ring.waiting() == 0) return take_unsaid(hart, event);
  :: atomic { tail != head -> seen_head = head; first = tail };
#ifdef MUTANT_TAIL_FIRST
     tail = WRAP(tail + 1);
#endif
     // step: trace/src/stream_reader.cpp: const RingEntry& entry = ring.peek();
     kind = what[first & (ENTRIES - 1)];
     number = value[first & (ENTRIES - 1)];
     if
     :: (kind & 7) == LOST ->
        // step: trace/src/stream_reader.cpp: stream.taken[hart].numbers += count;
reach_lost: taken = taken + number
     :: (kind & 7) == MODE ->
        // step: trace/src/stream_reader.cpp: event.mode = static_cast<wire::StreamMode>(entry.stack_context);
reach_mode: now = number
     :: else ->
        assert((kind & 7) == EVENT || (kind & 7) == MOVE);
        assert(number == taken && now == (kind >> 3));
        // step: trace/src/stream_reader.cpp: event.hart_number = taken.numbers++;
        taken++;
        if
        :: (kind & 7) == MOVE ->
           // step: trace/src/stream_reader.cpp: if (entry.is_moved()) sized = &ring.peek(entries++);
           assert(WRAP(seen_head - first) >= 2);
           kind = what[(first + 1) & (ENTRIES - 1)];
           number = value[(first + 1) & (ENTRIES - 1)];
           assert((kind & 7) == MOVED_TO && number + 1 == taken);
           entries = 2
        :: else
        fi
     fi;
     atomic {
       // step: trace/include/qm/trace/event_ring.hpp: tail_.store(tail_.load(std::memory_order_relaxed) + count
#ifdef MUTANT_TAIL_FIRST
       tail = WRAP(first + entries);
#else
       tail = WRAP(tail + entries);
       // For fewer states: nobody reads these words again before they are written.
       what[first & (ENTRIES - 1)] = 0;
       value[first & (ENTRIES - 1)] = 0;
       what[(first + entries - 1) & (ENTRIES - 1)] = 0;
       value[(first + entries - 1) & (ENTRIES - 1)] = 0;
#endif
       kind = 0; number = 0; seen_head = 0; first = 0; entries = 1
     }
  // step: trace/src/stream.cpp: state().fetch_and(~kStream, std::memory_order_seq_cst) & kStreamHold
  :: atomic { !stopping -> stopping = true; streaming = false };
     asked = true;
#ifndef MUTANT_UNSAID_TOO_EARLY
     !asked;
#endif
     // step: trace/src/stream.cpp: stream.state.store(StreamState::kEnding, std::memory_order_release);
     ending = true
  // step: trace/src/stream_reader.cpp: bool take_unsaid(unsigned hart, wire::Event& event)
  :: atomic { ending && tail == head ->
       // step: trace/src/stream_reader.cpp: if (const std::uint32_t lost = ring.take_unsaid(); lost != 0)
       taken = taken + lost_unsaid;
       lost_unsaid = 0;
       // step: trace/src/stream_reader.cpp: if (!ring.take_unsaid_mode()) return false;
       now = (mode_unsaid -> mode : now);
       mode_unsaid = false };
     break
  od;
  !asked; // with a mutant the hart may still put events
reach_end:
  atomic {
    assert(taken == numbers);
    assert(now == mode);
    assert(tail == head)
  }
}

init {
  atomic { run Hart(); run Reader() }
}
