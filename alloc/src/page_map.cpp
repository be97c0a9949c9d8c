#include <qm/page_map.hpp>

#include <cstddef>
#include <cstring>
#include <new>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/system.hpp>

#include "sections.hpp"

namespace qm {

constinit PageMap::Window PageMap::none_;
constinit PageMap page_map;

Status PageMap::add_bank(std::uintptr_t start, std::uintptr_t end) noexcept {
  static_assert(offsetof(PageMap, windows_) == 0 && offsetof(Window, low) == QM_WINDOW_LOW &&
                offsetof(Window, pages) == QM_WINDOW_PAGES && sizeof(Window) == QM_WINDOW_TAGS);
  for (Bank& bank : banks_) {
    if (bank.bytes != 0) continue;
    bank.low = start & ~(kPageBytes - 1);
    bank.bytes = end - bank.low;
    return Status::kOk;
  }
  return Status::kNoMemory;
}

bool PageMap::write(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
  const LockGuard hold(lock_);
  for (WindowPointer& window : windows_) {
    Window* at = window.at.load(std::memory_order_relaxed);
    const std::size_t first = (start - at->low) / kPageBytes;
    const std::size_t count = bytes / kPageBytes;
    if (first >= at->pages || count > at->pages - first) continue;
    for (std::size_t page = first; page != first + count; ++page) at->tags()[page].store(tag, std::memory_order_relaxed);
    return true;
  }
  return false;
}

bool PageMap::mark(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
  while (!write(start, bytes, tag)) {
    if (!grow(start, bytes)) return false;
  }
  return true;
}

void PageMap::clear(std::uintptr_t start, std::size_t bytes) noexcept { static_cast<void>(write(start, bytes, 0)); }

/// The window that is to grow over these pages, or the first that is none yet; nullptr if there are too many. Lock held.
/// @param[out] wanted the least it has to have.
PageMap::WindowPointer* PageMap::nearest(std::uintptr_t start, std::size_t bytes, Window& wanted) noexcept {
  for (WindowPointer& window : windows_) {
    const Window& at = *window.at.load(std::memory_order_relaxed);
    wanted = {start, bytes / kPageBytes};
    if (at.pages == 0) return &window;
    if (start < at.low) {
      wanted.pages = at.pages + (at.low - start) / kPageBytes;
    } else {
      wanted = {at.low, (start - at.low) / kPageBytes + bytes / kPageBytes};
      if (wanted.pages < at.pages) wanted.pages = at.pages;
    }
    if (wanted.pages - at.pages <= kMostHole) return &window;
  }
  return nullptr;
}

/// Makes a window that has these pages as well, more than twice as large as the one before.
/// @returns false if there is no memory for it.
bool PageMap::grow(std::uintptr_t start, std::size_t bytes) noexcept {
  Window wanted;
  std::size_t room = 0;
  {
    const LockGuard hold(lock_);
    const WindowPointer* window = nearest(start, bytes, wanted);
    if (window == nullptr) return false;
    room = round_up(sizeof(Window) + wanted.pages + window->at.load(std::memory_order_relaxed)->pages, kPageBytes);
  }
  const std::uintptr_t place = base_arena().allocate(room, Fit::kInstant, nullptr, Effort::kQuiet);
  if (place == 0) return false;
  auto* grown = new (reinterpret_cast<void*>(place)) Window{0, room - sizeof(Window)};
  std::memset(static_cast<void*>(grown->tags()), 0, grown->pages);
  if (!install(*grown, start, bytes)) static_cast<void>(base_arena().free(place, room));
  return true;
}

/// Puts a window, whose tags are clear, in the place of the nearest one, with its tags. @returns false if it is too small:
/// another hart was at it.
bool PageMap::install(Window& grown, std::uintptr_t start, std::size_t bytes) noexcept {
  const LockGuard hold(lock_);
  Window wanted;
  WindowPointer* window = nearest(start, bytes, wanted);
  if (window == nullptr || wanted.pages > grown.pages) return false;
  Window& old = *window->at.load(std::memory_order_relaxed);
  // Spare pages are where it grows to; of the first window on both sides, but not beyond the first and the last address.
  const std::size_t spare = grown.pages - wanted.pages;
  const std::size_t above = (std::uintptr_t{0} - (wanted.low + wanted.pages * kPageBytes)) / kPageBytes;
  std::size_t below = old.pages == 0 ? spare / 4 : wanted.low < old.low ? spare : 0;
  if (spare - below > above) below = spare - above;
  if (below > wanted.low / kPageBytes) below = wanted.low / kPageBytes;
  grown.low = wanted.low - below * kPageBytes;
  std::memcpy(static_cast<void*>(grown.tags() + (old.low - grown.low) / kPageBytes), static_cast<void*>(old.tags()), old.pages);
  window->at.store(&grown, std::memory_order_release);  // pairs with the acquire in tag(), and with the sections' dependent loads
  return true;
}

void PageMap::reset() noexcept {
  for (Bank& bank : banks_) bank = {};
  for (WindowPointer& window : windows_) window.at.store(&none_, std::memory_order_relaxed);
}

}  // namespace qm
