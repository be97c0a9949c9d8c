/// The slow halves of allocate() and free(). Where their rounds come from and go to: cache_magazines.cpp.

#include <qm/cache.hpp>
#include <qm/checked.hpp>
#include <qm/exhaustion.hpp>
#include <qm/fault.hpp>
#include <qm/system.hpp>

namespace qm {

// ---- exposure -------------------------------------------------------------------------------------------------------

void Cache::expose(unsigned hart) noexcept {
  if constexpr (!kMagazines) return;
  Cell& own = cell(hart);
  Magazine* loaded = own.loaded.load(std::memory_order_relaxed);
  if (loaded == nullptr) return;
  if ((magazine_harts_.load(std::memory_order_relaxed) & bit(hart)) == 0) {
    magazine_harts_.fetch_or(bit(hart), std::memory_order_seq_cst);
    // C2: the bit before the word. Pairs with the fence between a change of the word and the look at the bits.
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  const std::uint32_t word = state_.load(std::memory_order_acquire);
  if (kChecked || (word & trace_state::kClosesPop) != 0) return;
  if (cell_pointer_ != kNoCellPointer) internal::set_cell_pointer(cell_pointer_, &own);
  const bool watching = (word & trace_state::kWatch) != 0 || reserve_missing() != 0;
  store_relaxed(own.limit, watching ? nullptr : loaded->end());
  store_relaxed(own.top, own.saved_top.load(std::memory_order_relaxed));
}

// ---- allocate -------------------------------------------------------------------------------------------------------

bool Cache::record(const Allocation& allocation, void* object, Observer::Prepared& prepared) noexcept {
  // acquire: pairs with the compare-and-swap of a start or a stop; read in the section that inserts (O2).
  prepared.word = state_.load(std::memory_order_acquire);
  if ((prepared.word & trace_state::kHearsAllocation) == 0) return true;
  return prepared.ready && observer()->record(allocation, object, prepared);
}

void Cache::count_failure() noexcept {
  const hal::InterruptGuard masked;
  HartCounts::add_one(own_counts().failures);
}

void* Cache::allocate_slow(const CallSite* site, std::size_t requested, Effort effort, bool exchanged) noexcept {
  if (is_dead()) {
    refuse(nullptr, SlabLayer::Standing::kOutside);
    return nullptr;
  }
  if ((state_.load(std::memory_order_relaxed) & trace_state::kFault) != 0 && fault::strikes(*this)) {
    count_failure();
    return nullptr;
  }
  Allocation allocation;
  allocation.cache = this;
  allocation.requested = requested != 0 ? requested : object_size();
  allocation.site = site;
  allocation.effort = effort;
  allocation.frame = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
  Observer::Prepared prepared;
  if (kMagazines && recording()) observer()->prepare(allocation, nullptr, prepared);
  void* object = nullptr;
  bool settled = false;
  if (has_magazines() && !exchanged) {
    const hal::InterruptGuard masked;
    const unsigned hart = hal::Port::hart_index();
    cell(hart).close();
    object = take_from_cell(cell(hart));
    if (object != nullptr) {
      settled = record(allocation, object, prepared);
      if (settled) count_allocation();
    }
    expose(hart);
  }
  if (object == nullptr) object = refill_or_pursue(effort);
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

void* Cache::refill_or_pursue(Effort effort) noexcept {
  void* object = refill();
  if (object != nullptr) return object;
  const Effort kind = kind_of(effort);
  const bool may_ask = kind != Effort::kAtomic && kind != Effort::kQuiet && !hal::thread_state().reclaiming;
  object = refill_at_limit(may_ask);
  if (object == nullptr && limit_callback_helps()) object = refill_within_limit(may_ask);
  if (object != nullptr) return object;
  const bool at_limit = slabs_.at_limit();
  // The reserve is for who may not wait: on the only hart, too, where a drain might help.
  const bool may_wait = may_ask && hal::may_wait();
  if (!may_wait && kind != Effort::kQuiet && (object = take_from_reserve()) != nullptr) {
    if (!at_limit) exhaustion::start_drain();  // before the reserve is used up
    return object;
  }
  const exhaustion::Want want{*this, source(), false, at_limit, !at_limit, object_size(), effort};
  auto attempt = [this]() noexcept { return reinterpret_cast<std::uintptr_t>(refill_within_limit(true)); };
  return reinterpret_cast<void*>(exhaustion::pursue(want, attempt));
}

void* Cache::allocate_direct() noexcept {
  const bool plain = !kChecked && state_.load(std::memory_order_relaxed) == 0;
  if (void* object = plain ? slabs_.take_one() : nullptr; object != nullptr) return object;
  return qm_cache_allocate_slow(this, nullptr, 0, Effort::kQuiet);
}

void Cache::free_direct(void* object) noexcept {
  const bool plain = !kChecked && state_.load(std::memory_order_relaxed) == 0;
  if (!plain || slabs_.put(object) != Status::kOk) return qm_cache_free_slow(this, object);
  if (exhaustion::scarce()) exhaustion::note_free();
}

/// Whether a magazine may be had for objects to lie in idle. While memory is scarce none is: what is freed is to be
/// seen, and what is taken is to be used.
bool Cache::may_fill_magazine() const noexcept { return has_magazines() && !exhaustion::scarce(); }

// ---- free -----------------------------------------------------------------------------------------------------------

void Cache::free_slow(void* object, Placed placed) noexcept {
  if (is_dead()) return refuse(object, SlabLayer::Standing::kOutside);
  if (placed == Placed::kNowhere) {
    const SlabLayer::Standing standing = slabs_.judge(object);
    if (standing != SlabLayer::Standing::kOut) return refuse(object, standing);
    if constexpr (kChecked) {
      if (!checked::take_back(*this, object)) return;
    }
    placed = Placed::kForSlab;
    const hal::InterruptGuard masked;
    // acquire: as in record(); the record goes before the object does (O1).
    if ((state_.load(std::memory_order_acquire) & trace_state::kHearsFree) != 0) observer()->forget(*this, object);
    if (has_magazines()) {
      const unsigned hart = hal::Port::hart_index();
      cell(hart).close();
      placed = put_in_reserve(object) ? Placed::kHere : put_in_cell(cell(hart), object);
      expose(hart);
    }
    if (placed == Placed::kHere) return;
  }
  Magazine* magazine = placed == Placed::kForNewMagazine && may_fill_magazine() ? empty_magazine() : nullptr;
  if (magazine == nullptr || (!free_to_new(*magazine, object) && install_and_put(magazine, &object, 1) == 0))
    put_in_slab(object);
  if (exhaustion::scarce()) exhaustion::note_free();
}

}  // namespace qm
