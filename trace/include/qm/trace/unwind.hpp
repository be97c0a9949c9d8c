#pragma once
/// Call stacks, walked over frame records.
///
///     RISC-V:  fp -> | ...           |            x86-64:  fp -> | saved fp, return address |
///              -1w   | return address|
///              -2w   | saved fp      |
///
/// Where a plain walk goes wrong, and the remedy:
/// - A leaf function saves its fp where other functions save the return address. So a walk starts from the frame of a
///   function that calls another one: walk_here() is always inlined into such a function. All functions further out
///   have made a call, so none of them is a leaf.
/// - An interrupted leaf has no return address in its frame. The walk of an allocation ends before it (W3). The panic's
///   walk continues there; the platform supplies it, since only the platform knows its trap frames.
/// - Tail calls leave no frame. Traced builds use -fno-optimize-sibling-calls, except for those sources of the
///   allocator whose functions are meant to leave no frame (QM_JUMPS() in observer.hpp).
///
/// Invariants
/// - W1 Every frame that is read lies in the stack of the running context, is aligned to 16 bytes, and lies above the
///      previous one.
/// - W2 A walk that does not end at the outermost frame (return address or frame pointer 0) or at a trap sets
///      `truncated`.
/// - W3 The walk of an allocation stops at the trap entry: the interrupted code did not make the allocation.

#include <cstdint>

#include <qm/hal/port.hpp>

namespace qm::trace {

/// Frames stored of an allocation's stack, not counting the allocator's own.
inline constexpr unsigned kStackDepth = 24;

/// Addresses [low, high) of code.
struct TextRange {
  std::uintptr_t low = 0;
  std::uintptr_t high = 0;
  [[nodiscard]] constexpr bool contains(std::uintptr_t pc) const noexcept { return pc - low < high - low; }
};

/// Return addresses, innermost first. A return address is the one after its call: to find the call's line, look up the
/// address minus 1.
struct CallStack {
  unsigned depth = 0;
  bool truncated = false;
  std::uintptr_t pcs[kStackDepth];

  [[nodiscard]] bool full() const noexcept { return depth == kStackDepth; }
  [[nodiscard]] bool empty() const noexcept { return depth == 0; }
  void push(std::uintptr_t pc) noexcept { pcs[depth++] = pc; }
};

/// The code ranges that a walk uses. Ranges that the image does not define are empty.
struct WalkRanges {
  /// The range of valid return addresses: from __text_start or __executable_start to __text_end or etext. If the linker
  /// script defines neither symbol of a bound, that end is open.
  TextRange text{0, UINTPTR_MAX};
  TextRange traps;  ///< the trap entry: __trap_text_start, __trap_text_end
  /// The allocator and the trace, left out at the start of a stack: __qm_trace_text_start, __qm_trace_text_end.
  TextRange trace;
  /// A part of the text without `traps` and `trace`, which is tested first; or empty. Frames are stored as signed
  /// distances of 32 bits from its start, so it starts within the code, wherever the text starts.
  TextRange plain;
};

/// The linker's symbols of the image; 0: not defined.
struct ImageBounds {
  std::uintptr_t text_start = 0, text_end = 0;     ///< __text_start, __text_end
  std::uintptr_t executable_start = 0, etext = 0;  ///< the symbols of the same names
  std::uintptr_t within = 0;                       ///< an address in the code, for images that do not define a start
};
[[nodiscard]] WalkRanges ranges_between(const ImageBounds& bounds, TextRange traps, TextRange own) noexcept;
/// The image's ranges, from the linker's symbols.
[[nodiscard]] WalkRanges image_ranges() noexcept;

/// Frame records in the layout of the RISC-V ABI.
struct RiscvFrames {
  static constexpr std::uintptr_t kWord = sizeof(std::uintptr_t);
  static constexpr std::uintptr_t kBelow = 2 * kWord;  ///< bytes of a record below the frame pointer
  static constexpr std::uintptr_t kAbove = 0;          ///< and at or above the frame pointer
  static std::uintptr_t return_address(std::uintptr_t frame) noexcept { return word(frame - kWord); }
  static std::uintptr_t next(std::uintptr_t frame) noexcept { return word(frame - 2 * kWord); }
  static std::uintptr_t word(std::uintptr_t address) noexcept {
    return *reinterpret_cast<const std::uintptr_t*>(address);
  }
};

/// Frame records in the layout of the x86-64 and AArch64 ABIs.
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
/// @param[in,out] out a CallStack, or a class with the same functions; empty, and not truncated.
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
      shown = !out.empty() || !ranges.trace.contains(pc);
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

/// The frame pointer of the function that this is inlined into.
[[nodiscard, gnu::always_inline]] inline std::uintptr_t current_frame() noexcept {
  return reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0));
}

/// Makes the function that this is inlined into save its return address in its frame, even if it calls no function, so
/// that a walk may start there.
#if defined(__riscv)
[[gnu::always_inline]] inline void keep_return_address() noexcept { asm volatile("" : : : "ra"); }
#else
inline void keep_return_address() noexcept {}
#endif

/// One step of a walk: a return address, and the frame of the function that it returns to.
struct Link {
  std::uintptr_t pc = 0;
  std::uintptr_t frame = 0;
};

/// Walks the running context's stack from @p frame for an allocation: it leaves out the allocator's frames at the
/// start. If the port does not know the stack's bounds, the result is the first return address, truncated.
/// @param[in,out] out as for walk_frames(). Context: any, on the context that the frame belongs to.
template <class Stack>
void walk(std::uintptr_t frame, const WalkRanges& ranges, Stack& out) noexcept {
  const hal::StackBounds stack = hal::Port::stack_bounds(frame);
  if (stack.high != 0) return walk_frames<NativeFrames>(frame, stack, ranges, out);
  out.truncated = true;
  if (frame != 0 && frame % 16 == 0) out.push(NativeFrames::return_address(frame));
}
/// The same with the image's ranges.
void walk(std::uintptr_t frame, CallStack& out) noexcept;

/// Walks the stack of the function that this is inlined into; the first return address leads to its caller.
[[gnu::always_inline]] inline void walk_here(CallStack& out) noexcept { walk(current_frame(), out); }

}  // namespace qm::trace
