#include <qm/page_map.hpp>

#include <cstring>

namespace qm {

constinit PageMap page_map;

Status PageMap::add_bank(std::uintptr_t start, std::uintptr_t end) noexcept {
  const unsigned count = bank_count_.load(std::memory_order_relaxed);
  if (count == kMaxBanks) return Status::kNoMemory;
  for (unsigned i = 0; i != count; ++i) {
    if (start < banks_[i].end && banks_[i].low < end) return Status::kOverlap;
  }
  std::memset(reinterpret_cast<void*>(start), 0, (end - start) / kPageBytes);
  banks_[count] = {start, end};
  bank_count_.store(count + 1, std::memory_order_release);
  return Status::kOk;
}

std::uint8_t* PageMap::place_of(std::uintptr_t start, std::size_t bytes) const noexcept {
  // acquire: pairs with the release in add_bank().
  const Bank* const end = banks_ + bank_count_.load(std::memory_order_acquire);
  for (const Bank* bank = banks_; bank != end; ++bank) {
    if (start >= bank->low && start < bank->end && bytes <= bank->end - start)
      return reinterpret_cast<std::uint8_t*>(bank->low) + (start - bank->low) / kPageBytes;
  }
  return nullptr;
}

void PageMap::mark(std::uintptr_t start, std::size_t bytes) noexcept {
  std::uint8_t* const first = place_of(start, bytes);
  for (std::size_t page = 0; page != bytes / kPageBytes; ++page) first[page] = static_cast<std::uint8_t>(page + 1);
}

void PageMap::clear(std::uintptr_t start, std::size_t bytes) noexcept {
  std::memset(place_of(start, bytes), 0, bytes / kPageBytes);
}

std::uintptr_t PageMap::slab_of(std::uintptr_t address) const noexcept {
  const std::uint8_t* const place = place_of(address, 1);
  if (place == nullptr || *place == 0) return 0;
  return (address & ~(kPageBytes - 1)) - (*place - std::size_t{1}) * kPageBytes;
}

}  // namespace qm
