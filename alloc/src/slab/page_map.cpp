#include <qm/detail/page_map.hpp>

#include <cstddef>
#include <cstring>

#include <qm/arena.hpp>
#include <qm/detail/bits.hpp>
#include <qm/system.hpp>

#include "fastpath/sections.hpp"
#include "slab/upkeep.hpp"

namespace qm {

constinit const PageMap::Region PageMap::kNoRegion;
constinit PageMap::Leaf PageMap::none_;
constinit PageMap page_map;

namespace {

std::uintptr_t page_of_base() noexcept {
  return base_arena().allocate(PageMap::kPageBytes, Fit::kInstant, nullptr, WaitPolicy::kQuiet);
}

}  // namespace

Status PageMap::add_region(std::uintptr_t start, std::uintptr_t end) noexcept {
  static_assert(offsetof(PageMap, heads_) == 0 && kHeads == QM_PAGE_MAP_HEAD_COUNT &&
                offsetof(Leaf, number) == QM_LEAF_NUMBER && offsetof(Leaf, tags) == QM_LEAF_TAGS &&
                kLeafLog2 == QM_LEAF_LOG2);
  static_assert(kLeafBytes / kPageBytes == kPageBytes, "the tags of a leaf are a page");
  const unsigned count = region_count_.load(std::memory_order_relaxed);
  if (count == kMaxRegions) return Status::kNoMemory;
  const std::uintptr_t low = start & ~(kPageBytes - 1);
  regions_[count] = {low, end - low};
  region_count_.store(count + 1, std::memory_order_release);
  return Status::kOk;
}

void PageMap::drop_region() noexcept {
  store_relaxed(region_count_, region_count_.load(std::memory_order_relaxed) - 1);
}

bool PageMap::mark_in_new(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
  do {
    if (!add_leaf(start >> kLeafLog2)) return false;
  } while (!write(start, bytes, tag));
  return true;
}

void PageMap::clear(std::uintptr_t start, std::size_t bytes) noexcept { static_cast<void>(write(start, bytes, 0)); }

/// A page of zeros: the spare one or a new one. @returns 0 if there is no memory for it.
std::uintptr_t PageMap::clear_page() noexcept {
  std::uintptr_t page = spare_.exchange(0, std::memory_order_acquire);
  if (page == 0) page = page_of_base() | kHalf;
  if (page == kHalf) return 0;
  if ((page & kHalf) != 0) std::memset(reinterpret_cast<void*>(page - kHalf), 0, kPageBytes);
  return page & ~kHalf;
}

bool PageMap::prepares_next() const noexcept {
  std::size_t memory = 0;
  for (unsigned region = region_count_.load(std::memory_order_acquire); region != 0;)
    memory += regions_[--region].bytes;
  return kPrepares && !is_empty() && memory > kLeafBytes;
}

bool PageMap::prepare() noexcept {
  std::uintptr_t page = spare_.exchange(0, std::memory_order_acquire);  // no other hart has it now
  const bool is_due = page == 0 || (page & kHalf) != 0;
  if (page == 0) {
    page = page_of_base();
    if (page == 0) return false;
    std::memset(reinterpret_cast<void*>(page), 0, kPageBytes / 2);
    page |= kHalf;
  } else if (is_due) {
    page -= kHalf;
    std::memset(reinterpret_cast<void*>(page + kPageBytes / 2), 0, kPageBytes / 2);
  }
  std::uintptr_t none = 0;
  // release: pairs with the acquire in clear_page().
  if (!spare_.compare_exchange_strong(none, page, std::memory_order_release))
    static_cast<void>(base_arena().free(page & ~kHalf, kPageBytes));
  return is_due;
}

std::size_t PageMap::trim() noexcept {
  const std::uintptr_t page = spare_.exchange(0, std::memory_order_acquire);
  if (page == 0) return 0;
  static_cast<void>(base_arena().free(page & ~kHalf, kPageBytes));
  return kPageBytes;
}

/// Enters a page-map leaf without tags. @returns false if there is no memory for it.
bool PageMap::add_leaf(std::uintptr_t number) noexcept {
  const std::uintptr_t page = clear_page();
  if (page == 0) return false;
  if constexpr (kMagazines) upkeep::want_pages();
  {
    const LockGuard hold(lock_);
    if (find(number) == nullptr) {
      Leaf* leaf = fresh_.load(std::memory_order_relaxed);
      if (leaf == fresh_end_) {  // the page makes room for more leaves, and the caller calls again
        leaf = reinterpret_cast<Leaf*>(page);
        store_relaxed(fresh_, leaf);
        fresh_end_ = leaf + kPageBytes / sizeof(Leaf);
        return true;
      }
      store_relaxed(fresh_, leaf + 1);
      std::atomic<Leaf*>& head = heads_[number % kHeads].first;
      *leaf = {number, page - (number << kLeafLog2) / kPageBytes, head.load(std::memory_order_relaxed)};
      head.store(leaf, std::memory_order_release);  // pairs with the dependent loads of find() and of the section
      return true;
    }
  }
  static_cast<void>(base_arena().free(page, kPageBytes));  // another hart has entered the leaf
  return true;
}

void PageMap::reset() noexcept {
  region_count_.store(0, std::memory_order_relaxed);
  for (Head& head : heads_) head.first.store(&none_, std::memory_order_relaxed);
  store_relaxed(fresh_, first_leaves_);
  fresh_end_ = first_leaves_ + kFirstLeaves;
  spare_.store(0, std::memory_order_relaxed);
}

}  // namespace qm
