/// The slow halves of allocate() and free(). cache_magazines.cpp moves their objects between magazines, depot and
/// slabs.

#include <qm/cache.hpp>
#include <qm/detail/checked.hpp>
#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/guards.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- opening a per-hart cache ---------------------------------------------------------------------------------------

void Cache::open_hart_cache(unsigned hart) noexcept {
  if constexpr (!kMagazines) return;
  HartCache& own = hart_cache(hart);
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  if (loaded == nullptr) return;
  if ((magazine_harts_.load(std::memory_order_relaxed) & bit(hart)) == 0) {
    magazine_harts_.fetch_or(bit(hart), std::memory_order_seq_cst);
    // C2: set the hart's bit before reading the state word. Pairs with the fence between a change of the word and the
    // read of the bits.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  const std::uint32_t word = state_.load(std::memory_order_acquire);
  if (kChecked || (word & trace_state::kClosesPop) != 0) return;
  if (hart_cache_pointer_ != kNoHartCachePointer) internal::set_hart_cache_pointer(hart_cache_pointer_, &own);
  const bool watching = (word & trace_state::kClosesPush) != 0 || reserve_missing() != 0;
  store_relaxed(own.limit, watching ? nullptr : loaded->end());
  store_relaxed(own.top, own.saved_top.load(std::memory_order_relaxed));
}

Status Cache::close_hart_caches() noexcept {
  const auto reopen = [](unsigned hart, void* argument) noexcept {
    static_cast<Cache*>(argument)->close(hart);
    static_cast<Cache*>(argument)->open_hart_cache(hart);
  };
  return status_of(hal::run_on_harts(open_harts(), reopen, this).status);
}

Status Cache::close_push(std::uint32_t flags) noexcept {
  std::uint32_t word = state_.load(std::memory_order_relaxed);
  // seq_cst: as in fault::set(). Without kOwned, a free of a traced object tests the other flags.
  while (!state_.compare_exchange_weak(word, (word | flags) & ~trace_state::kOwned, std::memory_order_seq_cst)) {
  }
  return close_hart_caches();
}

// ---- allocate -------------------------------------------------------------------------------------------------------

bool Cache::record(const Allocation& allocation, void* object, Observer::Prepared& prepared) noexcept {
  // acquire: pairs with the compare-and-swap of a start or a stop; read in the masked section that inserts the record
  // (O2).
  prepared.word = state_.load(std::memory_order_acquire);
  if ((prepared.word & trace_state::kHearsAllocation) == 0) return true;
  return prepared.ready && observer()->record(allocation, object, prepared);
}

void Cache::count_failure() noexcept {
  const hal::InterruptGuard masked;
  HartCounts::add_one(own_counts().failures);
}

/// A guarded object, if a sample is due. Build without magazines.
[[gnu::noinline]] void* Cache::take_sample(std::size_t requested) noexcept {
  if ((state_.load(std::memory_order_relaxed) & trace_state::kAboutSamples) != trace_state::kGuard) return nullptr;
  if (guards::internal::may_pass(weight())) return nullptr;
  return guards::internal::linked()->allocate(this, requested, 0, guards::internal::current_frame());
}

void* Cache::allocate_slow(const CallSite* site, std::size_t requested, WaitPolicy wait_policy,
                           bool exchanged) noexcept {
  if (is_dead()) {
    refuse(nullptr, SlabLayer::ObjectState::kOutside);
    return nullptr;
  }
  constexpr std::uint32_t kSpecial = trace_state::kFault | (kMagazines ? 0 : trace_state::kGuard);
  if ((state_.load(std::memory_order_relaxed) & kSpecial) != 0) [[unlikely]] {
    if ((state_.load(std::memory_order_relaxed) & trace_state::kFault) != 0 && fault::strikes(*this)) {
      count_failure();
      return nullptr;
    }
    // With magazines qm_cache_allocate_slow() does this.
    void* const sample = !kMagazines && exchanged ? take_sample(requested) : nullptr;
    if (sample != nullptr) return sample;
  }
  Allocation allocation;
  allocation.cache = this;
  allocation.requested = requested != 0 ? requested : object_size();
  allocation.site = site;
  allocation.wait_policy = wait_policy;
  allocation.frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  Observer::Prepared prepared;
  if (kMagazines && recording()) observer()->prepare(allocation, nullptr, prepared);
  void* object = nullptr;
  bool settled = false;
  if (has_magazines() && !exchanged) {
    const hal::InterruptGuard masked;
    const unsigned hart = hal::Port::hart_index();
    hart_cache(hart).close();
    object = take_from_hart_cache(hart_cache(hart));
    if (object != nullptr) {
      settled = record(allocation, object, prepared);
      if (settled) count_allocation();
    }
    open_hart_cache(hart);
  }
  if (object == nullptr) object = refill_or_reclaim(wait_policy);
  while (object != nullptr && !settled) {
    if (recording()) observer()->prepare(allocation, object, prepared);
    const hal::InterruptGuard masked;
    settled = record(allocation, object, prepared);
    if (settled) count_allocation();
  }
  if (prepared.ready) observer()->release(prepared);
  if (object == nullptr) count_failure();
  if constexpr (kChecked) {
    if (object != nullptr) checked::hand_out(*this, object, allocation);
  }
  if constexpr (kCallSites) charge(object, site, requested);
  return object;
}

void* Cache::refill_or_reclaim(WaitPolicy wait_policy) noexcept {
  void* object = refill();
  if (object != nullptr) return object;
  const WaitPolicy kind = kind_of(wait_policy);
  const bool may_ask = kind != WaitPolicy::kAtomic && kind != WaitPolicy::kQuiet && !hal::thread_state().reclaiming;
  object = refill_at_limit(may_ask);
  if (object == nullptr && limit_callback_helps()) object = refill_within_limit(may_ask);
  if (object != nullptr) return object;
  const bool at_limit = slabs_.at_limit();
  // The reserve serves only allocations that may not wait, on a single hart too, where a drain might help.
  const bool may_wait = may_ask && hal::may_wait();
  if (!may_wait && kind != WaitPolicy::kQuiet && (object = take_from_reserve()) != nullptr) {
    if (!at_limit) exhaustion::start_drain();  // recover memory before the reserve is used up
    return object;
  }
  const exhaustion::Request request{*this, source(), false, at_limit, !at_limit, object_size(), wait_policy};
  auto attempt = [this]() noexcept { return reinterpret_cast<std::uintptr_t>(refill_within_limit(true)); };
  return reinterpret_cast<void*>(exhaustion::reclaim_and_retry(request, attempt));
}

void* Cache::allocate_direct() noexcept {
  const bool plain = !kChecked && state_.load(std::memory_order_relaxed) == 0;
  if (void* object = plain ? slabs_.take_one() : nullptr; object != nullptr) return object;
  return qm_cache_allocate_slow(this, nullptr, 0, WaitPolicy::kQuiet);
}

void Cache::free_direct(void* object) noexcept {
  const bool plain = !kChecked && state_.load(std::memory_order_relaxed) == 0;
  if (!plain || slabs_.put(object) != Status::kOk) return qm_cache_free_slow(this, object);
  if (exhaustion::under_pressure()) exhaustion::note_free();
}

/// Whether a magazine may hold idle objects. None may under pressure: freed objects must become visible to the
/// allocations that wait for them, and an allocation takes only what it uses.
bool Cache::may_fill_magazine() const noexcept { return has_magazines() && !exhaustion::under_pressure(); }

// ---- free -----------------------------------------------------------------------------------------------------------

/// Frees a guarded object. @returns false if @p object is none.
bool Cache::free_guarded(void* object) noexcept {
  const guards::internal::Calls* const guards = guards::internal::linked();
  return guards != nullptr && guards->free(object, guards::internal::current_frame());
}

void Cache::free_slow(void* object, Placed placed) noexcept {
  if (is_dead()) return refuse(object, SlabLayer::ObjectState::kOutside);
  if (placed == Placed::kNowhere) {
    const bool looks = (state_.load(std::memory_order_relaxed) & trace_state::kQuarantine) != 0;
    if (looks && free_guarded(object)) return;
    const SlabLayer::ObjectState object_state = slabs_.classify(object);
    if (object_state != SlabLayer::ObjectState::kOut) return refuse(object, object_state);
    if constexpr (kChecked) {
      if (!checked::take_back(*this, object)) return;
    }
    placed = Placed::kForSlab;
    const bool held_back = looks && quarantine() != nullptr;
    if (held_back) {
      object = quarantine_calls().put(*this, object);
      if (object == nullptr) return;
    }
    const hal::InterruptGuard masked;
    // acquire: as in record(); the record is removed before the object is freed (O1).
    if (!held_back && (state_.load(std::memory_order_acquire) & trace_state::kHearsFree) != 0)
      observer()->forget(*this, object);
    if (has_magazines()) {
      const unsigned hart = hal::Port::hart_index();
      hart_cache(hart).close();
      placed = put_in_reserve(object) ? Placed::kHere : put_in_hart_cache(hart_cache(hart), object);
      open_hart_cache(hart);
    }
    if (placed == Placed::kHere) return;
  }
  Magazine* magazine = placed == Placed::kForNewMagazine && may_fill_magazine() ? empty_magazine() : nullptr;
  if (magazine == nullptr || (!free_to_new(*magazine, object) && install_and_put(magazine, &object, 1) == 0))
    put_in_slab(object);
  if (exhaustion::under_pressure()) exhaustion::note_free();
}

}  // namespace qm
