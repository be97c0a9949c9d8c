// Arena: beginning, end, ranges, and what does not allocate.

#include <qm/arena.hpp>

#include <new>

#include <qm/fault.hpp>
#include <qm/observer.hpp>

#include "arena_request.hpp"
#include "boundary_tag_pool.hpp"

namespace qm {
namespace {

bool is_consistent(const ArenaConfig& config) noexcept {
  if (config.quantum == 0 || config.quantum_cache_max % config.quantum != 0) return false;
  const bool imports = config.source != nullptr || config.self_source;
  if (config.source != nullptr && config.self_source) return false;
  if (config.self_source && config.import == nullptr) return false;
  if (!imports && (config.import != nullptr || config.release != nullptr)) return false;
  return !imports || (config.start == 0 && config.size == 0);
}

}  // namespace

Status Arena::initialize(const ArenaConfig& config) noexcept {
  if (listed()) return Status::kBusy;
  if (!is_consistent(config) || set_name(*this, config.name) != Status::kOk) return Status::kInvalid;
  quantum_ = config.quantum;
  sizes_.set_quantum(quantum_);
  minimum_import_ = config.minimum_import;
  source_ = config.self_source ? this : config.source;
  import_ = config.import;
  release_ = config.release;
  context_ = config.context;
  no_trace_ = config.no_trace;
  if constexpr (kCallSites) charged_ = config.charged;
  Status status = Status::kOk;
  if (config.start != 0 || config.size != 0) status = add(config.start, config.size);
  if (status == Status::kOk && config.quantum_cache_max != 0) {
    quantum_cache_max_ = config.quantum_cache_max;
    status = quantum_caches::create(*this);
    if (status != Status::kOk) quantum_cache_max_ = 0;
  }
  if (status == Status::kOk) {
    status = registry_add(kRegistryKind, *this);
    if (status != Status::kOk && quantum_cache_max_ != 0) quantum_caches::destroy(*this);
  }
  if (status != Status::kOk) {
    clear();
    return status;
  }
  if (Arena* from = source(); from != nullptr) from->add_importer();
  if (observer() != nullptr) observer()->created(*this);
  return Status::kOk;
}

Status Arena::destroy() noexcept {
  {
    const LockGuard guard(lock_);
    if (refills_tags_ || importers_.load(std::memory_order_relaxed) != 0) return Status::kBusy;
    if (segments_allocated() != slab_segments_) return Status::kBusy;
  }
  if (const Status status = registry_hide(*this); status != Status::kOk) return status;
  if (quantum_cache_max_ != 0) {
    if (const Status status = quantum_caches::destroy(*this); status != Status::kOk) {
      registry_show(*this);
      return status;
    }
    quantum_cache_max_ = 0;
  }
  if (observer() != nullptr) observer()->destroyed(*this);
  registry_remove(kRegistryKind, *this);
  Arena* from = source();
  clear();
  if (from != nullptr) from->remove_importer();
  return Status::kOk;
}

/// Gives all spans and tags back, one span a lock hold, and leaves the object as its constructor does.
void Arena::clear() noexcept {
  for (;;) {
    SpanRange range;
    {
      const LockGuard guard(lock_);
      if (first_ == nullptr) break;
      range = remove_span_locked(first_);
    }
    if (range.imported()) release_span(range);
  }
  boundary_tag_pool.give(spares_, spare_count_);
  this->~Arena();
  new (this) Arena;
}

Status Arena::add(std::uintptr_t start, std::size_t size) noexcept {
  std::uintptr_t end = 0;
  if (size == 0 || __builtin_add_overflow(start, size, &end)) return Status::kInvalid;
  if (start == 0) start = 1;
  start = round_up(start, quantum_);
  end = round_down(end, quantum_);
  if (start == 0 || start >= end) return Status::kInvalid;
  for (unsigned attempt = 0; attempt < kTagAttempts; ++attempt) {
    {
      const LockGuard guard(lock_);
      if (reserve_tags_locked(2)) {
        BoundaryTag* segment = insert_span_locked({start, end - start, SpanOrigin::kAdded});
        if (segment != nullptr) insert_free_locked(segment);
        return segment != nullptr ? Status::kOk : Status::kOverlap;
      }
    }
    if (!boundary_tags_refill()) break;
  }
  return Status::kNoMemory;
}

std::size_t Arena::reap() noexcept {
  SpanRange range;
  {
    const LockGuard guard(lock_);
    if (empty_span_ == nullptr) return 0;
    range = remove_span_locked(empty_span_);
  }
  release_span(range);
  return range.size;
}

ArenaStats Arena::stats() noexcept {
  const LockGuard guard(lock_);
  ArenaStats stats = counts_;
  stats.segments_allocated = segments_allocated();
  stats.free = stats.total - stats.allocated;
  stats.idle = empty_span_ == nullptr ? 0 : empty_span_->next->size;
  stats.largest_free = sizes_.largest();
  return stats;
}

std::size_t Arena::segments_held() noexcept {
  const LockGuard guard(lock_);
  return segments_allocated() - slab_segments_;
}

/// @returns the segment allocated at @p start; nullptr if there is none.
BoundaryTag* Arena::find_allocated_locked(std::uintptr_t start) noexcept { return *allocated_.place_of(start); }

std::size_t Arena::size_of(std::uintptr_t start) noexcept {
  const LockGuard guard(lock_);
  const BoundaryTag* tag = find_allocated_locked(start);
  return tag == nullptr ? 0 : tag->size;
}

std::uint32_t* Arena::handle(std::uintptr_t start) noexcept {
  const LockGuard guard(lock_);
  BoundaryTag* tag = find_allocated_locked(start);
  return tag == nullptr ? nullptr : &tag->handle;
}

/// Whether there is an arena among this and its sources that is large enough. A size beyond all is no exhaustion.
bool Arena::may_ever_have(std::size_t size) noexcept {
  if (round_up(size, quantum_) == 0) return false;
  for (Arena* arena = this; arena != nullptr; arena = arena->source()) {
    const LockGuard guard(arena->lock_);
    if (arena->source_ == arena || arena->counts_.total >= size) return true;
  }
  return false;
}

void Arena::count_failure() noexcept {
  const LockGuard guard(lock_);
  ++counts_.failures;
}

// ---- tags ------------------------------------------------------------------------------------------------------------

bool Arena::reserve_tags_locked(unsigned count) noexcept {
  if (spare_count_ < count && !fault::may_acquire(fault::Resource::kTag)) return false;
  while (spare_count_ < count) {
    const unsigned lacking = count - spare_count_;
    const unsigned taken = boundary_tag_pool.take(spares_, lacking > kTagBatch ? lacking : kTagBatch);
    spare_count_ = static_cast<std::uint8_t>(spare_count_ + taken);
    // Only the root may go on: its lock is the one that a refill takes.
    if (taken == 0 && !(refills_tags_ && refill_pool_locked())) return false;
  }
  return true;
}

void Arena::give_spares_locked() noexcept {
  boundary_tag_pool.give(spares_, kTagBatch);
  spare_count_ -= kTagBatch;
}

bool Arena::refill_pool_locked() noexcept {
  static constexpr std::size_t kTagPageBytes = 4096;
  const std::size_t size = round_up(kTagPageBytes, quantum_);
  BoundaryTag* const segment = find_locked(size, Fit::kInstant);
  if (segment == nullptr) {
    boundary_tag_pool.count_failure();
    return false;
  }
  // T1: the page's first tag is the one that splitting takes.
  auto* tags = reinterpret_cast<BoundaryTag*>(segment->start);
  const bool splits = segment->size != size;
  if (splits) {
    tags->next = spares_;
    spares_ = tags;
    ++spare_count_;
  }
  carve_locked({segment, segment->start, size}, SegmentOwner::kTagPool, nullptr);
  boundary_tag_pool.add_page(tags + splits, size - splits * sizeof(BoundaryTag));
  return true;
}

}  // namespace qm
