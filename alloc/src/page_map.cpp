#include <qm/page_map.hpp>

#include <new>

namespace qm {

constinit PageMap page_map;

std::size_t PageMap::bits_bytes(std::uintptr_t start, std::uintptr_t end) noexcept {
  const std::size_t pages = (end - (start & ~(kPageBytes - 1)) + kPageBytes - 1) / kPageBytes;
  return (pages + 31) / 32 * sizeof(Word);
}

Status PageMap::add_bank(std::uintptr_t start, std::uintptr_t end, void* bits) noexcept {
  for (Bank& bank : banks_) {
    if (bank.bytes != 0) continue;
    bank.bits = static_cast<Word*>(bits);
    for (std::size_t i = 0; i < bits_bytes(start, end) / sizeof(Word); ++i) new (&bank.bits[i]) Word(0);
    bank.low = start & ~(kPageBytes - 1);
    bank.bytes = end - bank.low;
    return Status::kOk;
  }
  return Status::kNoMemory;
}

const PageMap::Bank* PageMap::find(std::uintptr_t start, std::size_t bytes) const noexcept {
  for (const Bank& bank : banks_) {
    const std::uintptr_t offset = start - bank.low;
    if (offset < bank.bytes && bytes <= bank.bytes - offset) return &bank;
  }
  return nullptr;
}

bool PageMap::mark(std::uintptr_t start, std::size_t bytes) noexcept {
  const Bank* bank = find(start, bytes);
  if (bank == nullptr) return false;
  for (std::uintptr_t offset = start - bank->low; bytes != 0; offset += kPageBytes, bytes -= kPageBytes) {
    word(*bank, offset).fetch_or(bit(offset), std::memory_order_relaxed);
  }
  return true;
}

void PageMap::clear(std::uintptr_t start, std::size_t bytes) noexcept {
  const Bank* bank = find(start, bytes);
  if (bank == nullptr) return;
  for (std::uintptr_t offset = start - bank->low; bytes != 0; offset += kPageBytes, bytes -= kPageBytes) {
    word(*bank, offset).fetch_and(~bit(offset), std::memory_order_relaxed);
  }
}

void PageMap::reset() noexcept {
  for (Bank& bank : banks_) bank = {};
}

}  // namespace qm
