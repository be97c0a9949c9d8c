#include <qm/fault.hpp>

#include <array>

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

Fault* find_locked(const Cache* cache) noexcept {
  for (Fault& one : faults) {
    if (one.cache == cache) return &one;
  }
  return nullptr;
}

/// Removes the fault from the table and from the cache's state word (F1).
void remove_locked(Fault& one) noexcept {
  one.cache->state().fetch_and(~trace_state::kFault, std::memory_order_seq_cst);
  one = {};
}

bool strike(Cache& cache) noexcept {
  const LockGuard hold(lock);
  Fault* one = find_locked(&cache);
  if (one == nullptr || one->n == 0) return false;
  ++one->counted;
  if (one->mode == Mode::kFrom ? one->counted < one->n : one->counted % one->n != 0) return false;
  ++one->failed;
  if (one->mode == Mode::kNth) remove_locked(*one);
  return true;
}

void drop(Cache& cache) noexcept {
  const LockGuard hold(lock);
  if (Fault* one = find_locked(&cache); one != nullptr) remove_locked(*one);
}

constexpr internal::Calls kCalls{strike, drop};

}  // namespace

void set_acquisition_test(AcquisitionTest test) noexcept {
  internal::acquisition_test.store(test, std::memory_order_relaxed);
}

Status set(Cache& cache, Mode mode, std::uint32_t n) noexcept {
  if (n == 0) return Status::kInvalid;
  // release: pairs with the acquire in strikes().
  internal::calls.store(&kCalls, std::memory_order_release);
  {
    const LockGuard hold(lock);
    Fault* one = find_locked(&cache);
    if (one == nullptr) one = find_locked(nullptr);
    if (one == nullptr) return Status::kNoMemory;
    // It does not count yet: operations in progress on other harts came before this fault.
    *one = {&cache, mode, 0, 0, 0};
    // seq_cst: against open_hart_cache(), which sets its hart's bit and then reads the word.
    cache.state().fetch_or(trace_state::kFault, std::memory_order_seq_cst);
  }
  const Status status = cache.close_hart_caches();  // F2
  const LockGuard hold(lock);
  Fault* one = find_locked(&cache);
  if (one == nullptr) return Status::kAborted;  // clear() was called meanwhile
  if (status == Status::kOk) {
    *one = {&cache, mode, n, 0, 0};
  } else {
    remove_locked(*one);
  }
  return status;
}

unsigned clear() noexcept {
  unsigned count = 0;
  const LockGuard hold(lock);
  for (Fault& one : faults) {
    if (one.cache == nullptr) continue;
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
