#include <qm/detail/slab_pass.hpp>

namespace qm {
namespace {

/// The pass in progress. `layer` is changed with that layer's lock held; the rest belongs to the hart that holds that
/// lock.
struct State {
  std::atomic<std::uint32_t> taken{0};
  std::atomic<SlabLayer*> layer{nullptr};
  Slab* at = nullptr;    // shown or skipped last; nullptr: before the first of a sweep
  std::size_t seen = 0;  // slabs of the layer with the mark
  unsigned sweeps = 0;
  std::uint16_t mark = 0;
};
constinit State state;

}  // namespace

SlabPass::SlabPass(SlabLayer& layer) noexcept : layer_(layer) {
  // acquire: pairs with the release at the end of the pass before.
  mine_ = state.taken.exchange(1, std::memory_order_acquire) == 0;
  if (!mine_) return;
  const LockGuard hold(layer_.lock_);
  state.at = nullptr;
  state.seen = 0;
  state.sweeps = 0;
  if (++state.mark == 0) ++state.mark;  // 0 is the mark of a fresh slab
  state.layer.store(&layer_, std::memory_order_relaxed);
}

SlabPass::~SlabPass() {
  if (!mine_) return;
  {
    const LockGuard hold(layer_.lock_);
    state.layer.store(nullptr, std::memory_order_relaxed);
  }
  state.taken.store(0, std::memory_order_release);
}

bool SlabPass::step(Visit visit, void* argument) noexcept {
  if (!mine_ || complete_) return false;
  while (state.sweeps < kSweeps) {
    const LockGuard hold(layer_.lock_);
    for (unsigned skipped = 0; skipped < kSkips; ++skipped) {
      if (state.seen == layer_.slabs_) {
        complete_ = true;
        return false;
      }
      state.at = layer_.next_in_lists(state.at);
      if (state.at == nullptr) {
        ++state.sweeps;
        break;
      }
      if (state.at->mark == state.mark) continue;
      state.at->mark = state.mark;
      ++state.seen;
      ++shown_;
      visit(layer_, *state.at, argument);
      return true;
    }
  }
  return false;
}

/// The slab after @p slab in its list, then in the next list; the first for nullptr. Lock held.
Slab* SlabLayer::next_in_lists(Slab* slab) noexcept {
  if (slab != nullptr && slab->in_use == slab->objects) return full_.next(slab);  // S2
  Slab* next = slab != nullptr ? usable_.next(slab) : usable_.front();
  return next != nullptr ? next : full_.front();
}

void internal::leave_pass(SlabLayer& layer, Slab& slab) noexcept {
  if (state.layer.load(std::memory_order_relaxed) != &layer) return;
  if (slab.mark == state.mark) --state.seen;
  if (state.at == &slab) state.at = nullptr;
}

}  // namespace qm
