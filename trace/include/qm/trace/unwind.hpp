#pragma once
/// Call stacks, walked over frame records.
///
///     RISC-V:  fp -> | ...           |            x86-64:  fp -> | saved fp, return address |
///              -1w   | return address|
///              -2w   | saved fp      |
///
/// What a plain walk gets wrong, and what is done about it:
/// - A leaf function saves its fp where others save the return address. So a walk starts from the frame of a function
///   that calls it: walk_here() is always inlined into one. All frames above have called, so none of them is a leaf.
/// - An interrupted leaf has no return address in its frame. An allocation's walk ends before it (W3); the panic's
///   walk, which goes on there, is the platform's, since only it knows its trap frames.
/// - Tail calls vanish; traced builds use -fno-optimize-sibling-calls, but for sources of the allocator whose functions are
///   to vanish (QM_JUMPS() in observer.hpp).
///
/// Invariants
/// - W1 Every frame read lies in the stack of the running context, is aligned to 16 bytes, and lies above the one
///      before.
/// - W2 A walk that ends otherwise than at the outermost frame (return address or frame pointer 0) or at a trap says
///      so: `truncated`.
/// - W3 An allocation's walk stops at the trap entry: what was interrupted did not allocate.

#include <cstdint>

#include <qm/hal/port.hpp>

namespace qm::trace {

/// Frames kept of an allocation's stack, the allocator's own not counted.
inline constexpr unsigned kStackDepth = 24;

/// Addresses [low, high) of code.
struct TextRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  [[nodiscard]] constexpr bool contains(std::uintptr_t pc) const noexcept { return pc - low < high - low; }
};

/// Return addresses, innermost first. A return address lies behind its call: look up the one before it.
struct CallStack {
  unsigned depth = 0;
  bool truncated = false;
  std::uintptr_t pcs[kStackDepth];

  [[nodiscard]] bool full() const noexcept { return depth == kStackDepth; }
  [[nodiscard]] bool empty() const noexcept { return depth == 0; }
  void push(std::uintptr_t pc) noexcept { pcs[depth++] = pc; }
};

/// The code ranges that a walk looks at. Ranges the image does not define are empty.
struct WalkRanges {
  /// Where return addresses may lie: from __text_start or __executable_start to __text_end or etext; a bound of which
  /// the linker script defines neither name is open.
  TextRange text{0, UINTPTR_MAX};
  TextRange traps;  ///< the trap entry: __trap_text_start, __trap_text_end
  /// Allocator and books, not shown in front: __qm_books_text_start, __qm_books_text_end.
  TextRange books;
  /// A part of the text without traps and books, which is looked at first; or empty. Frames are kept as signed distances
  /// of 32 bits from its start, so it begins within the code wherever the text begins.
  TextRange plain;
};

/// What the linker says of the image; 0: it does not.
struct ImageBounds {
  std::uintptr_t text_start = 0, text_end = 0;     ///< __text_start, __text_end
  std::uintptr_t executable_start = 0, etext = 0;  ///< of the same name
  std::uintptr_t within = 0;                       ///< some address in the code, for a text without a start
};
[[nodiscard]] WalkRanges ranges_between(const ImageBounds& bounds, TextRange traps, TextRange own) noexcept;
/// The image's ranges, from the linker's symbols.
[[nodiscard]] WalkRanges image_ranges() noexcept;

/// Frame records as the RISC-V ABI has them.
struct RiscvFrames {
  static constexpr std::uintptr_t kWord = sizeof(std::uintptr_t);
  static constexpr std::uintptr_t kBelow = 2 * kWord;  ///< bytes of a record below the frame pointer
  static constexpr std::uintptr_t kAbove = 0;          ///< and at or above it
  static std::uintptr_t return_address(std::uintptr_t frame) noexcept { return word(frame - kWord); }
  static std::uintptr_t next(std::uintptr_t frame) noexcept { return word(frame - 2 * kWord); }
  static std::uintptr_t word(std::uintptr_t address) noexcept {
    return *reinterpret_cast<const std::uintptr_t*>(address);
  }
};

/// Frame records as the x86-64 and AArch64 ABIs have them.
struct PairFrames {
  static constexpr std::uintptr_t kWord = sizeof(std::uintptr_t);
  static constexpr std::uintptr_t kBelow = 0;
  static constexpr std::uintptr_t kAbove = 2 * kWord;
  static std::uintptr_t return_address(std::uintptr_t frame) noexcept { return RiscvFrames::word(frame + kWord); }
  static std::uintptr_t next(std::uintptr_t frame) noexcept { return RiscvFrames::word(frame); }
};

#if defined(__riscv)
using NativeFrames = RiscvFrames;
#else
using NativeFrames = PairFrames;
#endif

/// Walks from @p frame, the frame pointer of an allocator function, to the outermost frame or the trap entry.
/// @param[in,out] out a CallStack, or what takes return addresses as it does; empty, and not truncated.
/// Complexity: about 14 instructions a frame.
template <class Frames, class Stack>
[[gnu::always_inline]] inline void walk_frames(std::uintptr_t frame, hal::StackBounds stack, const WalkRanges& ranges,
                                               Stack& out) noexcept {
  if (frame == 0) return;
  out.truncated = true;
  if (frame % 16 != 0 || frame < stack.low + Frames::kBelow) return;
  const std::uintptr_t highest = stack.high - Frames::kAbove;
  if (frame > highest) return;
  do {
    const std::uintptr_t pc = Frames::return_address(frame);
    const std::uintptr_t next = Frames::next(frame);
    bool shown = true;
    if (!ranges.plain.contains(pc)) [[unlikely]] {
      out.truncated = pc != 0 && !ranges.traps.contains(pc);
      if (!out.truncated || !ranges.text.contains(pc)) return;
      shown = !out.empty() || !ranges.books.contains(pc);
    }
    if (shown) {
      if (out.full()) return;
      out.push(pc);
    }
    if (next <= frame || next % 16 != 0) {
      out.truncated = next != 0;
      return;
    }
    frame = next;
  } while (frame <= highest);
}

/// The frame pointer of the function this is inlined into.
[[nodiscard, gnu::always_inline]] inline std::uintptr_t current_frame() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

/// Makes the function this is inlined into keep its return address in its frame even if it calls nobody: so that a walk
/// may begin there.
#if defined(__riscv)
[[gnu::always_inline]] inline void keep_return_address() noexcept { asm volatile("" : : : "ra"); }
#else
inline void keep_return_address() noexcept {}
#endif

/// One step of a walk: a return address, and the frame of the function that it leads into.
struct Link {
  std::uintptr_t pc = 0;
  std::uintptr_t frame = 0;
};

/// Walks the running context's stack from @p frame as an allocation's: the leading frames of the allocator are left
/// out. Where the port does not know the stack, the result is the first return address, truncated.
/// @param[in,out] out as of walk_frames(). Context: any, on the context the frame belongs to.
template <class Stack>
void walk(std::uintptr_t frame, const WalkRanges& ranges, Stack& out) noexcept {
  const hal::StackBounds stack = hal::Port::stack_bounds(frame);
  if (stack.high != 0) return walk_frames<NativeFrames>(frame, stack, ranges, out);
  out.truncated = true;
  if (frame != 0 && frame % 16 == 0) out.push(NativeFrames::return_address(frame));
}
/// The same with the image's ranges.
void walk(std::uintptr_t frame, CallStack& out) noexcept;

/// The stack of the function this is inlined into, its caller first.
[[gnu::always_inline]] inline void walk_here(CallStack& out) noexcept { walk(current_frame(), out); }

}  // namespace qm::trace
