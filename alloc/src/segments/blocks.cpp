#include "segments/blocks.hpp"

#include <qm/detail/poison.hpp>

#include "segments/size_index.hpp"

namespace qm {

// ---- lists ----------------------------------------------------------------------------------------------------------

/// Whether @p block is the sound header of a free block; if not, notes it as damaged.
QM_ARENA_INLINE bool Blocks::is_free(Header* block) noexcept {
  if (block->is_sound() && block->has(kFree)) [[likely]]
    return true;
  damaged_ = block;
  return false;
}

QM_ARENA_INLINE void Blocks::set_first(std::size_t list, Header* block) noexcept {
  first_[list] = block;
  const std::size_t bit = std::size_t{1} << list % kWordBits;
  std::size_t& word = has_[list / kWordBits];
  word = block != nullptr ? word | bit : word & ~bit;
}

/// Makes @p block a free block of @p bytes and enters it in its list. @param[in] flags kAfterFree, kAtEnd or neither.
void Blocks::insert(Header* block, std::size_t bytes, std::uint32_t flags) noexcept {
  block->set(bytes, flags | kFree);
  size_behind(block) = bytes;
  const std::size_t list = list_of(*block);
  Header* first = first_[list];
  if (first != nullptr) {
    if (previous_of(first) == before_first(list)) [[likely]] {
      set_previous(first, block->address());
    } else {
      damaged_ = first;
      first = nullptr;  // cut it off, with the blocks behind it
    }
  }
  links(block).next = first;
  set_previous(block, before_first(list));
  set_first(list, block);
  ++free_blocks_;
  if constexpr (poison::kHides) poison::hide(&links(block) + 1, idle_bytes(block));
}

/// Removes a free block with a sound header from its list. A neighbour in the list that does not link back is damaged
/// and is not written: the list ends before it.
void Blocks::remove(Header* block) noexcept {
  if constexpr (poison::kHides) poison::show(&links(block) + 1, idle_bytes(block));
  Header* next = links(block).next;
  const std::uintptr_t previous = previous_of(block);
  if (next != nullptr && previous_of(next) != block->address()) [[unlikely]] {
    damaged_ = next;
    next = nullptr;
  }
  if ((previous & kIsFirst) != 0) {
    const std::size_t list = (previous - before_first(0)) / sizeof first_[0];
    if (list <= kEnds && first_[list] == block) set_first(list, next);
  } else if (links(at(previous)).next == block) [[likely]] {
    links(at(previous)).next = next;
  } else {
    damaged_ = at(previous);
  }
  if (next != nullptr) set_previous(next, previous);
  --free_blocks_;
}

/// Ends a list before its first damaged block.
[[gnu::noinline]] void Blocks::cut_list(std::size_t list) noexcept {
  Header* before = nullptr;
  for (Header* block = first_[list]; block != nullptr; before = block, block = links(block).next) {
    if (is_free(block)) continue;
    if (before == nullptr) {
      set_first(list, nullptr);
    } else {
      links(before).next = nullptr;
    }
    return;
  }
}

/// The first list from @p from on that has a block; kEnds if none before that has.
QM_ARENA_INLINE std::size_t Blocks::next_list(std::size_t from) const noexcept {
  std::size_t word = from / kWordBits;
  std::size_t bits = has_[word] >> from % kWordBits << from % kWordBits;
  while (bits == 0) {
    if (++word == sizeof has_ / sizeof has_[0]) return kEnds;
    bits = has_[word];
  }
  return word * kWordBits + lowest_bit(bits);
}

/// The smallest block of at least @p bytes among the first kScan of a list. @returns nullptr if there is none, or one
/// of them is damaged.
QM_ARENA_INLINE Blocks::Header* Blocks::best_of(std::size_t list, std::size_t bytes) noexcept {
  Header* best = nullptr;
  std::size_t least = SIZE_MAX;
  unsigned left = list == kEnds ? kScanEnds : kScan;
  for (Header* block = first_[list]; block != nullptr; block = links(block).next) {
    if (!is_free(block)) [[unlikely]] {
      cut_list(list);
      return nullptr;
    }
    const std::size_t has = block->bytes();
    if (has >= bytes && has < least) {
      least = has;
      best = block;
    }
    if (--left == 0 || least == bytes) break;
  }
  return best;
}

/// A free block of at least @p bytes: one of the first in the list of that size, if it fits, else the first of a list
/// in which all fit, else one at the end of a span.
QM_ARENA_INLINE Blocks::Header* Blocks::find(std::size_t bytes) noexcept {
  std::size_t list = list_of(bytes);
  if (list >= kExact) {
    if (Header* const block = best_of(list, bytes); block != nullptr) return block;
    ++list;
  }
  while ((list = next_list(list)) < kEnds) {
    Header* const block = first_[list];
    if (is_free(block)) [[likely]]
      return block;
    set_first(list, nullptr);
  }
  return best_of(kEnds, bytes);
}

// ---- blocks ---------------------------------------------------------------------------------------------------------

/// The free block before @p block, which has kAfterFree. @returns nullptr if it is damaged.
QM_ARENA_INLINE Blocks::Header* Blocks::before(Header* block, std::uintptr_t start) noexcept {
  const std::size_t bytes = bytes_before(block);
  Header* const left = at(block->address() - bytes);
  // The size is a word of free memory: check it before following it.
  if (bytes % kUnit != 0 || bytes < kLeast || bytes > block->address() - start) {
    damaged_ = block;
    return nullptr;
  }
  if (!is_free(left)) return nullptr;
  if (left->bytes() == bytes) return left;
  damaged_ = left;
  return nullptr;
}

/// Makes a free block of the span, except for its first @p bytes bytes of blocks. @returns where these begin.
Blocks::Header* Blocks::enter_behind(std::uintptr_t start, std::uintptr_t end, std::size_t bytes) noexcept {
  Header* const first = at(start + kHeaderBytes);
  at(end - kHeaderBytes)->set(0, kAfterFree);
  insert(at(first->address() + bytes), end - start - kSpanBytes - bytes, kAtEnd);
  return first;
}

/// Makes the end mark @p mark, of a span that is extended, a free block of @p bytes, joined with its neighbours.
/// @returns the block; nullptr if @p bytes is too small for a block and a neighbour's header is damaged: then the mark
///          stays an allocated block.
QM_ARENA_INLINE Blocks::Header* Blocks::open_mark(Header* mark, std::size_t bytes, std::uintptr_t start) noexcept {
  mark->set(bytes, mark->word & kAfterFree);
  if (Header* const joined = give(mark, start); joined != nullptr) return joined;
  Header* const after = mark->next();
  if (bytes < kLeast || !after->is_sound()) return nullptr;
  insert(mark, bytes,
         after->bytes() == 0 ? std::uint32_t{kAtEnd} : 0);  // the block before it is damaged: they are not joined
  after->add(kAfterFree);
  return mark;
}

Blocks::Header* Blocks::extend(std::uintptr_t start, std::uintptr_t end, std::uintptr_t new_end) noexcept {
  at(new_end - kHeaderBytes)->set(0, 0);
  return open_mark(at(end - kHeaderBytes), new_end - end, start);
}

void Blocks::shorten(Header* last, std::size_t less) noexcept {
  const std::size_t rest = last->bytes() - less;
  const std::uint32_t flags = last->word & kAfterFree;
  remove(last);
  if (rest == 0) {
    last->set(0, flags);
  } else {
    insert(last, rest, flags | kAtEnd);
    last->next()->set(0, kAfterFree);
  }
}

void Blocks::cut(Header* block, std::uintptr_t low, std::uintptr_t high) noexcept {
  Header* const after = block->next();
  const std::uint32_t flags = block->word & kAfterFree;
  const std::size_t below = low - kHeaderBytes - block->address();
  const std::size_t above = after->address() - (high + kHeaderBytes);
  const std::uint32_t above_flags = block->word & kAtEnd;
  remove(block);
  if (below != 0) insert(block, below, flags | kAtEnd);
  at(low - kHeaderBytes)->set(0, below != 0 ? std::uint32_t{kAfterFree} : flags);
  if (above != 0) {
    insert(at(high + kHeaderBytes), above, above_flags);
  } else {
    after->drop(kAfterFree);
  }
}

Blocks::Header* Blocks::mend(std::uintptr_t start, std::uintptr_t low, std::uintptr_t high) noexcept {
  return open_mark(at(low - kHeaderBytes), high + kSpanBytes - low, start);
}

Blocks::Header* Blocks::take(std::size_t bytes, std::size_t align, const Taken& as) noexcept {
  // With this much more, the request fits wherever the block begins.
  const std::size_t slack = align > kUnit ? align + kLeast : 0;
  if (bytes == 0 || slack > kMost - bytes) return nullptr;
  Header* const block = find(bytes + slack);
  return block != nullptr ? take_of(block, bytes, align, as) : nullptr;
}

QM_ARENA_INLINE Blocks::Header* Blocks::take_of(Header* block, std::size_t bytes, std::size_t align,
                                                const Taken& as) noexcept {
  const std::size_t gap = align > kUnit ? gap_of(*block, align) : 0;
  const std::size_t rest = block->bytes() - gap - bytes;
  Header* const after = block->next();
  if (rest < kLeast && !after->is_sound()) {
    damaged_ = after;
    return nullptr;
  }
  std::uint32_t flags = block->word & kAfterFree;
  const std::uint32_t rest_flags = block->word & kAtEnd;
  remove(block);
  if (gap != 0) [[unlikely]] {
    insert(block, gap, flags);
    block = at(block->address() + gap);
    flags = kAfterFree;
  }
  if (rest < kLeast) {
    bytes += rest;
    after->drop(kAfterFree);
  } else {
    insert(at(block->address() + bytes), rest, rest_flags);
  }
  block->set(bytes, flags | (as.noted ? kNoted : 0U), as.kind);
  return block;
}

Blocks::Header* Blocks::take_from(Header* block, std::size_t bytes, std::size_t align, const Taken& as) noexcept {
  return take_of(block, bytes, align, as);
}

Blocks::Header* Blocks::give(Header* block, std::uintptr_t start) noexcept {
  Header* const after = block->next();
  if (!after->is_sound()) {
    damaged_ = after;
    return nullptr;
  }
  Header* first = block;
  if (block->has(kAfterFree)) {
    first = before(block, start);
    if (first == nullptr) return nullptr;
  }
  Header* last = after;
  if (after->has(kFree)) {
    last = after->next();
    if (!last->is_sound()) {
      damaged_ = last;
      return nullptr;
    }
    remove(after);
    after->erase();
  } else {
    after->add(kAfterFree);
  }
  if (block->is_noted()) block->note().erase();
  std::uint32_t flags = block->word & kAfterFree;
  if (first != block) {
    flags = first->word & kAfterFree;
    remove(first);
    block->erase();
  }
  if (last->bytes() == 0) flags |= kAtEnd;
  insert(first, last->address() - first->address(), flags);
  return first;
}

bool Blocks::resize(Header* block, std::size_t bytes) noexcept {
  const std::size_t now = block->bytes();
  Header* const after = block->next();
  if (!after->is_sound()) {
    damaged_ = after;
    return false;
  }
  const bool is_followed = after->has(kFree);
  Header* const last = is_followed ? after->next() : after;
  if (is_followed && !last->is_sound()) {
    damaged_ = last;
    return false;
  }
  const std::size_t room = last->address() - block->address();
  if (bytes > room) return false;
  if (bytes <= now && now - bytes < kLeast && !is_followed) return true;
  const bool is_noted = block->is_noted();
  const Note note = is_noted ? block->note() : Note{};
  if (is_noted) block->note().erase();  // its place may change
  if (is_followed) {
    remove(after);
    after->erase();
  }
  const std::size_t rest = room - bytes;
  if (rest < kLeast) {
    bytes = room;
    last->drop(kAfterFree);
  } else {
    insert(at(block->address() + bytes), rest, last->bytes() == 0 ? std::uint32_t{kAtEnd} : 0);
    last->add(kAfterFree);
  }
  block->set(bytes, block->word & Header::kFlags, block->kind());
  if (is_noted) block->note().set(note.site, note.handle);
  return true;
}

// ---- for reports ----------------------------------------------------------------------------------------------------

bool Blocks::is_kept(const Header* block) noexcept {
  if (!block->is_sound()) return false;
  if (block->bytes() == 0) return !block->has(kFree);
  if (block->is_noted() && !block->note().is_sound()) return false;
  const Header* const after = at(block->end());
  if (!after->is_sound() || after->has(kAfterFree) != block->has(kFree)) return false;
  return !block->has(kFree) || (bytes_before(after) == block->bytes() && block->has(kAtEnd) == (after->bytes() == 0) &&
                                !after->has(kFree) && !block->has(kAfterFree));
}

bool Blocks::are_listed(std::size_t count) const noexcept {
  for (std::size_t list = 0; list <= kEnds; ++list) {
    if ((has_[list / kWordBits] >> list % kWordBits & 1) != (first_[list] != nullptr ? 1U : 0U)) return false;
    std::uintptr_t previous = before_first(list);
    for (const Header* block = first_[list]; block != nullptr; previous = block->address(), block = links(block).next) {
      if (!block->is_sound() || !block->has(kFree) || list_of(*block) != list) return false;
      if (previous_of(block) != previous || count-- == 0) return false;
    }
  }
  return count == 0;
}

std::size_t Blocks::largest() const noexcept {
  std::size_t most = 0;
  const auto look = [&](std::size_t list) noexcept {
    for (const Header* block = first_[list]; block != nullptr && block->is_sound(); block = links(block).next) {
      if (block->usable() > most) most = block->usable();
    }
  };
  std::size_t list = kLists;
  while (list != 0 && first_[list - 1] == nullptr) --list;
  if (list != 0) look(list - 1);
  look(kEnds);
  return most;
}

}  // namespace qm
