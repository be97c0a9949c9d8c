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

Status Arena::initialize(const ArenaConfig& config, const quantum_caches::Calls* caches) noexcept {
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
  if (status == Status::kOk && caches != nullptr) {
    quantum_cache_max_ = config.quantum_cache_max;
    status = caches->create(*this);
    if (status == Status::kOk) quantum_caches_ = caches;
  }
  if (status == Status::kOk) {
    status = registry_add(kRegistryKind, *this);
    if (status != Status::kOk && caches != nullptr) caches->destroy(*this);
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
  if (quantum_caches_ != nullptr) {
    if (const Status status = quantum_caches_->destroy(*this); status != Status::kOk) {
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
  const LockGuard guard(lock_);
  if (!reserve_tags_locked(2)) return Status::kNoMemory;
  BoundaryTag* const segment = insert_span_locked({start, end - start, SpanOrigin::kAdded});
  if (segment == nullptr) return Status::kOverlap;
  insert_free_locked(segment);
  return Status::kOk;
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

// ---- tags -----------------------------------------------------------------------------------------------------------

/// Has @p count tags at hand, from the pool or from a new page of the root.
bool Arena::take_tags_locked(unsigned count) noexcept {
  if (!fault::may_acquire(fault::Resource::kTag)) return false;
  const unsigned lacking = count - spare_count_;
  const unsigned taken = boundary_tag_pool.take(spares_, lacking > kTagBatch ? lacking : kTagBatch);
  spare_count_ = static_cast<std::uint8_t>(spare_count_ + taken);
  return spare_count_ >= count || take_new_tags_locked();
}

/// The root's lock is the one that may be taken while another arena's is held: the root waits for none.
bool Arena::take_new_tags_locked() noexcept {
  Arena* const root = boundary_tag_pool.root;
  if (root == nullptr) return false;
  SpanRange page;
  if (root == this) {
    page = take_tag_page_locked();
  } else {
    const LockGuard guard(root->lock_);
    page = root->take_tag_page_locked();
  }
  if (page.size == 0) {
    boundary_tag_pool.count_failure();
    return false;
  }
  spare_count_ = static_cast<std::uint8_t>(
      spare_count_ + boundary_tag_pool.add_page(reinterpret_cast<void*>(page.start), page.size, spares_, kTagBatch));
  return true;
}

void Arena::give_spares_locked() noexcept {
  boundary_tag_pool.give(spares_, kTagBatch);
  spare_count_ -= kTagBatch;
}

/// Of the root: takes a page for tags from the end of what lies below those it has taken, which stay for ever and so
/// lie together at the end of memory; where that is in use, of any free segment. @returns what tags may lie in; size 0
/// if there is no page.
Arena::SpanRange Arena::take_tag_page_locked() noexcept {
  static constexpr std::size_t kTagPageBytes = 4096;
  const std::size_t size = round_up(kTagPageBytes, quantum_);
  BoundaryTag* segment = tag_pages_ != nullptr ? tag_pages_->prev : last_;
  const bool is_below = segment != nullptr && segment->kind == TagKind::kFree && segment->size > size;
  if (is_below && tag_pages_ != nullptr) {
    set_size_locked(segment, segment->start, segment->size - size);
    tag_pages_->start -= size;
    tag_pages_->size += size;
    count_allocated_locked(size);
    return {tag_pages_->start, size};
  }
  if (!is_below) segment = find_locked(size, Fit::kInstant);
  if (segment == nullptr) return {};
  const std::uintptr_t start = segment->end() - size;
  std::size_t own = 0;
  if (segment->size != size) {  // T1
    auto* const tag = reinterpret_cast<BoundaryTag*>(start);
    tag->next = spares_;
    spares_ = tag;
    ++spare_count_;
    own = sizeof(BoundaryTag);
  }
  tag_pages_ = carve_locked({segment, start, size}, SegmentOwner::kTagPool, nullptr);
  return {start + own, size - own};
}

}  // namespace qm
