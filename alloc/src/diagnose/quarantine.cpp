/// The quarantine of a cache; see quarantine.hpp.

#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/poison.hpp>
#include <qm/detail/quarantine.hpp>
#include <qm/exhaustion.hpp>
#include <qm/system.hpp>

namespace qm {
namespace {

constexpr unsigned kWords = (sizeof(Quarantine) + sizeof(void*) - 1) / sizeof(void*);
static_assert(kWords <= internal::kMostBlockWords);

/// A checking build poisons, sums and checks every free object itself.
bool is_summed(const Cache& cache) noexcept { return !kChecked && (cache.flags() & cache_flags::kNoTouch) == 0; }
bool is_filled(const Cache& cache) noexcept { return is_summed(cache) && !cache.keeps_contents(); }

void seal(const Cache& cache, Quarantine::Entry& entry) noexcept {
  if (is_filled(cache)) std::memset(entry.object, poison::kFree, cache.object_size());
  if (is_summed(cache)) entry.sum = poison::sum_of(entry.object, cache.object_size());
}

std::size_t damage_of(const Cache& cache, const Quarantine::Entry& entry) noexcept {
  if (!is_summed(cache)) return poison::kNone;
  return poison::damage_of(entry.object, cache.object_size(), entry.sum, is_filled(cache));
}

void tell(Misuse kind, Cache& cache, const Quarantine::Entry& entry, std::size_t offset) noexcept {
  MisuseReport report;
  report.kind = kind;
  report.cache = &cache;
  report.object = entry.object;
  report.offset = offset;
  report.freed_by = entry.freed_by;
  cache.report(report);
}

/// Reports a write to an object that has left the quarantine.
void check(Cache& cache, const Quarantine::Entry& entry) noexcept {
  const std::size_t offset = damage_of(cache, entry);
  if (offset != poison::kNone) tell(Misuse::kWriteAfterFree, cache, entry, offset);
}

}  // namespace

// ---- the ring -------------------------------------------------------------------------------------------------------

std::uint16_t& Quarantine::bucket_of(const void* object) noexcept {
  const auto address = reinterpret_cast<std::uintptr_t>(object);
  const std::uint32_t hash = static_cast<std::uint32_t>(address / alignof(void*)) * 0x9e3779b1U;
  return entries_[std::uint64_t{hash} * table_ >> 32].head;
}

Quarantine::Entry* Quarantine::find_locked(const void* object) noexcept {
  if (held() == 0) return nullptr;
  std::uint16_t number = bucket_of(object);
  while (number != 0 && entries_[number - 1].object != object) number = entries_[number - 1].next;
  return number != 0 ? &entries_[number - 1] : nullptr;
}

bool Quarantine::find(const void* object, Entry& entry) noexcept {
  const LockGuard hold(lock_);
  const Entry* found = find_locked(object);
  if (found != nullptr) entry = *found;
  return found != nullptr;
}

/// Removes the oldest entry. Precondition: there is one.
Quarantine::Entry Quarantine::pop_locked() noexcept {
  const Entry oldest = entries_[first_];
  std::uint16_t* link = &bucket_of(oldest.object);
  while (*link != first_ + 1) link = &entries_[*link - 1].next;
  *link = oldest.next;
  if (++first_ == table_) first_ = 0;
  held_.store(held() - 1, std::memory_order_relaxed);
  passed_.store(passed() + 1, std::memory_order_relaxed);
  return oldest;
}

bool Quarantine::take(Entry& oldest) noexcept {
  const LockGuard hold(lock_);
  if (held() == 0) return false;
  oldest = pop_locked();
  return true;
}

Quarantine::Put Quarantine::put(Entry& fresh) noexcept {
  const LockGuard hold(lock_);
  if (const Entry* twice = find_locked(fresh.object)) {
    fresh = *twice;
    return Put::kTwice;
  }
  if (bytes() == 0) return Put::kRefused;
  const bool full = held() == table_;
  const Entry oldest = full ? pop_locked() : Entry{};
  Entry& entry = at(held());
  std::uint16_t& bucket = bucket_of(fresh.object);
  entry.object = fresh.object;
  entry.freed_by = fresh.freed_by;
  entry.sum = fresh.sum;
  entry.next = bucket;
  bucket = static_cast<std::uint16_t>(&entry - entries_ + 1);
  held_.store(held() + 1, std::memory_order_relaxed);
  if (full) fresh = oldest;
  return full ? Put::kFull : Put::kHeld;
}

void Quarantine::shut() noexcept {
  const LockGuard hold(lock_);
  bytes_.store(0, std::memory_order_relaxed);
}

void Quarantine::adopt(Entry* entries, std::uint32_t capacity, std::size_t bytes) noexcept {
  const LockGuard hold(lock_);
  entries_ = entries;
  table_ = capacity;
  first_ = 0;
  bytes_.store(bytes, std::memory_order_relaxed);
}

// ---- of a cache -----------------------------------------------------------------------------------------------------

void* Cache::hold_back(void* object) noexcept {
  Quarantine& quarantine = *this->quarantine();
  Quarantine::Entry entry;
  if (quarantine.find(object, entry)) {
    tell(Misuse::kDoubleFree, *this, entry, 0);
    return nullptr;
  }
  {
    const hal::InterruptGuard masked;
    // acquire: as in free_slow(); the record is removed before another user can get the object (O1).
    if ((state_.load(std::memory_order_acquire) & trace_state::kHearsFree) != 0) observer()->forget(*this, object);
  }
  entry.object = object;
  if (Observer* trace = observer(); trace != nullptr)
    entry.freed_by = trace->stack(reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  seal(*this, entry);
  switch (quarantine.put(entry)) {
    case Quarantine::Put::kHeld: object = nullptr; break;
    case Quarantine::Put::kRefused: return object;
    case Quarantine::Put::kTwice: tell(Misuse::kDoubleFree, *this, entry, 0); return nullptr;
    case Quarantine::Put::kFull:
      check(*this, entry);
      object = entry.object;
      break;
  }
  // A drain counts a shortage before it empties the quarantine under the lock: either it has seen this object, or the
  // shortage is visible here (N3).
  if (exhaustion::under_pressure()) empty_quarantine();
  return object;
}

std::size_t Cache::empty_quarantine() noexcept {
  std::size_t count = 0;
  for (Quarantine::Entry oldest; quarantine()->take(oldest); ++count) {
    check(*this, oldest);
    put_in_slab(oldest.object);
  }
  return count;
}

std::size_t Cache::inspect_quarantine() noexcept {
  std::size_t damaged = 0;
  Quarantine* quarantine = this->quarantine();
  if (quarantine == nullptr) return 0;
  Quarantine::Entry damage;
  std::size_t offset = poison::kNone;
  const auto look = [&](Quarantine::Entry& entry) noexcept {
    offset = damage_of(*this, entry);
    if (offset == poison::kNone) return;
    damage = entry;
    seal(*this, entry);  // reported once
  };
  for (std::uint32_t position = 0; quarantine->inspect(position, look); ++position) {
    if (offset == poison::kNone) continue;
    tell(Misuse::kWriteAfterFree, *this, damage, offset);
    ++damaged;
  }
  return damaged;
}

/// Ends the quarantine, or replaces its table. @param[in] table nullptr: ends it.
void Cache::change_quarantine(Quarantine& quarantine, Quarantine::Entry* table, std::uint32_t capacity,
                              std::size_t bytes) noexcept {
  quarantine.shut();
  empty_quarantine();
  Quarantine::Entry* const former = quarantine.entries();
  const std::size_t former_bytes = quarantine.table_bytes();
  quarantine.adopt(table, capacity, bytes);
  if (former != nullptr) static_cast<void>(base_arena().free(reinterpret_cast<std::uintptr_t>(former), former_bytes));
}

void Cache::end_quarantine() noexcept {
  change_quarantine(*extra()->quarantine.load(std::memory_order_acquire), nullptr, 0, 0);
  internal::free_block(extra()->quarantine.exchange(nullptr, std::memory_order_acq_rel), kWords);
}

Status Cache::set_quarantine(std::size_t bytes) noexcept {
  if (!may_have_quarantine()) return Status::kRefused;
  if (bytes == 0) {
    if ((state_.load(std::memory_order_relaxed) & trace_state::kGuardsFrees) == 0)
      state_.fetch_and(~trace_state::kQuarantine, std::memory_order_seq_cst);
    if (Quarantine* const present = quarantine(); present != nullptr) change_quarantine(*present, nullptr, 0, 0);
    return Status::kOk;
  }
  std::size_t capacity = bytes / object_size();
  if (capacity == 0) return Status::kInvalid;
  if (capacity > Quarantine::kMostObjects) capacity = Quarantine::kMostObjects;
  if (!hal::may_ask_harts()) return Status::kUnsafe;
  CacheExtra* extra = need_extra();
  if (extra == nullptr) return Status::kNoMemory;
  if (quarantine() == nullptr) {
    void* place = internal::allocate_block(kWords);
    if (place == nullptr) return Status::kNoMemory;
    // release: pairs with the acquire in quarantine().
    extra->quarantine.store(new (place) Quarantine, std::memory_order_release);
  }
  const std::size_t table_bytes = capacity * sizeof(Quarantine::Entry);
  const std::uintptr_t table = base_arena().allocate(table_bytes, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
  if (table == 0) return Status::kNoMemory;
  std::memset(reinterpret_cast<void*>(table), 0, table_bytes);
  static constexpr internal::QuarantineCalls kCalls{
      [](Cache& cache, void* object) noexcept { return cache.hold_back(object); },
      [](Cache& cache) noexcept { return cache.empty_quarantine(); },
      [](Cache& cache) noexcept { cache.end_quarantine(); }};
  // release: pairs with the acquire in quarantine_calls().
  internal::quarantine_calls.store(&kCalls, std::memory_order_release);
  if (Observer* trace = observer(); trace != nullptr) trace->need_stacks();
  change_quarantine(*extra->quarantine.load(std::memory_order_relaxed), reinterpret_cast<Quarantine::Entry*>(table),
                    static_cast<std::uint32_t>(capacity), bytes);
  const Status status = close_push(trace_state::kQuarantine);
  if (status != Status::kOk) static_cast<void>(set_quarantine(0));
  return status;
}

}  // namespace qm
