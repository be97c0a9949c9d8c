#pragma once
/// The blocks of an arena: the parts that arena_blocks.cpp and arena_block_spans.cpp share.

#include <qm/arena.hpp>
#include <qm/detail/call_sites.hpp>

#include "arena/arena_request.hpp"
#include "segments/blocks.hpp"
#include "segments/size_index.hpp"

namespace qm {

inline bool is_end_mark(const BlockHeader& header) noexcept { return header.is_sound() && header.bytes() == 0; }

inline bool is_all_of(const BlockHeader& block, const BoundaryTag& span) noexcept {
  return block.bytes() == span.size - Blocks::kSpanBytes;
}

/// Counts a newly allocated block, fills its note and charges it.
QM_ARENA_INLINE std::uintptr_t Arena::enter_block_locked(BlockHeader& block, const Request& request,
                                                         bool noted) noexcept {
  if (empty_span_ != nullptr && block.address() - empty_span_->start < empty_span_->size) empty_span_ = nullptr;
  const std::size_t bytes = block.bytes();
  store_relaxed(blocks_->held[request.kind], blocks_->held[request.kind] + 1);  // read without the lock
  if (noted) {
    block.note().set(request.site, 0);
    if constexpr (kCallSites) {
      if (charged_) block.note().site = call_sites::charge(request.site, bytes);
    }
  }
  ++counts_.allocations_ever;
  count_allocated_locked(bytes);
  return block.payload();
}

}  // namespace qm
