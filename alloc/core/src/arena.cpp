#include <qm/arena.hpp>

#include <qm/bits.hpp>
#include <qm/lock.hpp>

#include "tag.hpp"

namespace qm {
namespace {

constexpr std::size_t kTagPageBytes = 4096;
/// Most tags an operation takes: a span, its segment, and what is below and above an allocation in that.
constexpr std::size_t kMostTags = 4;

// Where a span's tag has the spans next to it.
constexpr unsigned kSpanBelow = 0;
constexpr unsigned kSpanAbove = 1;

constinit Lock lock;  // of all arenas, and of these
constinit ArenaTag* tags = nullptr;
constinit std::size_t tag_count = 0;
constinit Arena* tag_source = nullptr;

ArenaTag* take_tag() noexcept {
  ArenaTag* tag = tags;
  tags = tag->next;
  --tag_count;
  return tag;
}

void give_tag(ArenaTag* tag) noexcept {
  tag->next = tags;
  tags = tag;
  ++tag_count;
}

void give_tags_locked(ArenaTag* first, std::size_t bytes) noexcept {
  for (; bytes >= sizeof(ArenaTag); bytes -= sizeof(ArenaTag)) give_tag(first++);
}

/// Takes a segment, which is in no index, out of its span.
void unlink(ArenaTag* tag) noexcept {
  tag->prev->next = tag->next;
  if (tag->next != nullptr) tag->next->prev = tag->prev;
  give_tag(tag);
}

/// Whether @p tag is a free segment that begins at @p start.
bool is_free_at(const ArenaTag* tag, std::uintptr_t start) noexcept {
  return tag != nullptr && tag->kind <= ArenaTag::Kind::kFreeMate && tag->start == start;
}

/// Enters a free segment in the trie of sizes.
void insert(ArenaTag** sizes, ArenaTag* tag) noexcept {
  ArenaTag** const place = trie::place_of(sizes, &ArenaTag::size, tag->size);
  ArenaTag* const node = *place;
  tag->kind = node == nullptr ? ArenaTag::Kind::kFree : ArenaTag::Kind::kFreeMate;
  tag->mate = nullptr;
  if (node == nullptr) return trie::attach(place, tag);
  tag->mate = node->mate;
  tag->child[0] = node;
  if (tag->mate != nullptr) tag->mate->child[0] = tag;
  node->mate = tag;
}

void remove(ArenaTag** sizes, ArenaTag* tag) noexcept {
  ArenaTag* const mate = tag->mate;
  if (tag->kind == ArenaTag::Kind::kFreeMate) {
    tag->child[0]->mate = mate;
    if (mate != nullptr) mate->child[0] = tag->child[0];
    return;
  }
  ArenaTag** const place = trie::place_of(sizes, &ArenaTag::size, tag->size);
  if (mate == nullptr) return trie::detach(place);
  mate->kind = ArenaTag::Kind::kFree;
  trie::replace(place, mate);
}

}  // namespace

void Arena::give_tags(void* storage, std::size_t bytes) noexcept {
  const LockGuard hold(lock);
  give_tags_locked(static_cast<ArenaTag*>(storage), bytes);
}

void Arena::set_tag_source(Arena* arena) noexcept {
  tag_source = arena;
  if (arena != nullptr) return;
  tags = nullptr;
  tag_count = 0;
}

/// The word that points at the segment allocated at @p start, or the empty one where that belongs.
ArenaTag** Arena::find_locked(std::uintptr_t start) noexcept {
  return trie::place_of(&allocated_, &ArenaTag::start, start);
}

/// Has the tags that an operation may take (A4), from a page of the tag source if need be: cut from a segment's end,
/// it needs no tag itself.
bool Arena::has_tags_locked() noexcept {
  if (tag_count >= kMostTags) return true;
  Arena* const from = tag_source;
  ArenaTag* const segment = from != nullptr ? trie::ceiling(from->sizes_, kTagPageBytes) : nullptr;
  if (segment == nullptr) return false;
  remove(&from->sizes_, segment);
  from->allocated_bytes_ += kTagPageBytes;
  segment->size -= kTagPageBytes;
  auto* const page = reinterpret_cast<ArenaTag*>(segment->end());
  if (segment->size != 0) {
    insert(&from->sizes_, segment);
  } else {
    unlink(segment);
  }
  give_tags_locked(page, kTagPageBytes);
  return true;
}

// ---- beginning and end ----------------------------------------------------------------------------------------------

Status Arena::initialize(const ArenaConfig& config) noexcept {
  if (quantum_ != 0) return Status::kBusy;
  if (config.quantum == 0) return Status::kInvalid;
  if (config.source != nullptr && (config.size != 0 || config.source->quantum_ % config.quantum != 0))
    return Status::kInvalid;
  name_ = config.name;
  quantum_ = config.quantum;
  minimum_import_ = config.minimum_import;
  context_ = config.context;
  if (config.size != 0) {
    const Status status = add(config.start, config.size);
    if (status != Status::kOk) {
      quantum_ = 0;
      return status;
    }
  }
  source_ = config.source;
  if (source_ != nullptr) source_->count_importer(1);
  return Status::kOk;
}

Status Arena::destroy() noexcept {
  {
    const LockGuard hold(lock);
    if (segments_ != 0 || std::atomic_ref(importers_).load(std::memory_order_relaxed) != 0) return Status::kBusy;
    while (spans_ != nullptr) remove_span_locked(spans_);  // added ones: imported ones are not empty (A6)
  }
  if (source_ != nullptr) source_->count_importer(~std::size_t{0});
  traceable_.destroyed();
  reset();
  return Status::kOk;
}

void Arena::reset() noexcept { *this = Arena(); }

void Arena::count_importer(std::size_t by) noexcept {
  std::atomic_ref(importers_).fetch_add(by, std::memory_order_relaxed);
}

Status Arena::add(std::uintptr_t start, std::size_t size) noexcept {
  std::uintptr_t end = 0;
  if (source_ != nullptr || __builtin_add_overflow(start, size, &end)) return Status::kInvalid;
  start = round_up(start != 0 ? start : 1, quantum_);
  end = round_down(end, quantum_);
  if (start == 0 || start >= end) return Status::kInvalid;
  const LockGuard hold(lock);
  for (const ArenaTag* span = spans_; span != nullptr; span = span->child[kSpanAbove]) {
    if (start < span->end() && span->start < end) return Status::kOverlap;
  }
  if (!has_tags_locked()) return Status::kNoMemory;
  insert_span_locked(start, end - start);
  return Status::kOk;
}

// ---- the structures: the lock is held, nothing fails ------------------------------------------------------------------

/// Makes @p tag a free segment behind @p before.
void Arena::insert_free_locked(ArenaTag* tag, std::uintptr_t start, std::size_t size, ArenaTag* before) noexcept {
  tag->start = start;
  tag->size = size;
  tag->prev = before;
  tag->next = before->next;
  before->next = tag;
  if (tag->next != nullptr) tag->next->prev = tag;
  insert(&sizes_, tag);
}

/// Enters a span with at least a quantum, all of it free. @returns its segment.
ArenaTag* Arena::insert_span_locked(std::uintptr_t start, std::size_t size) noexcept {
  ArenaTag* const span = take_tag();
  span->start = start;
  span->size = size;
  span->kind = ArenaTag::Kind::kSpan;
  span->prev = span->next = nullptr;
  span->child[kSpanBelow] = nullptr;
  span->child[kSpanAbove] = spans_;
  if (spans_ != nullptr) spans_->child[kSpanBelow] = span;
  spans_ = span;
  total_ += size;
  ArenaTag* const segment = take_tag();
  insert_free_locked(segment, start, size, span);
  return segment;
}

/// Takes out a span in which all is free, or which has nothing.
void Arena::remove_span_locked(ArenaTag* span) noexcept {
  while (ArenaTag* segment = span->next) {
    total_ -= segment->size;
    remove(&sizes_, segment);
    unlink(segment);
  }
  ArenaTag* const below = span->child[kSpanBelow];
  ArenaTag* const above = span->child[kSpanAbove];
  (below != nullptr ? below->child[kSpanAbove] : spans_) = above;
  if (above != nullptr) above->child[kSpanBelow] = below;
  give_tag(span);
}

/// Makes [start, start + size) of a free segment an allocated one. @returns start.
std::uintptr_t Arena::carve_locked(ArenaTag* segment, std::uintptr_t start, std::size_t size) noexcept {
  remove(&sizes_, segment);
  const std::size_t below = start - segment->start;
  const std::size_t above = segment->size - below - size;
  if (above != 0) insert_free_locked(take_tag(), start + size, above, segment);
  if (below != 0) {
    ArenaTag* const rest = take_tag();
    insert_free_locked(rest, segment->start, below, segment->prev);
  }
  segment->start = start;
  segment->size = size;
  segment->kind = ArenaTag::Kind::kAllocated;
  trie::attach(find_locked(start), segment);
  allocated_bytes_ += size;
  ++segments_;
  return start;
}

/// Makes a segment that is in no index a free one, one with those that touch it. @returns that.
ArenaTag* Arena::merge_locked(ArenaTag* tag) noexcept {
  ArenaTag* const right = tag->next;
  if (is_free_at(right, tag->end())) {
    remove(&sizes_, right);
    tag->size += right->size;
    unlink(right);
  }
  ArenaTag* const left = tag->prev;
  if (is_free_at(left, tag->start - left->size)) {
    remove(&sizes_, left);
    left->size += tag->size;
    unlink(tag);
    tag = left;
  }
  insert(&sizes_, tag);
  return tag;
}

// ---- allocation -----------------------------------------------------------------------------------------------------

/// A segment that has @p size from a multiple of @p align on. @param[in] slack what is enough for any start.
inline ArenaTag* Arena::find_room_locked(std::size_t size, std::size_t align, std::size_t slack) const noexcept {
  ArenaTag* const segment = trie::ceiling(sizes_, size);
  if (segment == nullptr || slack == 0) return segment;
  const std::uintptr_t start = round_up(segment->start, align);
  return start != 0 && start - segment->start + size <= segment->size ? segment : trie::ceiling(sizes_, size + slack);
}

/// @returns 0 if no free segment will do, or there are no tags.
std::uintptr_t Arena::take(std::size_t size, std::size_t align, std::size_t slack) noexcept {
  const LockGuard hold(lock);
  ArenaTag* const segment = has_tags_locked() ? find_room_locked(size, align, slack) : nullptr;
  return segment != nullptr ? carve_locked(segment, round_up(segment->start, align), size) : 0;
}

std::uintptr_t Arena::allocate_aligned(std::size_t size, std::size_t align) noexcept {
  const std::size_t rounded = round_up(size, quantum_);
  const bool is_wide = align > quantum_;
  const std::size_t slack = is_wide ? align - quantum_ : 0;
  std::uintptr_t start = 0;
  if (rounded != 0 && rounded + slack >= slack && (is_wide ? align : quantum_) % (is_wide ? quantum_ : align) == 0) {
    start = take(rounded, align, slack);
    if (start == 0 && source_ != nullptr) start = import(rounded, align, slack);
  }
  if (start == 0) std::atomic_ref(failures_).fetch_add(1, std::memory_order_relaxed);
  traceable_.taken(start, size);
  return start;
}

/// As take(), from a new span of the source's. @returns 0 if the source has none, or there are no tags.
std::uintptr_t Arena::import(std::size_t size, std::size_t align, std::size_t slack) noexcept {
  const std::size_t unit = source_->quantum_;
  const std::size_t least = round_up(unit % align == 0 ? size : size + slack, unit);
  if (least < size) return 0;  // more than a word
  std::size_t bytes = minimum_import_ > least ? minimum_import_ : least;
  std::uintptr_t start = source_->allocate(bytes);
  if (start == 0 && bytes != least) start = source_->allocate(bytes = least);
  if (start == 0) return 0;
  {
    const LockGuard hold(lock);
    if (has_tags_locked())  // A6: entered and used in one hold, so that nobody finds it empty
      return carve_locked(insert_span_locked(start, bytes), round_up(start, align), size);
  }
  source_->free(start, bytes);
  return 0;
}

// ---- free -----------------------------------------------------------------------------------------------------------

inline bool Arena::is_size_of(const ArenaTag& tag, std::size_t size) const noexcept {
  return tag.size - size < quantum_;
}

Status Arena::free(std::uintptr_t start, std::size_t size) noexcept {
  std::uintptr_t span_start = 0;
  std::size_t span_size = 0;
  {
    const LockGuard hold(lock);
    ArenaTag** const place = find_locked(start);
    ArenaTag* tag = *place;
    if (tag == nullptr || (size != kAnySize && !is_size_of(*tag, size))) {
      ++bad_frees_;
      return tag == nullptr ? Status::kNotFound : Status::kMismatch;
    }
    traceable_.going(start);
    trie::detach(place);
    --segments_;
    allocated_bytes_ -= tag->size;
    tag = merge_locked(tag);
    ArenaTag* const span = tag->prev;
    if (source_ != nullptr && span->kind == ArenaTag::Kind::kSpan && tag->next == nullptr) {
      span_start = span->start;
      span_size = span->size;
      remove_span_locked(span);
    }
  }
  if (span_size != 0) source_->free(span_start, span_size);
  return Status::kOk;
}

Status Arena::resize_in_place(std::uintptr_t start, std::size_t old_size, std::size_t new_size) noexcept {
  const std::size_t size = round_up(new_size, quantum_);
  if (size == 0) return Status::kInvalid;
  const LockGuard hold(lock);
  const bool has_tags = has_tags_locked();  // first: where these come from this arena, what follows may go for them
  ArenaTag* const tag = *find_locked(start);
  if (tag == nullptr) return Status::kNotFound;
  if (!is_size_of(*tag, old_size)) return Status::kMismatch;
  ArenaTag* const right = tag->next;
  const bool grows = is_free_at(right, tag->end());
  const std::size_t most = tag->size + (grows ? right->size : 0);
  if (size > most || !has_tags) return Status::kNoMemory;
  allocated_bytes_ += size - tag->size;
  // All of what follows is taken, and what is not wanted becomes a free segment again.
  tag->size = size;
  if (grows) {
    remove(&sizes_, right);
    unlink(right);
  }
  if (most != size) insert_free_locked(take_tag(), start + size, most - size, tag);
  traceable_.resized(start, new_size);
  return Status::kOk;
}

// ---- looks ----------------------------------------------------------------------------------------------------------

std::size_t Arena::size_of(std::uintptr_t start) noexcept {
  const LockGuard hold(lock);
  const ArenaTag* const tag = *find_locked(start);
  return tag != nullptr ? tag->size : 0;
}

ArenaStats Arena::stats() noexcept {
  const LockGuard hold(lock);
  return {total_,
          allocated_bytes_,
          total_ - allocated_bytes_,
          segments_,
          std::atomic_ref(failures_).load(std::memory_order_relaxed),
          bad_frees_};
}

}  // namespace qm
