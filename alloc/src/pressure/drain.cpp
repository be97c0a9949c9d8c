// Drain: magazines into depots, depots into slabs, slabs and spans into arenas.
//
//     drain()                   one hart at a time; a hart that waited may find it done
//       drain_now()               passes, as long as one gives something back
//         Visits                    batches of caches: a broadcast asks the harts that have magazines of them
//         Cache::give_back()        depot, empty slabs
//         Arena::reap()             empty spans

#include "pressure/drain.hpp"

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/exhaustion.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/hal/turn.hpp>
#include <qm/system.hpp>

namespace qm::exhaustion {

namespace internal {
constinit std::atomic<std::uint32_t> shortages{0};
}

namespace {

/// Per-hart caches that a hart empties with interrupts masked in one visit.
constexpr unsigned kBatch = 16;
/// Most arenas with quantum caches that import from each other in a chain.
constexpr unsigned kPasses = 8;

constinit std::uint32_t deadline_ms = hal::kBroadcastDeadlineMs;
constinit hal::Turn turn;
// The numbers of the last drain that has begun and of the last that has ended. A drain that has ended, with a number
// above the last one begun when a hart asked, has seen all memory that was idle when the hart asked (X3).
constinit std::atomic<std::uint32_t> begun{0};
constinit std::atomic<std::uint32_t> ended{0};
constinit std::atomic<hal::HartMask> last_silent{0};
constinit std::atomic<hal::HartMask> absent{0};  // harts that missed a deadline and have not answered since (X5)
constinit std::atomic<std::uint32_t> drain_count{0};
constinit std::atomic<std::uint32_t> shared_count{0};
constinit std::atomic<std::uint32_t> broadcast_count{0};
constinit std::atomic<std::uint32_t> post_count{0};
constinit std::atomic<std::uint32_t> missed_count{0};

constexpr hal::HartMask bit(unsigned hart) { return hal::HartMask{1} << hart; }

void add_one(std::atomic<std::uint32_t>& count) noexcept { count.fetch_add(1, std::memory_order_relaxed); }

bool has_magazines(const Cache& cache, unsigned hart) noexcept { return (cache.magazine_harts() & bit(hart)) != 0; }

/// Serves a post; the running hart calls it for itself. Interrupts masked.
void give_magazines(unsigned hart) noexcept {
  absent.fetch_and(~bit(hart), std::memory_order_relaxed);
  RegistryCursor<Cache> caches;
  unsigned visited = 0;
  while (Cache* cache = visited < kBatch ? caches.next() : nullptr) {
    if (!has_magazines(*cache, hart)) continue;
    cache->detach_magazines(hart);
    ++visited;
  }
}

/// Caches that harts have magazines of, pinned while a broadcast empties these.
class Visits {
 public:
  explicit Visits(hal::HartMask& silent) noexcept : silent_(silent) {}

  void add(Cache& cache, const RegistryCursor<Cache>& position) noexcept {
    pins_[count_].stand_with(position);
    caches_[count_++] = &cache;
    if (count_ == kBatch) finish();
  }

  /// Broadcasts to the harts. A hart that does not answer is left out from then on. If another broadcast takes all the
  /// time, no hart is to blame: the harts are asked again, kAttempts times in all, and then posted to.
  void finish() noexcept {
    hal::HartMask harts = 0;
    for (unsigned i = 0; i < count_; ++i) harts |= caches_[i]->magazine_harts();
    if (!hal::may_wait()) {
      const hal::InterruptGuard masked;
      visit(hal::Port::hart_index(), this);
      harts = 0;
    }
    leave_out_absent(harts);
    for (unsigned attempts = kAttempts; harts != 0;) {
      if (harts != bit(hal::Port::hart_index())) add_one(broadcast_count);
      const hal::BroadcastResult answer = hal::run_on_harts(harts, visit, this, deadline_ms);
      if (answer.status != hal::BroadcastStatus::kTimedOut) break;
      if (answer.hart == hal::BroadcastResult::kNobody) {
        if (--attempts != 0) continue;
        hal::post(harts);
        break;
      }
      add_one(missed_count);
      absent.fetch_or(bit(answer.hart), std::memory_order_relaxed);
      leave_out_absent(harts);
    }
    for (unsigned i = 0; i < count_; ++i) pins_[i].leave();
    count_ = 0;
  }

 private:
  static constexpr unsigned kAttempts = 3;

  static void visit(unsigned hart, void* argument) noexcept {
    const Visits& self = *static_cast<const Visits*>(argument);
    for (unsigned i = 0; i < self.count_; ++i) {
      if (has_magazines(*self.caches_[i], hart)) self.caches_[i]->detach_magazines(hart);
    }
  }

