#include <qm/system.hpp>

#include <qm/arena.hpp>
#include <qm/bits.hpp>
#include <qm/cache.hpp>
#include <qm/heap.hpp>
#include <qm/page_map.hpp>
#include <qm/qm.h>

#include "tag.hpp"

namespace qm {
namespace {

/// Tags that have to be there before there are pages to make some of.
constexpr std::size_t kFirstTags = 6;

bool ready = false;
constinit Arena base;

/// Enters a range: its bytes of the page map, tags behind them up to the next page, and the rest for `base`.
Status enter(const MemoryRange& range, std::size_t least_pages) noexcept {
  std::uintptr_t end = 0;
  if (__builtin_add_overflow(range.start, range.size, &end)) return Status::kInvalid;
  const std::uintptr_t low = round_up(range.start, PageMap::kPageBytes);
  end = round_down(end, PageMap::kPageBytes);
  if (low == 0 || low >= end || (end - low) / PageMap::kPageBytes < least_pages) return Status::kInvalid;
  const std::uintptr_t first_tag = round_up(low + (end - low) / PageMap::kPageBytes, alignof(ArenaTag));
  const std::uintptr_t start = round_up(first_tag + kFirstTags * sizeof(ArenaTag), PageMap::kPageBytes);
  const Status status = page_map.add_bank(low, end);
  if (status != Status::kOk) return status;
  Arena::give_tags(reinterpret_cast<void*>(first_tag), start - first_tag);
  return base.add(start, end - start);
}

}  // namespace

Status initialize(std::span<const MemoryRange> memory, unsigned harts) noexcept {
  if (ready) return Status::kBusy;
  if (memory.empty() || harts == 0 || harts > hal::Port::kMaxHarts) return Status::kInvalid;
  page_map.reset();
  Arena::set_tag_source(nullptr);
  base.reset();
  Status status = base.initialize({.name = "base"});
  std::size_t least_pages = 16;
  for (const MemoryRange& range : memory) {
    if (status == Status::kOk) status = enter(range, least_pages);
    least_pages = 2;
  }
  Arena::set_tag_source(&base);
  if (status == Status::kOk) status = internal::initialize_caches();
  if (status == Status::kOk) status = heap::initialize();
  ready = status == Status::kOk;
  return status;
}

Status add_memory(const MemoryRange& range) noexcept { return ready ? enter(range, 2) : Status::kInvalid; }

void shutdown() noexcept {
  ready = false;
  heap::shutdown();
}

Arena& base_arena() noexcept { return base; }

}  // namespace qm

qm_arena* qm_base_arena() noexcept { return qm::ready ? &qm::base_arena() : nullptr; }
qm_arena* qm_page_arena() noexcept { return qm_base_arena(); }
