#include <qm/page_map.hpp>

#include <cstddef>
#include <cstring>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/system.hpp>

#include "sections.hpp"

namespace qm {

constinit const PageMap::Bank PageMap::kNoBank;
constinit PageMap::Leaf PageMap::none_;
constinit PageMap page_map;

namespace {

std::uintptr_t page_of_base() noexcept {
  return base_arena().allocate(PageMap::kPageBytes, Fit::kInstant, nullptr, Effort::kQuiet);
}

}  // namespace

Status PageMap::add_bank(std::uintptr_t start, std::uintptr_t end) noexcept {
  static_assert(offsetof(PageMap, heads_) == 0 && kHeads == QM_PAGE_MAP_HEAD_COUNT &&
                offsetof(Leaf, number) == QM_LEAF_NUMBER && offsetof(Leaf, tags) == QM_LEAF_TAGS &&
                kLeafLog2 == QM_LEAF_LOG2);
  static_assert(kLeafBytes / kPageBytes == kPageBytes, "the tags of a leaf are a page");
  const unsigned count = bank_count_.load(std::memory_order_relaxed);
  if (count == kMaxBanks) return Status::kNoMemory;
  const std::uintptr_t low = start & ~(kPageBytes - 1);
  banks_[count] = {low, end - low};
  bank_count_.store(count + 1, std::memory_order_release);
  return Status::kOk;
}

void PageMap::drop_bank() noexcept { store_relaxed(bank_count_, bank_count_.load(std::memory_order_relaxed) - 1); }

bool PageMap::mark_in_new(std::uintptr_t start, std::size_t bytes, std::uint8_t tag) noexcept {
  do {
    if (!add_leaf(start >> kLeafLog2)) return false;
  } while (!write(start, bytes, tag));
  return true;
}

void PageMap::clear(std::uintptr_t start, std::size_t bytes) noexcept { static_cast<void>(write(start, bytes, 0)); }

/// Enters a leaf without tags. @returns false if there is no memory for it.
bool PageMap::add_leaf(std::uintptr_t number) noexcept {
  const std::uintptr_t page = page_of_base();
  if (page == 0) return false;
  std::memset(reinterpret_cast<void*>(page), 0, kPageBytes);
  {
    const LockGuard hold(lock_);
    if (find(number) == nullptr) {
      if (fresh_ == fresh_end_) {  // the page serves for more of these, and the caller comes again
        fresh_ = reinterpret_cast<Leaf*>(page);
        fresh_end_ = fresh_ + kPageBytes / sizeof(Leaf);
        return true;
      }
      Leaf* const leaf = fresh_++;
      std::atomic<Leaf*>& head = heads_[number % kHeads].first;
      *leaf = {number, page - (number << kLeafLog2) / kPageBytes, head.load(std::memory_order_relaxed)};
      head.store(leaf, std::memory_order_release);  // pairs with the dependent loads of find() and of the section
      return true;
    }
  }
  static_cast<void>(base_arena().free(page, kPageBytes));  // another hart was faster
  return true;
}

void PageMap::reset() noexcept {
  bank_count_.store(0, std::memory_order_relaxed);
  for (Head& head : heads_) head.first.store(&none_, std::memory_order_relaxed);
  fresh_ = first_leaves_;
  fresh_end_ = first_leaves_ + kFirstLeaves;
}

}  // namespace qm
