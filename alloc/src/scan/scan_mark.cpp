/// The leak scan: which objects are reached, and which are not.

#include <algorithm>
#include <utility>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/detail/observer.hpp>

#include "scan/scan_defect.hpp"
#include "segments/blocks.hpp"
#include "scan/scanner.hpp"

namespace qm::scan {
// ---- marking --------------------------------------------------------------------------------------------------------

/// Follows a word that may be a pointer: it lies between the lowest region's start and the highest one's end.
void Scanner::look_up(std::uintptr_t value) noexcept {
  const Place start = map_.find_start(value);
  if (start.page != nullptr) [[likely]] {
    ++summary.references;
    if (phase_ == Phase::kRoots) Page::set(start.page->aux, start.bit);
    if (Page::has(start.page->marks, start.bit)) return;
    return reach(start);
  }
  const Place inside = map_.find(value);
  if (inside.page == nullptr) return;
  ++summary.references;
  if (!Page::has(inside.page->marks, inside.bit)) reach(inside);
}

/// Marks an object.
void Scanner::reach(const Place& place) noexcept {
  Page::set(place.page->marks, place.bit);
  if (phase_ == Phase::kCounts) {
    ++head_group_->under;
    head_group_->under_bytes += map_.end_of(place) - place.start();
  }
  if (place.page->kind != Page::Kind::kNoPointers) map_.push(place);
}

void Scanner::look(std::uintptr_t value) noexcept {
  if (phase_ != Phase::kStacks && value - map_.low() < map_.bytes()) look_up(value);
}

/// Marks the object that contains @p address as reached at its start. Its words are not read.
void Scanner::hold(std::uintptr_t address) noexcept {
  const Place place = map_.find(address);
  if (place.page == nullptr) return;
  Page::set(place.page->marks, place.bit);
  Page::set(place.page->aux, place.bit);
}

/// The same as look_up() for the start of an object that was reached before, which most pointers are. @returns false,
/// and has done nothing, for others.
[[gnu::always_inline]] inline bool Scanner::meet_again(std::uintptr_t value) noexcept {
  const Place start = map_.find_start(value);
  if (start.page == nullptr || !Page::has(start.page->marks, start.bit)) return false;
  ++summary.references;
  if (phase_ == Phase::kRoots) Page::set(start.page->aux, start.bit);
  return true;
}

/// Reads words of other code's memory: stacks, objects with redzones between them.
QM_UNSANITIZED void Scanner::look_at_words(std::uintptr_t low, std::uintptr_t high) noexcept {
  const auto* at = reinterpret_cast<const AnyWord*>(round_up(low, sizeof(AnyWord)));
  const auto* const end = reinterpret_cast<const AnyWord*>(high - high % sizeof(AnyWord));
  if (at >= end) return;
  summary.words += static_cast<std::size_t>(end - at);
  const std::uintptr_t first = map_.low();
  const std::size_t bytes = map_.bytes();
  for (; at != end; ++at) {
    const std::uintptr_t value = *at;
    if (value - first < bytes) [[unlikely]] {
      if (!meet_again(value)) look_up(value);
    }
  }
}

/// Leaves out the scan's own memory.
void Scanner::range(std::uintptr_t low, std::uintptr_t high) noexcept {
  if (phase_ == Phase::kStacks) return;
  if (is_sliced_ && is_guarded(low)) return read_guarded(low, high);
  if (high <= work_low_ || low >= work_high_) {
    look_at_words(low, high);
  } else {
    if (low < work_low_) look_at_words(low, work_low_);
    if (high > work_high_) look_at_words(work_high_, high);
  }
  look_inside();
}

void Scanner::stack(const hal::StackBounds& whole, std::uintptr_t sp) noexcept {
  if (phase_ == Phase::kStacks) return hold(whole.low);
  if (sp >= whole.low && sp < whole.high) range(sp, whole.high);
}

bool Scanner::is_block(const Page& page) noexcept {
  return page.owner->kind() == RegistryKind::kArena && static_cast<const Arena*>(page.owner)->blocks_ != nullptr;
}

/// Whether a block that was entered as [start, end) is still the same.
bool Scanner::is_still_block(std::uintptr_t start, std::uintptr_t end) noexcept {
  const auto& header = *reinterpret_cast<const BlockHeader*>(start - sizeof(BlockHeader));
  return BlockHeader::is_allocated(header.address(), glance(header.word), glance(header.seal), end - start);
}

/// Reads the words of an object. Of a magazine, which an operation has in hand, it reads the objects that are in it,
/// and not those that were in it before.
void Scanner::look_into(const Place& place) noexcept {
  const std::uintptr_t start = place.start();
  const std::uintptr_t end = map_.end_of(place);
  if (is_sliced_ && is_block(*place.page)) {
    // During a pass the block may be freed and cut into others, whose headers and notes are not pointers.
    constexpr std::size_t kStep = 256;
    for (std::uintptr_t at = start; at < end && is_still_block(start, end); at += kStep)
      look_at_words(at, std::min(at + kStep, end));
    return;
  }
  if (place.page->kind != Page::Kind::kMagazines) return look_at_words(start, end);
  auto& magazine = *reinterpret_cast<Magazine*>(start);
  const auto slots = reinterpret_cast<std::uintptr_t>(magazine.slots());
  const unsigned count = glance(magazine.rounds);
  const std::uintptr_t rounds = slots + count * sizeof(void*);
  if (count <= glance(magazine.capacity) && rounds <= end) look_at_words(slots, rounds);
}

void Scanner::look_inside() noexcept {
  for (Place place = map_.pop(); place.page != nullptr; place = map_.pop()) look_into(place);
}

void Scanner::mark_roots(std::uintptr_t sp) noexcept {
  phase_ = Phase::kStacks;  // marks all stacks before any word is read
  visit_platform(*this, sp);
  phase_ = Phase::kRoots;
  visit_platform(*this, sp);
  for (const qm_scan_root* root = read_roots(); root != nullptr; root = root->next) {
    look(reinterpret_cast<std::uintptr_t>(root));
    const auto start = reinterpret_cast<std::uintptr_t>(root->start);
    range(start, start + root->bytes);
  }
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    for (unsigned at = 0; at < hardware_words_[hart]; ++at) look(hardware_[hart][at]);
  }
  mark_held_by_allocator();
  look_inside();
}

