#include <qm/fault.hpp>

#include <algorithm>
#include <array>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/lock.hpp>

namespace qm::fault {
namespace internal {
constinit std::atomic<AcquisitionTest> acquisition_test{nullptr};
constinit std::atomic<const Calls*> calls{nullptr};
}  // namespace internal

namespace {

constinit Lock lock;  // a leaf
constinit std::array<Fault, kMaxFaults> faults;

Fault* find_locked(Of of, const Traceable* owner) noexcept {
  for (Fault& one : faults) {
    if (one.of == of && one.owner == owner) return &one;
  }
  return nullptr;
}

bool allows(Resource resource, const Arena* arena) noexcept;

/// Sets the acquisition test if a fault needs it, else removes it (F1).
void link_test_locked() noexcept {
  const bool is_needed =
      std::any_of(faults.begin(), faults.end(), [](const Fault& one) noexcept { return one.of > Of::kCache; });
  if (is_needed) {
    set_acquisition_test(allows);
  } else if (internal::acquisition_test.load(std::memory_order_relaxed) == allows) {
    set_acquisition_test(nullptr);
  }
}

/// Removes the fault from the table and from the cache's state word (F1).
void remove_locked(Fault& one) noexcept {
  if (one.of == Of::kCache) one.owner->state().fetch_and(~trace_state::kFault, std::memory_order_seq_cst);
  one = {};
  link_test_locked();
}

/// Counts an allocation or acquisition. @returns whether it fails.
bool strike_locked(Fault& one) noexcept {
  if (one.n == 0) return false;
  ++one.counted;
  if (one.mode == Mode::kFrom ? one.counted < one.n : one.counted % one.n != 0) return false;
  ++one.failed;
  if (one.mode == Mode::kNth) remove_locked(one);
  return true;
}

bool strike(Cache& cache) noexcept {
  const LockGuard hold(lock);
  Fault* one = find_locked(Of::kCache, &cache);
  return one != nullptr && strike_locked(*one);
}

bool allows(Resource resource, const Arena* arena) noexcept {
  const LockGuard hold(lock);
  Fault* const of_arena = resource == Resource::kSegment ? find_locked(Of::kArena, arena) : nullptr;
  Fault* const of_all = find_locked(Of::kInternal, nullptr);
  const bool arena_fails = of_arena != nullptr && strike_locked(*of_arena);
  const bool all_fail = of_all != nullptr && strike_locked(*of_all);
  return !arena_fails && !all_fail;
}

void drop(Traceable& owner) noexcept {
  const LockGuard hold(lock);
  const Of of = owner.kind() == RegistryKind::kCache ? Of::kCache : Of::kArena;
  if (Fault* one = find_locked(of, &owner); one != nullptr) remove_locked(*one);
}

constexpr internal::Calls kCalls{strike, drop};

/// The fault of @p owner, or a place for one. nullptr: there is none.
Fault* place_locked(Of of, const Traceable* owner) noexcept {
  Fault* const one = find_locked(of, owner);
  return one != nullptr ? one : find_locked(Of::kNothing, nullptr);
}

Status set_acquisition_fault(Of of, Arena* arena, Mode mode, std::uint32_t n) noexcept {
  if (n == 0) return Status::kInvalid;
  internal::calls.store(&kCalls, std::memory_order_release);  // pairs with the acquire in forget()
  const LockGuard hold(lock);
  Fault* const one = place_locked(of, arena);
  if (one == nullptr) return Status::kNoMemory;
  *one = {of, arena, mode, n, 0, 0};
  link_test_locked();
  return Status::kOk;
}

}  // namespace

void set_acquisition_test(AcquisitionTest test) noexcept {
  internal::acquisition_test.store(test, std::memory_order_relaxed);
}

Status set(Arena& arena, Mode mode, std::uint32_t n) noexcept {
  return set_acquisition_fault(Of::kArena, &arena, mode, n);
}

Status set_internal(Mode mode, std::uint32_t n) noexcept {
  return set_acquisition_fault(Of::kInternal, nullptr, mode, n);
}

Status set(Cache& cache, Mode mode, std::uint32_t n) noexcept {
  if (n == 0) return Status::kInvalid;
  // release: pairs with the acquire in strikes().
  internal::calls.store(&kCalls, std::memory_order_release);
  {
    const LockGuard hold(lock);
    Fault* const one = place_locked(Of::kCache, &cache);
    if (one == nullptr) return Status::kNoMemory;
    // It does not count yet: operations in progress on other harts came before this fault.
    *one = {Of::kCache, &cache, mode, 0, 0, 0};
    // seq_cst: against open_hart_cache(), which sets its hart's bit and then reads the word.
    cache.state().fetch_or(trace_state::kFault, std::memory_order_seq_cst);
  }
  const Status status = cache.close_hart_caches();  // F2
  const LockGuard hold(lock);
  Fault* one = find_locked(Of::kCache, &cache);
  if (one == nullptr) return Status::kAborted;  // clear() was called meanwhile
  if (status == Status::kOk) {
    *one = {Of::kCache, &cache, mode, n, 0, 0};
  } else {
    remove_locked(*one);
  }
  return status;
}

unsigned clear() noexcept {
  unsigned count = 0;
  const LockGuard hold(lock);
  for (Fault& one : faults) {
    if (one.of == Of::kNothing) continue;
    remove_locked(one);
    ++count;
  }
  return count;
}

Fault at(unsigned index) noexcept {
  const LockGuard hold(lock);
  return index < kMaxFaults ? faults[index] : Fault{};
}

}  // namespace qm::fault
