/// The threads check repeatedly where they are, and allocate in between; the results are compared at the end.

#include <qm/conformance/thread_check.hpp>

#include <qm/hal/hart.hpp>

#include "board.hpp"

namespace qm::conformance {
namespace {

using hal::HartMask;
using hal::Port;

/// The observations of one thread. Only that thread writes them, until it has left.
struct Seat {
  std::atomic<HartMask> harts{0};           // that the thread ran on
  const hal::ThreadState* state = nullptr;  // the first address that thread_state() returned
  std::uint32_t key = 0;                    // the first value that context_key() returned
  bool state_changed = false, key_changed = false, outside_its_stack = false;
  std::uint32_t twice = 0;  // objects that another thread had at the same time
};

struct Room {
  std::array<Seat, kMostThreads> seats;
  std::array<std::atomic<const hal::HartLocal*>, Port::kMaxHarts> locals;  // the first seen on each hart
  std::atomic<HartMask> mixed_up{0};                                       // harts on which different ones were seen
  std::atomic<std::uint32_t> came{0}, left{0}, over{0};
  Cache* cache = nullptr;  // under test; release with `began`
  std::atomic<std::uint32_t> began{0};
};
constinit Room room;

/// One observation, masked so that the thread cannot be moved during it.
void look(Seat& seat) noexcept {
  const hal::InterruptGuard masked;
  const unsigned hart = Port::hart_index() % Port::kMaxHarts;
  const hal::HartLocal* const locals = &hal::hart_local();
  const hal::HartLocal* first = nullptr;
  if (!room.locals[hart].compare_exchange_strong(first, locals) && first != locals)
    room.mixed_up.fetch_or(HartMask{1} << hart);
  seat.harts.fetch_or(HartMask{1} << hart, std::memory_order_relaxed);
}

/// Observes the thread's own data, which must be right without masking.
void look_at_itself(Seat& seat) noexcept {
  if (&hal::thread_state() != seat.state) seat.state_changed = true;
  if (Port::context_key() != seat.key) seat.key_changed = true;
  const auto frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  const hal::StackBounds stack = Port::stack_bounds(frame);
  if (stack.high != 0 && (frame < stack.low || frame > stack.high)) seat.outside_its_stack = true;
}

void sit(Seat& seat) noexcept {
  seat.state = &hal::thread_state();
  seat.key = Port::context_key();
  board.cache = room.cache;
  while (room.over.load(std::memory_order_acquire) == 0) {
    look(seat);
    look_at_itself(seat);
    seat.twice += churn(4);
  }
}

bool all_came(unsigned threads) noexcept { return room.came.load(std::memory_order_acquire) >= threads; }
bool all_left(unsigned threads) noexcept { return room.left.load(std::memory_order_acquire) >= threads; }

/// The first hart on which the thread of @p seat did not run; @p harts if it ran on all.
unsigned missed_hart(const Seat& seat, unsigned harts) noexcept {
  unsigned hart = 0;
  while (hart < harts && (seat.harts.load(std::memory_order_relaxed) >> hart & 1) != 0) ++hart;
  return hart;
}

bool moves(const ThreadCheck& check, const Line& line) {
  for (unsigned i = 0; i < check.threads; ++i) {
    const unsigned hart = missed_hart(room.seats[i], check.harts);
    if (hart == check.harts) continue;
    line << "FAILED: thread " << std::uint64_t{i} << " was not on hart " << std::uint64_t{hart} << " in "
         << std::uint64_t{check.wait_ms} << " ms";
    return false;
  }
  return true;
}

bool hart_locals(const ThreadCheck& check, const Line& line) {
  for (unsigned hart = 0; hart < check.harts; ++hart) {
    bool brought = (room.mixed_up.load() >> hart & 1) != 0;
    for (unsigned other = 0; other < hart; ++other) {
      brought = brought || (room.locals[hart] != nullptr && room.locals[hart] == room.locals[other].load());
    }
    if (!brought) continue;
    line << "FAILED: a thread has brought other hart-locals to hart " << std::uint64_t{hart}
         << ": a switch is to leave tp alone";
    return false;
  }
  return true;
}

/// @returns whether no two threads have the same @p value in their seats, and no thread saw its value change.
template <class T>
bool is_their_own(const ThreadCheck& check, const Line& line, const char* what, T Seat::*value, bool Seat::*changed) {
  for (unsigned i = 0; i < check.threads; ++i) {
    if (room.seats[i].*changed) {
      line << "FAILED: " << what << " is not always the same in thread " << std::uint64_t{i};
      return false;
    }
    for (unsigned j = 0; j < i; ++j) {
      if (room.seats[i].*value != room.seats[j].*value) continue;
      line << "FAILED: " << what << " is the same in threads " << std::uint64_t{j} << " and " << std::uint64_t{i};
      return false;
    }
  }
  return true;
}

bool states(const ThreadCheck& check, const Line& line) {
  return is_their_own(check, line, "thread_state()", &Seat::state, &Seat::state_changed);
}

bool contexts(const ThreadCheck& check, const Line& line) {
  if (room.seats[0].key == 0) {
    line << "(no context_key(): labels are asked for each time) ";
  } else if (!is_their_own(check, line, "context_key()", &Seat::key, &Seat::key_changed)) {
    return false;
  }
  for (unsigned i = 0; i < check.threads; ++i) {
    if (!room.seats[i].outside_its_stack) continue;
    line << "FAILED: stack_bounds() of a frame of thread " << std::uint64_t{i} << " does not contain it";
    return false;
  }
  return true;
}

bool allocations(const ThreadCheck& check, const Line& line) {
  for (unsigned i = 0; i < check.threads; ++i) {
    if (room.seats[i].twice == 0) continue;
    line << "FAILED: thread " << std::uint64_t{i}
         << " was handed objects that another had: qm_rewind() is to come before the switch";
    return false;
  }
  return true;
}

struct Named {
  const char* name;
  bool (*run)(const ThreadCheck& check, const Line& line);
};
constexpr Named kChecks[] = {
    {"hart-locals of threads", &hart_locals},
    {"threads move", &moves},
    {"thread_state", &states},
    {"contexts of threads", &contexts},
    {"preempted allocations", &allocations},
};

bool begin(const ThreadCheck& check, const Line& line) {
  room.cache = create_cache("thread_check");
  if (room.cache == nullptr) line << "port: threads: FAILED: no cache\n";
  else if (check.threads > kMostThreads || !wait_until(check.wait_ms, &all_came, check.threads - 1)) {
    line << "port: threads: FAILED: " << std::uint64_t{room.came.load()} << " of " << std::uint64_t{check.threads - 1}
         << " other threads have come to attend_thread_check()\n";
  } else {
    return true;
  }
  return false;
}

/// Runs until every thread was on every hart, or the time is over.
void watch(const ThreadCheck& check) noexcept {
  Seat& own = room.seats[0];
  own.state = &hal::thread_state();
  own.key = Port::context_key();
  room.began.store(1, std::memory_order_release);  // pairs with attend_thread_check()
  const std::uint64_t start = Port::ticks(), limit = hal::ticks_of(check.wait_ms);
  for (bool everywhere = false; !everywhere && Port::ticks() - start < limit;) {
    look(own);
    look_at_itself(own);
    own.twice += churn(4);
    everywhere = true;
    for (unsigned i = 0; i < check.threads; ++i)
      everywhere = everywhere && missed_hart(room.seats[i], check.harts) == check.harts;
  }
}

}  // namespace

void attend_thread_check() noexcept {
  Seat& seat = room.seats[(room.came.fetch_add(1, std::memory_order_acq_rel) + 1) % kMostThreads];
  // acquire: pairs with the release in watch().
  while (room.began.load(std::memory_order_acquire) == 0) {
    if (room.over.load(std::memory_order_acquire) != 0) return;
    Port::relax();
  }
  sit(seat);
  room.left.fetch_add(1, std::memory_order_acq_rel);
}

bool check_threads(const ThreadCheck& check) noexcept {
  const Line line(check.write);
  if constexpr (!hal::kThreads) {
    line << "port: has no threads\n";
    return true;
  }
  unsigned failed = 0;
  if (!begin(check, line)) {
    room.over.store(1, std::memory_order_release);
    return false;
  }
  board.cache = room.cache;
  watch(check);
  room.over.store(1, std::memory_order_release);
  if (!wait_until(check.wait_ms, &all_left, check.threads - 1))
    line << "port: threads: FAILED: not all end what they do\n", ++failed;
  for (const Named& one : kChecks) {
    line << "port: " << one.name << ": ";
    if (one.run(check, line)) line << "ok\n";
    else line << "\n", ++failed;
  }
  if (failed == 0) {
    Cache::destroy(room.cache);
    line << "port: threads conform: " << std::uint64_t{check.threads} << " threads, " << std::uint64_t{check.harts}
         << " harts\n";
  } else {
    line << "port: threads do not conform\n";
  }
  return failed == 0;
}

}  // namespace qm::conformance