// ---- what is left ---------------------------------------------------------------------------------------------------

/// Counts the live objects, and clears the live bit of all but those that were not reached.
void Scanner::count_live() noexcept {
  for_each_object(&Page::live, [this](const Place& place) noexcept {
    Page& page = *place.page;
    const bool is_reached = Page::has(page.marks, place.bit);
    if (page.kind == Page::Kind::kMagazines) return Page::clear(page.live, place.bit);
    const std::size_t bytes = map_.end_of(place) - place.start();
    ++summary.live;
    summary.live_bytes += bytes;
    if (!is_reached) {
      ++summary.leaked;
      summary.leaked_bytes += bytes;
      return;
    }
    if (!Page::has(page.aux, place.bit)) {
      if (summary.inner_only < LeakGroup::kExamples) summary.inner_examples[summary.inner_only] = place.start();
      ++summary.inner_only;
      summary.inner_only_bytes += bytes;
    }
    Page::clear(page.live, place.bit);
  });
  for (Page* page = map_.begin_pages(); page != map_.end_pages(); ++page) {
    std::fill_n(page->marks, Page::kWords, 0);
    std::fill_n(page->aux, Page::kWords, 0);
  }
}

/// Reads each object that no other has been found to lead to yet: it may be a head. None of these leads to a later one.
void Scanner::find_heads() noexcept {
  phase_ = Phase::kHeads;
  for_each_object(&Page::live, [this](const Place& place) noexcept {
    Page& page = *place.page;
    if (Page::has(page.marks, place.bit)) return;
    Page::set(page.marks, place.bit);
    Page::set(page.aux, place.bit);
    if (page.kind == Page::Kind::kNoPointers) return;
    map_.push(place);
    look_inside();
  });
  for (Page* page = map_.begin_pages(); page != map_.end_pages(); ++page) std::fill_n(page->marks, Page::kWords, 0);
}

