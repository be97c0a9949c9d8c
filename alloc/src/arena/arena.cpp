// Arena: creation, destruction, ranges, and the operations that do not allocate.

#include <qm/arena.hpp>

#include <new>

#include <qm/fault.hpp>
#include <qm/detail/observer.hpp>

#include "arena/arena_request.hpp"
#include "segments/blocks.hpp"
#include "slab/extents.hpp"

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

Status Arena::initialize(const ArenaConfig& config, const quantum_caches::Calls* caches,
                         ImportCall import_with) noexcept {
  if (listed()) return Status::kBusy;
  if (!is_consistent(config) || set_name(*this, config.name) != Status::kOk) return Status::kInvalid;
  ends_.kind = TagKind::kSpan;
  ends_.prev = ends_.next = &ends_;
  quantum_ = config.quantum;
  quantum_mask_ = is_power_of_two(quantum_) ? quantum_ - 1 : ~std::size_t{0};
  sizes_.set_quantum(quantum_);
  minimum_import_ = config.minimum_import;
  source_ = config.self_source ? this : config.source;
  import_ = config.import;
  import_with_ = import_with;
  release_ = config.release;
  functions_in_c_ = config.functions_in_c;
  context_ = config.context;
  blocks_ = config.blocks;
  from_top_ = config.from_top;
  no_trace_ = config.no_trace;
  if constexpr (kCallSites) charged_ = config.charged;
  // Everything that may fail comes first: no other hart sees the arena yet, and only tags have to be given back.
  SpanRange range;
  const bool has_range = config.start != 0 || config.size != 0;
  if (has_range && !whole_quanta(config.start, config.size, range)) return Status::kInvalid;
  Status status = Status::kOk;
  if (has_range) {
    const LockGuard guard(lock_);
    if (!reserve_tags_locked(kSpanTags)) status = Status::kNoMemory;
  }
  if (status == Status::kOk && caches != nullptr) {
    quantum_cache_max_ = config.quantum_cache_max;
    quantum_caches_ = caches;
    status = caches->create(*this);
  }
  if (status == Status::kOk) status = registry_add(kRegistryKind, *this);
  if (status != Status::kOk) {
    // The caches were never used. Their destroy is refused only while a report's cursor stands on one, and the report
    // moves on.
    while (caches != nullptr && caches->destroy(*this) != Status::kOk) hal::Port::relax();
    clear();
    return status;
  }
  if (has_range) {
    const LockGuard guard(lock_);
    insert_span_locked(range);
  }
  if (Arena* from = source(); from != nullptr) from->add_importer();
  if (observer() != nullptr) observer()->created(*this);
  return Status::kOk;
}

Status Arena::destroy() noexcept {
  if (!listed()) return Status::kInvalid;
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
  fault::forget(*this);
  registry_remove(kRegistryKind, *this);
  Arena* from = source();
  clear();
  if (from != nullptr) from->remove_importer();
  return Status::kOk;
}

/// Gives all spans and tags back, one span per hold of the lock, and leaves the object as its constructor does.
void Arena::clear() noexcept {
  for (;;) {
    SpanRange range;
    {
      const LockGuard guard(lock_);
      if (ends_.next == &ends_) break;
      range = remove_span_locked(ends_.next);
    }
    if (range.imported()) release_span(range);
  }
  while (spare_count_ != 0) give_spares_locked();
  this->~Arena();
  new (this) Arena;
}

/// The whole quanta of a range, without the value 0. @returns false if there are none.
bool Arena::whole_quanta(std::uintptr_t start, std::size_t size, SpanRange& range) const noexcept {
  std::uintptr_t end = 0;
  if (__builtin_add_overflow(start, size, &end)) return false;
  start = round_up(start == 0 ? 1 : start, quantum_);
  end = round_down(end, quantum_);
  range = {start, end - start, SpanOrigin::kAdded};
  return start != 0 && start < end;
}

Status Arena::add(std::uintptr_t start, std::size_t size) noexcept {
  SpanRange range;
  if (!whole_quanta(start, size, range)) return Status::kInvalid;
  if (blocks_ != nullptr) return add_block_span(range);
  const LockGuard guard(lock_);
  if (!reserve_tags_locked(kSpanTags)) return Status::kNoMemory;
  return insert_span_locked(range) != nullptr ? Status::kOk : Status::kOverlap;
}

std::size_t Arena::reap() noexcept {
  if (blocks_ != nullptr) return reap_blocks();
  if (extents.are_of(*this)) return extents.dissolve() + page_map.trim();
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
  if (extents.are_of(*this)) stats.in_extents = extents.idle_locked() + page_map.spare_bytes();
  stats.largest_free = sizes_.largest();
  if (blocks_ != nullptr) {
    stats.idle = idle_block_bytes_locked();
    stats.segments_free = blocks_->free_blocks();
    stats.largest_free = blocks_->largest();
  }
  return stats;
}

std::size_t Arena::header_bytes() const noexcept { return blocks_ != nullptr ? Blocks::kHeaderBytes : 0; }

