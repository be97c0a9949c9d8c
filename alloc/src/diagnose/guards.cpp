/// Guarded samples; see guards.hpp.
///
/// Invariants
/// - G1 A slot is in use from its allocation to its free, else in the list of idle slots, which is in order of the frees:
///      the one that was freed first is used next.
/// - G2 The trap unit shows the window of each slot in use, and of no other, except what on_fault() has opened.
/// - G3 A hart refreshes its trap unit before it reads or writes a slot with the lock held: a fault there would wait for
///      the lock.
/// - G4 No lock is held while a stack is walked, a misuse is reported or a hart is asked.

#include <qm/guards.h>
#include <qm/guards.hpp>

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/bits.hpp>
#include <qm/detail/lock.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/poison.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/heap.hpp>
#include <qm/misuse.hpp>
#include <qm/system.hpp>

namespace qm {

/// What the guards need of a cache's private members.
struct GuardedCache {
  static bool may_be_selected(const Cache& cache) noexcept {
    constexpr std::uint32_t kNever = cache_flags::kQuantumCache | cache_flags::kNoTouch | cache_flags::kNoTrace;
    // The allocator uses objects of its own caches under its locks.
    if ((cache.flags() & cache_flags::kNoMagazines) != 0 && !cache.slabs().of_heap()) return false;
    // With call sites a free reads the charge beside the object, which may lie where a guarded object has nothing.
    if (kCallSites && !cache.slabs().of_heap()) return false;
    return (cache.flags() & kNever) == 0 && cache.traceable() && !cache.has_constructor() && !cache.has_destructor();
  }
  static void count_misuse(Cache& cache) noexcept { cache.count_misuse(); }
  static bool has_quarantine(const Cache& cache) noexcept {
    const Quarantine* quarantine = cache.quarantine();
    return quarantine != nullptr && quarantine->bytes() != 0;
  }
};

namespace guards {
namespace internal {
constinit std::atomic<const Calls*> calls{nullptr};
constinit std::atomic<std::int32_t> left{0};
constinit std::atomic<bool> samples_heap{false};
}  // namespace internal

namespace {

using Unit = hal::Port::TrapUnit;
constexpr std::size_t kRoom = Unit::kSlotBytes - Unit::kEdgeBytes;
/// Bytes of the pattern on each side of an object.
constexpr std::size_t kPattern = 64;
static_assert(Unit::kEdgeBytes >= kPattern && Unit::kEdgeBytes % heap::kAlignment == 0);
constexpr std::uint16_t kNone = 0xffff;
/// Longest access of one instruction.
constexpr std::size_t kLongestAccess = 8;

struct Slot {
  enum class State : std::uint8_t { kUnused, kLive, kFreed };
  std::uintptr_t start = 0;
  std::uint32_t bytes = 0;
  std::uint32_t allocated_by = 0;
  std::uint32_t freed_by = 0;
  Cache* cache = nullptr;  ///< nullptr: a block of the heap
  State state = State::kUnused;
  bool is_told = false;        ///< on_fault() has reported an access
  std::uint16_t next = kNone;  ///< in the list of idle slots

  [[nodiscard]] std::uintptr_t end() const noexcept { return start + bytes; }
  [[nodiscard]] std::uintptr_t window_low() const noexcept { return round_down(start, Unit::kGrainBytes); }
  [[nodiscard]] std::uintptr_t window_high() const noexcept { return round_up(end(), Unit::kGrainBytes); }
};

struct Pool {
  std::uintptr_t start = 0;  ///< 0: there is none
  std::size_t bytes = 0;
  unsigned slots = 0;
  Slot* table = nullptr;
  MemoryRange extra{};  ///< of the trap unit's tables and the slots
  bool traps = false;
  bool is_ending = false;  ///< no samples any more
  std::uint16_t first_idle = kNone, last_idle = kNone;
  unsigned live = 0;
  unsigned freed = 0;
  std::uint64_t sampled = 0, missed = 0;
  std::uint32_t random = 1;
};

/// The selected caches, for on_tick(); those beyond are sampled when their magazines run empty.
struct Selected {
  static constexpr unsigned kMost = 48;
  Cache* caches[kMost] = {};
  unsigned count = 0;