  /// X5: posts to the harts that missed a deadline, and does not wait for them.
  void leave_out_absent(hal::HartMask& harts) noexcept {
    const hal::HartMask gone = harts & absent.load(std::memory_order_relaxed) & ~bit(hal::Port::hart_index());
    if (gone == 0) return;
    silent_ |= gone;
    harts &= ~gone;
    hal::post(gone);
  }

  hal::HartMask& silent_;
  RegistryCursor<Cache> pins_[kBatch];
  Cache* caches_[kBatch] = {};
  unsigned count_ = 0;
};

/// One pass, in the order in which idle memory moves: objects into slabs, slabs into arenas and so into quantum caches,
/// their slabs into the arenas, empty spans into the sources.
void drain_pass(Drained& drained) noexcept {
  constexpr std::uint32_t kLate = cache_flags::kQuantumCache | cache_flags::kNoMagazines;
  Visits visits(drained.silent);
  RegistryCursor<Cache> caches;
  for (const std::uint32_t kind : {std::uint32_t{0}, cache_flags::kQuantumCache, cache_flags::kNoMagazines}) {
    while (Cache* cache = kMagazines ? caches.next() : nullptr) {
      if ((cache->flags() & kLate) == kind && cache->magazine_harts() != 0) visits.add(*cache, caches);
    }
    if constexpr (kMagazines) visits.finish();
    while (Cache* cache = caches.next()) {
      if ((cache->flags() & kLate) != kind) continue;
      const Cache::Returned returned = cache->give_back();
      drained.objects += returned.objects;
      drained.bytes += returned.bytes;
    }
  }
  RegistryCursor<Arena> arenas;
  while (Arena* arena = arenas.next()) drained.bytes += arena->reap();
}

Drained drain_now() noexcept {
  const Reclaiming reclaiming;  // destructors run
  Drained drained;
  internal::shortages.fetch_add(1, std::memory_order_seq_cst);
  add_one(drain_count);
  for (unsigned pass = 0; pass < kPasses; ++pass) {
    const std::size_t before = drained.bytes;
    drain_pass(drained);
    // Arenas import from arenas: what one gives back may lie idle in the quantum caches of the next.
    if (drained.bytes == before) break;
  }
  internal::shortages.fetch_sub(1, std::memory_order_seq_cst);
  return drained;
}

/// Whether a drain has ended that began after drain number @p asked.
bool is_served(std::uint32_t asked) noexcept {
  return static_cast<std::int32_t>(ended.load(std::memory_order_acquire) - asked) > 0;
}

Drained share() noexcept {
  add_one(shared_count);
  Drained drained;
  drained.shared = true;
  drained.silent = last_silent.load(std::memory_order_relaxed);
  return drained;
}

}  // namespace

Drained drain() noexcept {
  if (!kMagazines || !hal::may_wait()) return drain_now();  // without magazines there is nothing to share
  const std::uint32_t asked = begun.load(std::memory_order_seq_cst);
  const std::uint64_t since = hal::Port::ticks();
  // Longer than a hart may take to answer. Then this hart drains beside the other, which a destructor may delay.
  const std::uint64_t patience = 2 * hal::ticks_of(deadline_ms);
  while (!turn.take_or_wait()) {
    if (is_served(asked)) return share();
    if (hal::in_panic() || hal::Port::ticks() - since > patience) return drain_now();
  }
  Drained drained;
  if (is_served(asked)) {
    drained = share();
  } else {
    const std::uint32_t number = begun.fetch_add(1, std::memory_order_seq_cst) + 1;
    drained = drain_now();
    last_silent.store(drained.silent, std::memory_order_relaxed);
    ended.store(number, std::memory_order_release);
  }
  turn.give_back();
  return drained;
}

void post_drain() noexcept {
  if constexpr (!kMagazines) return;
  add_one(post_count);
  {
    const hal::InterruptGuard masked;
    give_magazines(hal::Port::hart_index());
  }
  hal::post(hal::online_harts());
}

void set_drain_deadline(std::uint32_t ms) noexcept { deadline_ms = ms; }

DrainCounts drain_counts() noexcept {
  const auto load = [](const std::atomic<std::uint32_t>& count) { return count.load(std::memory_order_relaxed); };
  return {load(drain_count), load(shared_count), load(broadcast_count), load(post_count), load(missed_count)};
}

void reset_drains() noexcept {
  for (std::atomic<std::uint32_t>* count :
       {&drain_count, &shared_count, &broadcast_count, &post_count, &missed_count}) {
    count->store(0, std::memory_order_relaxed);
  }
  absent.store(0, std::memory_order_relaxed);
  deadline_ms = hal::kBroadcastDeadlineMs;
  if constexpr (kMagazines) hal::set_post_function(give_magazines);
}

}  // namespace qm::exhaustion

namespace qm {

std::size_t reclaim() noexcept {
  const std::size_t before = base_arena().stats().free;
  exhaustion::drain();
  const std::size_t after = base_arena().stats().free;
  return after > before ? after - before : 0;
}

}  // namespace qm
