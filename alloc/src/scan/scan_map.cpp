/// The map of a leak scan.

#include "scan/scan_map.hpp"

#include <cstring>
#include <new>

#include <qm/system.hpp>

namespace qm::scan {
namespace {

PageMap::Region region_at(unsigned number) noexcept { return ObjectMap::region(number); }

std::size_t pages_of(const PageMap::Region& region) noexcept {
  return (region.bytes + Page::kBytes - 1) / Page::kBytes;
}

}  // namespace

PageMap::Region ObjectMap::region(unsigned number) noexcept {
  PageMap::Region region = page_map.region(number);
  const MemoryRange first = internal::first_pages();
  if (number == 0 && first.start + first.size == region.low) region = {first.start, region.bytes + first.size};
  return region;
}

std::size_t ObjectMap::table_bytes() noexcept {
  std::size_t pages = 0;
  for (unsigned region = 0; region < page_map.region_count(); ++region) pages += pages_of(region_at(region));
  return round_up(pages * sizeof(std::uint32_t), alignof(Page));
}

void ObjectMap::begin(std::uintptr_t start, std::size_t bytes) noexcept {
  *this = ObjectMap{};
  const std::size_t table = table_bytes();
  table_ = reinterpret_cast<std::uint32_t*>(start);
  pages_ = reinterpret_cast<Page*>(start + table);
  room_ = (bytes - table) / sizeof(Page);
  if (room_ >= kMissing) room_ = kMissing - 1;
  std::memset(table_, 0, table);
  low_ = UINTPTR_MAX;
  for (unsigned number = 0; number < page_map.region_count(); ++number) {
    const PageMap::Region region = region_at(number);
    if (region.low < low_) low_ = region.low;
    if (region.low + region.bytes - 1 >= high_) high_ = region.low + region.bytes;
  }
  if (page_map.region_count() == 0) return;
  first_low_ = region_at(0).low;
  first_bytes_ = region_at(0).bytes;
}

std::uint32_t* ObjectMap::entry_in_others(std::uintptr_t address) noexcept {
  std::uint32_t* entries = table_;
  for (unsigned number = 0; number < page_map.region_count(); ++number) {
    const PageMap::Region region = region_at(number);
    if (region.has(address)) return entries + (address - region.low) / Page::kBytes;
    entries += pages_of(region);
  }
  return nullptr;
}

/// The Page of an address, made if there is none. @returns nullptr outside the memory regions and if there is no room.
Page* ObjectMap::page_for(std::uintptr_t address) noexcept {
  std::uint32_t* const entry = entry_of(address);
  if (entry == nullptr) return nullptr;
  const std::uint32_t number = *entry & kNumber;
  if (number == kMissing) return nullptr;
  if (number != 0 && (*entry & kInside) == 0) return pages_ + number - 1;
  if (count_ == room_) {
    ++missing_;
    *entry |= kMissing;
    return nullptr;
  }
  Page* const page = new (pages_ + count_++) Page{};
  page->start = address & ~(Page::kBytes - 1);
  if ((*entry & kInside) != 0) page->before = pages_ + number - 1;  // damage: an object within an object
  *entry = (*entry & kContainers) | static_cast<std::uint32_t>(count_);
  return page;
}

void ObjectMap::enter_anywhere(std::uintptr_t start, std::uintptr_t end, Traceable* owner, Page::Kind kind) noexcept {
  Page* const first = page_for(start);
  latest_ = first != nullptr && end - first->start < Page::kBytes ? first : nullptr;
  if (first == nullptr) return;
  const auto bit = static_cast<unsigned>((start - first->start) / Page::kGranule);
  Page::set(first->edges, bit);
  Page::set(first->live, bit);
  first->owner = owner;
  first->kind = kind;
  const std::uintptr_t last = end - end % Page::kBytes;  // the page with the end, or the end itself if that is a page's
                                                         // start
  for (std::uintptr_t at = first->start + Page::kBytes; at < last; at += Page::kBytes) {
    std::uint32_t* const entry = entry_of(at);
    if (entry == nullptr || (*entry & kNumber) != 0) continue;
    *entry |= kInside | static_cast<std::uint32_t>(first - pages_ + 1);
  }
  Page* const behind = end != last ? page_for(end) : nullptr;
  if (behind == nullptr) return;
  const auto edge = static_cast<unsigned>((end - behind->start + Page::kGranule - 1) / Page::kGranule);
  if (edge < Page::kBytes / Page::kGranule) Page::set(behind->edges, edge);
  if (behind != first) behind->before = first;
}

Place ObjectMap::find(std::uintptr_t address) noexcept {
  constexpr unsigned kLast = Page::kBytes / Page::kGranule - 1;
  const std::uint32_t* const entry = entry_of(address);
  if (entry == nullptr) return {};
  const std::uint32_t number = *entry & kNumber;
  if (number == 0 || number == kMissing) return {};
  Page* page = pages_ + number - 1;
  unsigned bit = kLast;
  if ((*entry & kInside) == 0) {
    bit = page->edge_at(static_cast<unsigned>(address % Page::kBytes / Page::kGranule));
    if (bit == Page::kNone) {
      page = page->before;
      if (page == nullptr) return {};
      bit = page->edge_at(kLast);
    }
  } else {
    bit = page->edge_at(kLast);
  }
  if (bit == Page::kNone || !Page::has(page->live, bit)) return {};
  return {page, bit};
}

std::uintptr_t ObjectMap::end_of(const Place& place) noexcept {
  const unsigned edge = place.page->edge_from(place.bit + 1);
  if (edge != Page::kNone) return place.page->start + edge * Page::kGranule;
  const auto inside = static_cast<std::uint32_t>(place.page - pages_ + 1);
  for (std::uintptr_t at = place.page->start + Page::kBytes;; at += Page::kBytes) {
    const std::uint32_t* const entry = entry_of(at);
    if (entry == nullptr) return at;
    const std::uint32_t number = *entry & kNumber;
    if ((*entry & kInside) != 0) {
      if (number != inside) return at;
      continue;
    }
    if (number == 0 || number == kMissing || pages_[number - 1].before != place.page) return at;
    const unsigned first = pages_[number - 1].edge_from(0);
    return first != Page::kNone ? at + first * Page::kGranule : at + Page::kBytes;
  }
}

Place ObjectMap::next_noted() noexcept {
  while (queue_ != nullptr) {
    Page* const page = queue_;
    for (unsigned word = 0; word < Page::kWords; ++word) {
      const std::size_t left = page->pending[word];
      if (left == 0) continue;
      page->pending[word] = left & (left - 1);
      return {page, word * kWordBits + lowest_bit(left)};
    }
    queue_ = page->next;
    page->is_queued = false;
  }
  return {};
}

}  // namespace qm::scan
