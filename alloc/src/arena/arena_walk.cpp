// ArenaWalk, and the look-ups that walk.

#include <qm/arena.hpp>
#include <qm/detail/call_sites.hpp>

#include "slab/extents.hpp"

namespace qm {
namespace {

Segment describe(const BoundaryTag& tag) noexcept {
  Segment segment;
  segment.start = tag.start;
  segment.size = tag.size;
  segment.kind = tag.kind;
  if (tag.kind == TagKind::kSpan) segment.imported = tag.origin != SpanOrigin::kAdded;
  if (tag.kind == TagKind::kAllocated) {
    segment.owner = tag.owner;
    if (tag.owner == SegmentOwner::kSlabs) segment.free_pages = Extents::free_pages(tag);
    segment.handle = __atomic_load_n(&tag.handle, __ATOMIC_RELAXED);  // the trace writes it without the lock
    segment.site = kCallSites ? call_sites::plain(tag.site) : tag.site;
  }
  return segment;
}

}  // namespace

ArenaWalk::ArenaWalk(Arena& arena) noexcept : arena_(arena), current_(&arena.ends_) {
  const LockGuard guard(arena_.lock_);
  next_walk_ = arena_.walks_;
  arena_.walks_ = this;
}

ArenaWalk::~ArenaWalk() {
  const LockGuard guard(arena_.lock_);
  ArenaWalk** link = &arena_.walks_;
  while (*link != this) link = &(*link)->next_walk_;
  *link = next_walk_;
}

bool ArenaWalk::next(Segment& segment) noexcept {
  const LockGuard guard(arena_.lock_);
  if (arena_.blocks_ != nullptr) return next_block(segment);
  for (;;) {
    BoundaryTag* tag = current_->next;
    if (tag == &arena_.ends_) return false;
    current_ = tag;
    if (tag->kind == TagKind::kSpan) {
      if (tag->start < position_) continue;
      segment = describe(*tag);
      return true;
    }
    if (tag->end() <= position_) continue;  // other operations have merged or split what was shown
    const std::uintptr_t from = position_;
    position_ = tag->end();
    // The walk has already shown other segments at this start: skip the new one. A segment of boundary tags grows downwards.
    if (tag->start < from && tag->kind == TagKind::kAllocated && tag->owner != SegmentOwner::kTagPool) continue;
    segment = describe(*tag);
    if (segment.start < from) {
      segment.size -= from - segment.start;
      segment.start = from;
    }
    return true;
  }
}

void ArenaWalk::seek(std::uintptr_t address) noexcept {
  const LockGuard guard(arena_.lock_);
  BoundaryTag* tag = arena_.addresses_ != nullptr ? arena_.addresses_->floor(arena_, address) : nullptr;
  BoundaryTag* span = arena_.spans_.floor(address);
  if (tag == nullptr || (span != nullptr && span->start > tag->start)) tag = span;
  current_ = tag == nullptr ? &arena_.ends_ : tag->prev;
  position_ = tag == nullptr ? 0 : tag->start;
}

Status Arena::locate(std::uintptr_t address, Segment& segment) noexcept {
  ArenaWalk walk(*this);
  walk.seek(address);
  while (walk.next(segment)) {
    if (segment.kind == TagKind::kSpan) {
      if (segment.start > address) break;
    } else if (segment.start <= address && address - segment.start < segment.size) {
      return Status::kOk;
    } else if (segment.start > address) {
      break;
    }
  }
  return Status::kNotFound;
}

}  // namespace qm