  void add(Cache& cache) noexcept {
    for (unsigned i = 0; i < count; ++i) {
      if (caches[i] == &cache) return;
    }
    if (count != kMost) caches[count++] = &cache;
  }
  void remove(const Cache& cache) noexcept {
    for (unsigned i = 0; i < count; ++i) {
      if (caches[i] == &cache) caches[i--] = caches[--count];
    }
  }
};

constinit Lock lock;          // a leaf
constinit Selected selected;  // under the lock
constinit Pool pool;          // under the lock; start, slots and traps change only while no hart is armed
std::atomic<std::uint32_t> every{0};
std::atomic<std::uint32_t> interval_ms{0};
using internal::left;
std::atomic<std::uint32_t> latest{0};  ///< lower half of the ticks at the latest sample
using internal::samples_heap;

/// The latest fault of a hart that was answered by a refresh.
struct Refreshed {
  std::uintptr_t pc = 0;
  std::uintptr_t address = 0;
  std::uint64_t sampled = 0;  ///< Pool::sampled at that time
};
Refreshed refreshed[hal::Port::kMaxHarts];

bool is_in_pool(std::uintptr_t address) noexcept { return pool.start != 0 && address - pool.start < pool.bytes; }

unsigned number_of(std::uintptr_t address) noexcept {
  const auto number = static_cast<unsigned>((address - pool.start) / Unit::kSlotBytes);
  return number < pool.slots ? number : pool.slots - 1;  // the last edge
}

std::uintptr_t place_of(unsigned number) noexcept { return pool.start + number * Unit::kSlotBytes + Unit::kEdgeBytes; }

// ---- the pattern beside an object -----------------------------------------------------------------------------------

struct Range {
  std::uintptr_t low, high;
};

/// The memory on both sides of an object that does not trap and has the pattern.
Range patterned(const Slot& slot) noexcept {
  const std::uintptr_t low = slot.start - kPattern, high = slot.end() + kPattern;
  if (!pool.traps) return {low, high};
  return {low > slot.window_low() ? low : slot.window_low(), high < slot.window_high() ? high : slot.window_high()};
}

void fill_pattern(const Slot& slot) noexcept {
  const Range range = patterned(slot);
  std::memset(reinterpret_cast<void*>(range.low), poison::kRedzone, slot.start - range.low);
  std::memset(reinterpret_cast<void*>(slot.end()), poison::kRedzone, range.high - slot.end());
}

/// The address of the first damaged byte; 0: none.
std::uintptr_t damage_beside(const Slot& slot) noexcept {
  const Range range = patterned(slot);
  const auto other = [](std::uintptr_t from, std::uintptr_t to) noexcept -> std::uintptr_t {
    const std::size_t at = poison::first_other(reinterpret_cast<const void*>(from), 0, to - from, poison::kRedzone);
    return at != poison::kNone ? from + at : 0;
  };
  const std::uintptr_t behind = other(slot.end(), range.high);
  return behind != 0 ? behind : other(range.low, slot.start);
}

/// Only without a trap unit: the address of the first byte of a freed object that was written since; 0: none.
std::uintptr_t damage_in_freed(const Slot& slot) noexcept {
  if (pool.traps || slot.state != Slot::State::kFreed) return 0;
  const std::size_t at = poison::first_other(reinterpret_cast<const void*>(slot.start), 0, slot.bytes, poison::kFree);
  return at != poison::kNone ? slot.start + at : 0;
}

// ---- reports --------------------------------------------------------------------------------------------------------

std::uint32_t stack_from(std::uintptr_t frame) noexcept {
  Observer* const trace = observer();
  return trace != nullptr ? trace->stack(frame) : 0;
}
std::uint32_t stack_of_allocation(std::uintptr_t frame) noexcept {
  Observer* const trace = observer();
  return trace != nullptr ? trace->stack_of_allocation(frame) : 0;
}

/// Counts a misuse in the object's cache, which cannot be destroyed before the lock is free.
void count_locked(const Slot& slot) noexcept {
  if (slot.cache != nullptr) GuardedCache::count_misuse(*slot.cache);
}

/// Reports a misuse, which was counted, of the object that @p slot, a copy, had.
void tell(Misuse kind, const Slot& slot, std::uintptr_t address, MisuseReport report = {}) noexcept {
  report.kind = kind;
  report.cache = slot.cache;
  report.object = reinterpret_cast<void*>(slot.start);
  report.offset = address - slot.start;
  report.count = slot.bytes;
  report.allocated_by = slot.allocated_by;
  report.freed_by = slot.freed_by;
  qm::internal::tell_misuse(report);
}

// ---- sampling -------------------------------------------------------------------------------------------------------

std::uint32_t ticks_now() noexcept { return static_cast<std::uint32_t>(hal::Port::ticks()); }

bool has_time_passed() noexcept {
  const auto wait = static_cast<std::uint32_t>(hal::ticks_of(interval_ms.load(std::memory_order_relaxed)));
  return wait != 0 && ticks_now() - latest.load(std::memory_order_relaxed) >= wait;
}

void begin_count(std::uint32_t rate) noexcept {
  store_relaxed(left, rate != 0 ? static_cast<std::int32_t>(rate) - 1 : 0);
}

/// Begins the count for the next sample. @returns whether this one is taken, by time.
bool begin_next() noexcept {
  const std::uint32_t rate = every.load(std::memory_order_relaxed);
  begin_count(rate);
  if (rate != 0) return true;
  if (!has_time_passed()) return false;
  latest.store(ticks_now(), std::memory_order_relaxed);
  return true;
}

std::uint16_t take_idle_locked() noexcept {
  const std::uint16_t number = pool.first_idle;
  if (number == kNone) return kNone;
  pool.first_idle = pool.table[number].next;
  if (pool.first_idle == kNone) pool.last_idle = kNone;
  return number;
}

void give_idle_locked(std::uint16_t number) noexcept {
  pool.table[number].next = kNone;
  (pool.last_idle != kNone ? pool.table[pool.last_idle].next : pool.first_idle) = number;
  pool.last_idle = number;
}

bool random_side_locked() noexcept { return (next_random(pool.random) & 1) != 0; }

/// The objects of a size class need not have the alignment of its slabs.
std::size_t alignment_of(const Cache& cache) noexcept {
  return cache.slabs().of_heap() ? heap::kAlignment : cache.alignment();
}

void* allocate(Cache* cache, std::size_t bytes, std::size_t alignment, std::uintptr_t frame) noexcept {
  if (cache != nullptr) {
    alignment = alignment_of(*cache);
    if (bytes == 0) bytes = cache->object_size();
  }
  if (alignment > Unit::kEdgeBytes || bytes > kRoom) return nullptr;  // the next that fits is sampled
  if (!begin_next()) return nullptr;
  const std::uint32_t stack = stack_of_allocation(frame);
  Slot former;
  std::uintptr_t start = 0, damage = 0;
  {
    const LockGuard hold(lock);
    const std::uint16_t number = pool.start != 0 && !pool.is_ending ? take_idle_locked() : kNone;
    if (number == kNone) {
      ++pool.missed;
      return nullptr;
    }
    Slot& slot = pool.table[number];
    damage = damage_in_freed(slot);
    if (damage != 0) [[unlikely]] {
      former = slot;
      count_locked(slot);
    }
    const std::uintptr_t place = place_of(number);
    start = random_side_locked() ? place : round_down(place + kRoom - bytes, alignment);
    if (slot.state == Slot::State::kFreed) --pool.freed;
    slot = {.start = start,
            .bytes = static_cast<std::uint32_t>(bytes),
            .allocated_by = stack,
            .cache = cache,
            .state = Slot::State::kLive};
    ++pool.live;
    ++pool.sampled;
    if (pool.traps) Unit::show(number, slot.window_low(), slot.window_high());
    fill_pattern(slot);
  }
  if (damage != 0) tell(Misuse::kWriteAfterFree, former, damage);
  return reinterpret_cast<void*>(start);
}

bool free(void* object, std::uintptr_t frame) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (!is_in_pool(address)) return false;
  const std::uint32_t stack = stack_from(frame);
  Misuse kind = Misuse::kForeign;
  Slot copy;
  std::uintptr_t damage = 0;
  bool was_freed = false;
  {
    const LockGuard hold(lock);
    if (!is_in_pool(address)) return false;
    const unsigned number = number_of(address);
    Slot& slot = pool.table[number];
    if (slot.state == Slot::State::kLive && slot.start == address) {
      if (pool.traps) Unit::refresh();  // another hart may have allocated it
      damage = damage_beside(slot);
      slot.freed_by = stack;
      slot.state = Slot::State::kFreed;
      if (pool.traps) {
        Unit::show(number, slot.start, slot.start);
      } else {
        std::memset(object, poison::kFree, slot.bytes);
      }
      give_idle_locked(static_cast<std::uint16_t>(number));
      --pool.live;
      ++pool.freed;
      was_freed = true;
    } else if (slot.state == Slot::State::kLive && address - slot.start < slot.bytes) {
      kind = Misuse::kInterior;
    } else if (slot.state == Slot::State::kFreed && address - slot.start < slot.bytes) {
      kind = Misuse::kDoubleFree;
    }
    if (!was_freed || damage != 0) [[unlikely]] {
      copy = slot;
      if (was_freed || kind != Misuse::kForeign) count_locked(slot);
    }
  }
  if (!was_freed) {
    if (kind == Misuse::kForeign) copy = {.start = address};
    tell(kind, copy, address);
    return true;
  }
  if (pool.traps && hal::kManyHarts) hal::post(hal::online_harts(), hal::Post::kRefresh);
  if (damage != 0) tell(Misuse::kOutside, copy, damage, {.is_write = true});
  return true;
}

std::size_t size_of(const void* object) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  if (!is_in_pool(address)) return 0;
  const LockGuard hold(lock);
  if (!is_in_pool(address)) return 0;
  const Slot& slot = pool.table[number_of(address)];
  return slot.state == Slot::State::kLive && slot.start == address ? slot.bytes : 0;
}

// ---- faults ---------------------------------------------------------------------------------------------------------

/// How far an address is from a slot's object, 0: in it. A freed object counts only if nothing in use is beside the
/// address, or the address is in it.
std::size_t distance_locked(const Slot& slot, std::uintptr_t address) noexcept {
  if (address - slot.start < slot.bytes) return 0;
  const std::size_t bytes = address < slot.start ? slot.start - address : address - slot.end() + 1;
  return slot.state == Slot::State::kLive ? bytes : bytes + 4 * Unit::kSlotBytes;
}

/// The slot whose object is nearest to an address of the pool.
Slot* nearest_locked(std::uintptr_t address) noexcept {
  const unsigned number = number_of(address);
  Slot* nearest = nullptr;
  for (unsigned i = number != 0 ? number - 1 : 0; i <= number + 1 && i < pool.slots; ++i) {
    Slot& slot = pool.table[i];
    if (slot.state == Slot::State::kUnused) continue;
    if (nearest == nullptr || distance_locked(slot, address) < distance_locked(*nearest, address)) nearest = &slot;
  }
  return nearest;
}

bool meet_fault(std::uintptr_t address, bool is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept {
  if (!is_in_pool(address) || !pool.traps) return false;
  Slot copy;
  bool is_new = false;
  {
    const LockGuard hold(lock);
    if (!is_in_pool(address)) return true;  // the guards have ended: the memory is accessible
    const Slot& around = pool.table[number_of(address)];
    if (around.state == Slot::State::kLive && address >= around.window_low() && address < around.window_high()) {
      // The object came into use after this hart last looked; or the access begins in it and ends behind it. Then it
      // fails again after a refresh.
      Refreshed& last = refreshed[hal::Port::hart_index()];
      const bool is_again = last.pc == pc && last.address == address && last.sampled == pool.sampled;
      last = {is_again ? 0 : pc, is_again ? 0 : address, pool.sampled};
      if (!is_again) {
        Unit::refresh();
        return true;
      }
      if (around.window_high() - address >= kLongestAccess) return false;  // this is not how the pool fails
      address = around.window_high();
    }
    Slot* const slot = nearest_locked(address);
    if (slot != nullptr && !hal::in_panic()) {
      is_new = !slot->is_told;
      slot->is_told = true;
      copy = *slot;
      if (is_new) count_locked(*slot);
    }
    Unit::open(address);
  }
  if (is_new) {
    const bool is_freed = copy.state == Slot::State::kFreed && address - copy.start < copy.bytes;
    tell(is_freed ? Misuse::kUseAfterFree : Misuse::kOutside, copy, address,
         {.found_by = stack_from(frame), .pc = pc, .is_write = is_write});
  }
  return true;
}

void tick() noexcept {
  const LockGuard hold(lock);
  if (selected.count == 0 || pool.is_ending) return;
  if (every.load(std::memory_order_relaxed) == 0 && !has_time_passed()) return;
  const unsigned hart = hal::Port::hart_index();
  for (unsigned i = 0; i < selected.count; ++i) selected.caches[i]->close(hart);
}

// ---- start and stop -------------------------------------------------------------------------------------------------

/// Without what wrap() adds. A hart that does not see wrap()'s copy yet takes the slow half.
constinit TracedPath observers_path{&qm_cache_allocate_other, &qm_cache_allocate_other, &qm_cache_free_other,
                                    &qm_cache_free_other, &qm_cache_free_other};

/// A guarded object lies in no slab, where the observer's functions look for the object.
bool may_be_guarded(Cache& cache) noexcept {
  return (cache.state().load(std::memory_order_relaxed) & trace_state::kQuarantine) != 0;
}
void free_watched(Cache* cache, void* object) noexcept {
  may_be_guarded(*cache) ? qm_cache_free_other(cache, object) : observers_path.free_watched(cache, object);
}
void free_told(Cache* cache, void* object) noexcept {
  may_be_guarded(*cache) ? qm_cache_free_other(cache, object) : observers_path.free_told(cache, object);
}
void wrap(TracedPath& path) noexcept {
  if (path.free_watched == free_watched) return;
  observers_path = path;
  path.free_watched = free_watched;
  path.free_told = free_told;
}

void select_new(Cache& cache) noexcept {
  if (samples_heap.load(std::memory_order_relaxed) && cache.slabs().of_heap()) static_cast<void>(select(cache));
}

bool holds(Cache& cache) noexcept {
  const LockGuard hold(lock);
  bool any = false;
  for (unsigned i = 0; i < pool.slots; ++i) {
    if (pool.table[i].cache == &cache && pool.table[i].state == Slot::State::kLive) any = true;
  }
  for (unsigned i = 0; !any && i < pool.slots; ++i) {
    if (pool.table[i].cache != &cache) continue;
    pool.table[i].cache = nullptr;
    pool.table[i].state = Slot::State::kUnused;
    --pool.freed;
  }
  if (!any) selected.remove(cache);
  return any;
}

bool is_armed[hal::Port::kMaxHarts];  // each is written by its hart, with the lock held

/// Arms the running hart, unless the guards end: stop() then asks the harts that are online.
void attach() noexcept {
  const LockGuard hold(lock);
  if (pool.start == 0 || !pool.traps || pool.is_ending) return;
  is_armed[hal::Port::hart_index()] = true;
  Unit::arm();
}

void disarm_hart() noexcept {
  const LockGuard hold(lock);
  bool& armed = is_armed[hal::Port::hart_index()];
  if (armed) Unit::disarm();
  armed = false;
}

/// The hart's tables may be freed once it is offline.
void detach() noexcept {
  if constexpr (Unit::kOfOneHart) disarm_hart();
}

void set_armed(bool armed) noexcept {
  if (pool.start == 0 || !is_armed[hal::Port::hart_index()]) return;
  armed ? Unit::arm() : Unit::disarm();
}

/// Forgets everything: the memory is no longer the allocator's.
void end() noexcept {
  disarm_hart();
  pool = {};
  selected = {};
  every.store(0, std::memory_order_relaxed);
  interval_ms.store(0, std::memory_order_relaxed);
  samples_heap.store(false, std::memory_order_relaxed);
}

// ---- for the console -------------------------------------------------------------------------------------------------

Stats get_stats() noexcept {
  const LockGuard hold(lock);
  return {.slots = pool.slots,
          .live = pool.live,
          .freed = pool.freed,
          .heap = samples_heap.load(std::memory_order_relaxed),
          .traps = pool.traps,
          .every = every.load(std::memory_order_relaxed),
          .ms = interval_ms.load(std::memory_order_relaxed),
          .sampled = pool.sampled,
          .missed = pool.missed};
}

bool pool_covers(std::uintptr_t address) noexcept {
  const LockGuard hold(lock);
  return is_in_pool(address);
}

bool find_object(std::uintptr_t address, Guarded& guarded) noexcept {
  const LockGuard hold(lock);
  if (!is_in_pool(address)) return false;
  const Slot& slot = pool.table[number_of(address)];
  if (slot.state == Slot::State::kUnused) return false;
  guarded = {slot.start, slot.bytes, slot.cache, slot.state == Slot::State::kLive, slot.allocated_by, slot.freed_by};
  return true;
}

std::size_t check_all() noexcept {
  std::size_t damaged = 0;
  for (unsigned i = 0;; ++i) {
    Slot copy;
    std::uintptr_t damage = 0;
    {
      const LockGuard hold(lock);
      if (i >= pool.slots) return damaged;
      if (pool.traps) Unit::refresh();
      copy = pool.table[i];
      damage = copy.state == Slot::State::kLive ? damage_beside(copy) : damage_in_freed(copy);
      if (damage != 0) count_locked(copy);
      if (damage != 0 && copy.state == Slot::State::kLive) fill_pattern(copy);  // reported once
      if (damage != 0 && copy.state == Slot::State::kFreed)
        std::memset(reinterpret_cast<void*>(copy.start), poison::kFree, copy.bytes);
    }
    if (damage == 0) continue;
    ++damaged;
    if (copy.state == Slot::State::kFreed) {
      tell(Misuse::kWriteAfterFree, copy, damage);
    } else {
      tell(Misuse::kOutside, copy, damage, {.is_write = true});
    }
  }
}

constexpr internal::Calls kCalls{.allocate = allocate,
                                 .free = free,
                                 .size_of = size_of,
                                 .on_fault = meet_fault,
                                 .tick = tick,
                                 .stats = get_stats,
                                 .covers = pool_covers,
                                 .find = find_object,
                                 .verify = check_all,
                                 .wrap = wrap,
                                 .created = select_new,
                                 .holds = holds,
                                 .attach = attach,
                                 .detach = detach,
                                 .set_armed = set_armed,
                                 .end = end};

void set_rate(const Config& config) noexcept {
  begin_count(config.every);
  latest.store(ticks_now(), std::memory_order_relaxed);
  interval_ms.store(config.every == 0 ? config.ms : 0, std::memory_order_relaxed);
  every.store(config.every, std::memory_order_relaxed);
}

/// Allocates from the end of base_arena() that its own spans of blocks do not grow towards. @returns 0 without memory.
std::uintptr_t allocate_place(std::size_t bytes, bool may_cross) noexcept {
  Alignment alignment{Unit::kAlign};
  while (!may_cross && alignment.align < bytes) alignment.align *= 2;  // then it contains no multiple of a larger one
  return base_arena().allocate_aligned(bytes, alignment, nullptr, WaitPolicy::kQuiet);
}

/// Allocates the pool and what belongs to it. @returns false without memory.
bool allocate_pool(unsigned slots, Pool& made) noexcept {
  made.slots = slots;
  made.bytes = slots * Unit::kSlotBytes + Unit::kEdgeBytes;
  made.extra.size = Unit::kTableBytes + slots * sizeof(Slot);
  made.start = allocate_place(made.bytes, Unit::kNoCross == 0);
  if (made.start == 0) return false;
  made.extra.start = allocate_place(made.extra.size, true);
  if (made.extra.start != 0) return true;
  static_cast<void>(base_arena().free(made.start, made.bytes));
  made.start = 0;
  return false;
}

void free_pool(const Pool& old) noexcept {
  static_cast<void>(base_arena().free(old.extra.start, old.extra.size));
  static_cast<void>(base_arena().free(old.start, old.bytes));
}

Status ask_all(hal::BroadcastFunction function) noexcept {
  return status_of(hal::run_on_harts(hal::online_harts(), function, nullptr).status);
}

}  // namespace

Status start(const Config& config) noexcept {
  if (config.every == 0 && config.ms == 0) return Status::kInvalid;
  if (config.every > INT32_MAX / 2 || hal::ticks_of(config.ms) > UINT32_MAX / 2) return Status::kInvalid;
  if (kChecked || hart_count() == 0) return Status::kRefused;
  if (!hal::may_ask_harts()) return Status::kUnsafe;
  if (pool.start != 0) {
    bool was_ending = false;
    {
      const LockGuard hold(lock);
      was_ending = pool.is_ending;
      pool.is_ending = false;
      set_rate(config);
    }
    return was_ending && pool.traps ? ask_all([](unsigned, void*) noexcept { attach(); }) : Status::kOk;
  }
  Pool made;
  unsigned slots = config.slots != 0 && config.slots < Unit::kMostSlots ? config.slots : Unit::kMostSlots;
  while (slots != 0 && !allocate_pool(slots, made)) slots /= 2;
  if (slots == 0) return Status::kNoMemory;
  made.table = reinterpret_cast<Slot*>(made.extra.start + Unit::kTableBytes);
  made.random = static_cast<std::uint32_t>(hal::Port::ticks()) | 1;
  {
    const hal::InterruptGuard masked;
    made.traps = Unit::prepare(made.start, slots, made.extra.start);
  }
  {
    const LockGuard hold(lock);
    pool = made;
    for (unsigned i = 0; i < slots; ++i) {
      new (&pool.table[i]) Slot;
      give_idle_locked(static_cast<std::uint16_t>(i));
    }
    set_rate(config);
  }
  if (Observer* trace = observer(); trace != nullptr) trace->need_stacks();
  // release: pairs with the acquire in linked().
  internal::calls.store(&kCalls, std::memory_order_release);
  if constexpr (kMagazines) wrap(current_traced_path());
  if (!made.traps) return Status::kOk;
  hal::set_post_function([](unsigned) noexcept { Unit::refresh(); }, hal::Post::kRefresh);
  const Status status = ask_all([](unsigned, void*) noexcept { attach(); });
  if (status != Status::kOk) static_cast<void>(stop());
  return status;
}

/// Lets the cache's frees take the fast path again, unless it has a quarantine.
static void release(Cache& cache) noexcept {
  const std::uint32_t flags =
      trace_state::kGuardsFrees | (GuardedCache::has_quarantine(cache) ? 0 : trace_state::kQuarantine);
  cache.state().fetch_and(~flags, std::memory_order_seq_cst);
}

Status select(Cache& cache) noexcept {
  if (pool.start == 0) return Status::kNotFound;
  if (!GuardedCache::may_be_selected(cache) || alignment_of(cache) > Unit::kEdgeBytes) return Status::kRefused;
  if (!cache.slabs().of_heap() && cache.object_size() > kRoom) return Status::kRefused;
  if (cache.slabs().of_heap()) {
    cache.state().fetch_or(trace_state::kGuard, std::memory_order_seq_cst);
    const LockGuard hold(lock);
    selected.add(cache);
    return Status::kOk;
  }
  if (!hal::may_ask_harts()) return Status::kUnsafe;
  // The push first, on all harts: a guarded object must not get into a magazine.
  const Status status = cache.close_push(trace_state::kQuarantine | trace_state::kGuardsFrees);
  if (status != Status::kOk) {
    release(cache);
    return status;
  }
  cache.state().fetch_or(trace_state::kGuard, std::memory_order_seq_cst);
  const LockGuard hold(lock);
  selected.add(cache);
  return status;
}

Status select_heap() noexcept {
  if (pool.start == 0) return Status::kNotFound;
  samples_heap.store(true, std::memory_order_relaxed);
  RegistryCursor<Cache> caches;
  while (Cache* cache = caches.next()) {
    if (cache->slabs().of_heap()) static_cast<void>(select(*cache));
  }
  return Status::kOk;
}

Status stop() noexcept {
  if (pool.start == 0) return Status::kOk;
  if (!hal::may_ask_harts()) return Status::kUnsafe;
  samples_heap.store(false, std::memory_order_relaxed);
  {
    const LockGuard hold(lock);
    pool.is_ending = true;
    selected = {};
    set_rate({});
  }
  RegistryCursor<Cache> sampled;
  while (Cache* cache = sampled.next()) cache->state().fetch_and(~trace_state::kGuard, std::memory_order_seq_cst);
  {
    const LockGuard hold(lock);
    if (pool.live != 0) return Status::kBusy;
  }
  if (pool.traps) {
    const Status status = ask_all([](unsigned, void*) noexcept { disarm_hart(); });
    if (status != Status::kOk) return status;
  }
  RegistryCursor<Cache> closed;
  while (Cache* cache = closed.next()) {
    if ((cache->state().load(std::memory_order_relaxed) & trace_state::kGuardsFrees) != 0) release(*cache);
  }
  Pool old;
  {
    const LockGuard hold(lock);
    old = pool;
    pool = {};
  }
  free_pool(old);
  return Status::kOk;
}

}  // namespace guards
}  // namespace qm

// In this file, so that a reference to them from the firmware's trap handler may be weak: they are linked with start().
int qm_guard_fault(std::uintptr_t address, int is_write, std::uintptr_t pc, std::uintptr_t frame) noexcept {
  return qm::guards::on_fault(address, is_write != 0, pc, frame) ? 1 : 0;
}
void qm_guard_tick() noexcept { qm::guards::on_tick(); }