std::size_t Arena::segments_held() noexcept {
  const LockGuard guard(lock_);
  return segments_allocated() - slab_segments_;
}

std::size_t Arena::size_of(std::uintptr_t start) noexcept {
  const LockGuard guard(lock_);
  if (blocks_ != nullptr) {
    const BlockHeader* const block = find_block_locked(start);
    return block == nullptr ? 0 : block->usable();
  }
  const BoundaryTag* tag = find_allocated_locked(start);
  return tag == nullptr ? 0 : tag->size;
}

std::uint32_t* Arena::handle(std::uintptr_t start) noexcept {
  const LockGuard guard(lock_);
  if (blocks_ != nullptr) {
    const BlockHeader* const block = find_block_locked(start);
    return block != nullptr && block->is_noted() ? &block->note().handle : nullptr;
  }
  BoundaryTag* tag = find_allocated_locked(start);
  return tag == nullptr ? nullptr : &tag->handle;
}

/// Whether this arena or one of its sources is large enough for @p size. A size that none could ever supply is not
/// exhaustion.
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

/// Runs @p action with the pool's lock held, which is the root's. The root's lock may be taken while another arena's is
/// held: the root takes no other arena's lock.
template <class Action>
inline bool Arena::with_pool_locked(const Action& action) noexcept {
  Arena* const root = boundary_tag_pool.root;
  if (root == this) return action();
  const LockGuard guard(root != nullptr ? root->lock_ : boundary_tag_pool.rootless);
  return action();
}

/// take_tags_locked() for the root, which holds the pool's lock already: mostly takes one chain from the pool.
bool Arena::take_own_tags_locked(unsigned count) noexcept {
  if constexpr (!kForSize) {
    if (boundary_tag_pool.root == this && !boundary_tag_pool.is_empty() && !fault::tested()) [[likely]] {
      spare_count_ += boundary_tag_pool.take(spares_, kTagBatch);
      if (spare_count_ >= count) [[likely]]
        return true;
    }
  }
  return take_tags_locked(count);
}

/// Makes @p count spare tags available, from the pool or from a new page of the root.
bool Arena::take_tags_locked(unsigned count) noexcept {
  const auto take_all = [&]() __attribute__((noinline)) {
    do {
      unsigned most = kTagBatch;
      if (boundary_tag_pool.is_empty()) {
        if (!boundary_tag_pool.add_page()) return false;
        most = count - spare_count_;  // this operation has cost enough
      }
      spare_count_ += boundary_tag_pool.take(spares_, most);
    } while (spare_count_ < count);
    return true;
  };
  if (!fault::may_acquire(fault::Resource::kTag)) return false;
  if constexpr (kForSize) return with_pool_locked(take_all);
  return with_pool_locked([&]() noexcept {
    if (!boundary_tag_pool.is_empty()) [[likely]] {
      spare_count_ += boundary_tag_pool.take(spares_, kTagBatch);
      if (spare_count_ >= count) [[likely]]
        return true;
    }
    return take_all();
  });
}

/// Gives the pool a chain of the spare tags.
void Arena::give_spares_locked() noexcept {
  with_pool_locked([this]() noexcept {
    const unsigned count = spare_count_ < kTagBatch ? spare_count_ : kTagBatch;
    boundary_tag_pool.give(spares_, count);
    spare_count_ -= count;
    return true;
  });
}

/// Gives the pool a quantum of the root's memory, from the end of the free segment below the existing tag pages. Tag
/// pages are never freed, and so lie together at the end of memory. If that segment is in use or has just one quantum,
/// any free segment will do.
/// @returns false if nothing is free.
bool Arena::add_tag_page_locked() noexcept {
  const std::size_t size = quantum_;
  BoundaryTag* pages = tag_pages_;
  BoundaryTag* segment = (pages != nullptr ? pages : &ends_)->prev;
  if (segment->kind != TagKind::kFree || segment->size == size) {
    pages = nullptr;
    segment = sizes_.find(size, Fit::kInstant);
    if (segment == nullptr) return false;
  }
  const std::uintptr_t start = segment->end() - size;
  std::size_t own = 0;
  if (pages != nullptr) {
    pages->start = start;
    pages->size += size;
    count_allocated_locked(size);
  } else {
    tag_pages_ = segment;
    if (segment->size == size) {
      remove_free_locked(segment);
    } else {  // T1
      own = sizeof(BoundaryTag);
      tag_pages_ = reinterpret_cast<BoundaryTag*>(start);
      tag_pages_->start = start;
      tag_pages_->size = size;
      link_after(tag_pages_, segment);
    }
    enter_allocated_locked(tag_pages_, {.owner = SegmentOwner::kTagPool});
  }
  boundary_tag_pool.add(reinterpret_cast<void*>(start + own), size - own);
  if (tag_pages_ != segment) set_size_locked(segment, segment->start, segment->size - size);
  return true;
}

}  // namespace qm