/// The cache that has the object; nullptr: an arena has it.
Cache* Scanner::cache_of(const Place& place) noexcept {
  Traceable* const owner = place.page->owner;
  if (owner == nullptr || owner->kind() != RegistryKind::kCache) return nullptr;
  return static_cast<Cache*>(owner);
}

LeakGroup& Scanner::group_of(const Place& place, std::size_t bytes) noexcept {
  LeakGroup key;
  key.owner = place.page->owner;
  key.object_size = bytes;
  if (Cache* const cache = cache_of(place); cache != nullptr) {
    auto* const object = reinterpret_cast<void*>(place.start());
    if constexpr (kCallSites) key.site = cache->site_of(object);
    if (observer() != nullptr) key.stack = observer()->allocating_stack(*cache, object);
  } else if (key.owner != nullptr) {
    if constexpr (kCallSites) key.site = static_cast<Arena*>(key.owner)->site_of(place.start());
  }
  for (std::size_t at = 0; at < group_count_; ++at) {
    LeakGroup& group = groups_[at];
    if (group.owner == key.owner && group.object_size == key.object_size && group.site == key.site &&
        group.stack == key.stack)
      return group;
  }
  if (group_count_ == LeakScan::kMostGroups) return groups_[group_count_ - 1];
  if (group_count_ == LeakScan::kMostGroups - 1) key = {};  // the group of all others
  groups_[group_count_] = key;
  return groups_[group_count_++];
}

void Scanner::sort_groups() noexcept {
  const auto comes_before = [](const LeakGroup& a, const LeakGroup& b) noexcept {
    if ((a.owner == nullptr) != (b.owner == nullptr)) return b.owner == nullptr;
    return a.bytes() != b.bytes() ? a.bytes() > b.bytes() : a.examples[0] < b.examples[0];
  };
  for (std::size_t sorted = 1; sorted < group_count_; ++sorted) {
    for (std::size_t at = sorted; at != 0 && comes_before(groups_[at], groups_[at - 1]); --at)
      std::swap(groups_[at], groups_[at - 1]);
  }
}

/// Goes from the last candidate to the first: one that is still unmarked when its turn comes is a head, since no
/// earlier one leads to it.
void Scanner::count_groups() noexcept {
  phase_ = Phase::kCounts;
  for (Page* page = map_.end_pages(); page-- != map_.begin_pages();) {
    for (unsigned word = Page::kWords; word-- != 0;) {
      while (page->aux[word] != 0) {
        const unsigned bit = word * kWordBits + floor_log2(page->aux[word]);
        Page::clear(page->aux, bit);
        if (!Page::has(page->marks, bit)) count_head({page, bit});
      }
    }
  }
  sort_groups();
}

void Scanner::count_head(const Place& place) noexcept {
  Page& page = *place.page;
  Page::set(page.marks, place.bit);
  const std::size_t bytes = map_.end_of(place) - place.start();
  LeakGroup& group = group_of(place, bytes);
  std::uintptr_t lower = place.start();
  for (std::uintptr_t& example : group.examples) {
    if (example == 0 || lower < example) std::swap(example, lower);
    if (lower == 0) break;
  }
  ++group.heads;
  group.head_bytes += bytes;
  if (page.kind == Page::Kind::kNoPointers) return;
  head_group_ = &group;
  map_.push(place);
  look_inside();
}

}  // namespace qm::scan
