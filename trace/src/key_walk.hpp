#pragma once
/// A stack walk that builds the key of the stack.

#include <cstdint>

#include <qm/trace/stack_depot.hpp>
#include <qm/trace/unwind.hpp>

namespace qm::trace {

/// Builds a key of the depot from a walk, and hashes it frame by frame. The key lies in another object, so that these
/// fields stay in registers.
struct KeyWalk {
  std::uint32_t* const begin;
  std::uint32_t* end;
  std::uint64_t hash = ContentHash::begin(0);
  std::uintptr_t base;
  bool truncated = false;

  KeyWalk(StackKey& key, std::uintptr_t text_base) noexcept : begin(key.frames), end(key.frames), base(text_base) {}
  [[nodiscard]] bool full() const noexcept { return end == begin + kStackDepth; }
  [[nodiscard]] bool empty() const noexcept { return end == begin; }
  void push(std::uintptr_t pc) noexcept {
    const std::uintptr_t distance = pc - base;
    *end++ = static_cast<std::uint32_t>(distance);
    hash = ContentHash::add_distance(hash, static_cast<std::intptr_t>(distance));
  }
  /// Completes @p key, into which the walk has written. @returns the id from the hash of its content.
  [[nodiscard]] std::uint32_t finish(StackKey& key, std::uint16_t owner) const noexcept {
    const auto depth = static_cast<unsigned>(end - begin);
    key.owner = owner;
    key.depth = static_cast<std::uint8_t>(depth);
    key.flags = truncated ? StackEntry::kTruncated : 0;
    *end = 0;
    return ContentHash::end(hash, depth, truncated);
  }
};
static_assert(kStackDepth < StackKey::kMostFrames);

}  // namespace qm::trace
