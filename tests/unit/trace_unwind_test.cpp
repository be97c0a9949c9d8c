// The walk over frame records, on stacks built by hand in both layouts, and once on the running stack.

#include <gtest/gtest.h>

#include <cstdint>

#include <qm/trace/unwind.hpp>

namespace trace_unwind_test {

using namespace qm;
using namespace qm::trace;

constexpr std::uintptr_t kText = 0x10000;

WalkRanges ranges() {
  WalkRanges all;
  all.text = {kText, kText + 0x10000};
  all.traps = {kText + 0x8000, kText + 0x8100};
  all.trace = {kText + 0x9000, kText + 0xa000};
  return all;
}

/// A stack of records, eight words for each, the innermost at the lowest address.
template <class Frames>
struct FakeStack {
  static constexpr unsigned kWords = 8;
  alignas(16) std::uintptr_t words[kWords * 40] = {};

  [[nodiscard]] hal::StackBounds bounds() const {
    const auto low = reinterpret_cast<std::uintptr_t>(words);
    return {low, low + sizeof words};
  }
  [[nodiscard]] std::uintptr_t frame(unsigned i) const {
    return reinterpret_cast<std::uintptr_t>(&words[kWords * i + 4]);
  }
  void set(unsigned i, std::uintptr_t pc, std::uintptr_t next) {
    const std::uintptr_t ra_at = frame(i) + (Frames::kAbove != 0 ? sizeof(std::uintptr_t) : 0 - sizeof(std::uintptr_t));
    const std::uintptr_t fp_at = frame(i) - (Frames::kAbove != 0 ? 0 : 2 * sizeof(std::uintptr_t));
    *reinterpret_cast<std::uintptr_t*>(ra_at) = pc;
    *reinterpret_cast<std::uintptr_t*>(fp_at) = next;
  }
  /// Makes @p count linked records, the last one outermost, with return addresses kText + 0x100, + 0x200, ...
  void chain(unsigned count) {
    for (unsigned i = 0; i < count; ++i) set(i, kText + 0x100 * (i + 1), i + 1 < count ? frame(i + 1) : 0);
  }
  CallStack walk(unsigned from = 0) {
    CallStack out;
    walk_frames<Frames>(frame(from), bounds(), ranges(), out);
    return out;
  }
};

template <class Frames>
void follows_the_chain() {
  FakeStack<Frames> stack;
  stack.chain(5);
  const CallStack found = stack.walk();
  ASSERT_EQ(found.depth, 5U);
  EXPECT_FALSE(found.truncated);
  for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(found.pcs[i], kText + 0x100 * (i + 1));
}
TEST(Unwind, follows_the_chain_in_the_riscv_layout) { follows_the_chain<RiscvFrames>(); }
TEST(Unwind, follows_the_chain_in_the_pair_layout) { follows_the_chain<PairFrames>(); }

TEST(Unwind, ends_untruncated_at_a_return_address_of_zero) {
  FakeStack<RiscvFrames> stack;
  stack.chain(3);
  stack.set(2, 0, stack.frame(3));
  const CallStack found = stack.walk();
  EXPECT_EQ(found.depth, 2U);
  EXPECT_FALSE(found.truncated);
}

TEST(Unwind, keeps_24_frames_and_says_that_there_were_more) {
  FakeStack<RiscvFrames> stack;
  stack.chain(kStackDepth);
  EXPECT_EQ(stack.walk().depth, kStackDepth);
  EXPECT_FALSE(stack.walk().truncated);
  stack.chain(kStackDepth + 1);
  EXPECT_EQ(stack.walk().depth, kStackDepth);
  EXPECT_TRUE(stack.walk().truncated);
}

TEST(Unwind, stops_at_a_trap_without_a_mark) {
  FakeStack<RiscvFrames> stack;
  stack.chain(6);
  stack.set(2, kText + 0x8010, stack.frame(3));  // a handler called from the trap entry
  const CallStack found = stack.walk();
  EXPECT_EQ(found.depth, 2U);
  EXPECT_FALSE(found.truncated);
}

TEST(Unwind, leaves_out_the_allocators_own_frames_in_front_only) {
  FakeStack<RiscvFrames> stack;
  stack.chain(6);
  stack.set(0, kText + 0x9010, stack.frame(1));
  stack.set(1, kText + 0x9ffe, stack.frame(2));
  stack.set(4, kText + 0x9020, stack.frame(5));  // a callback from inside the allocator
  const CallStack found = stack.walk();
  ASSERT_EQ(found.depth, 4U);
  EXPECT_EQ(found.pcs[0], kText + 0x300);
  EXPECT_EQ(found.pcs[2], kText + 0x9020);
}

TEST(Unwind, the_allocators_frames_do_not_count_for_the_depth) {
  FakeStack<RiscvFrames> stack;
  stack.chain(kStackDepth + 2);
  stack.set(0, kText + 0x9010, stack.frame(1));
  stack.set(1, kText + 0x9020, stack.frame(2));
  const CallStack found = stack.walk();
  EXPECT_EQ(found.depth, kStackDepth);
  EXPECT_FALSE(found.truncated);
}

template <class Frames>
void marks_a_bad_frame() {
  const std::uintptr_t bad_offsets[] = {8, 1};  // misaligned
  for (const std::uintptr_t offset : bad_offsets) {
    FakeStack<Frames> stack;
    stack.chain(4);
    stack.set(1, kText + 0x200, stack.frame(2) + offset);
    EXPECT_EQ(stack.walk().depth, 2U);
    EXPECT_TRUE(stack.walk().truncated);
  }
  FakeStack<Frames> stack;
  stack.chain(4);
  stack.set(2, kText + 0x300, stack.frame(2));  // to itself
  EXPECT_EQ(stack.walk().depth, 3U);
  EXPECT_TRUE(stack.walk().truncated);
  stack.set(2, kText + 0x300, stack.frame(0));  // back
  EXPECT_EQ(stack.walk().depth, 3U);
  EXPECT_TRUE(stack.walk().truncated);
  stack.set(2, kText + 0x300, stack.bounds().high + 16);  // outside of the stack
  EXPECT_EQ(stack.walk().depth, 3U);
  EXPECT_TRUE(stack.walk().truncated);
  stack.set(2, kText - 2, stack.frame(3));  // a return address outside the text
  EXPECT_EQ(stack.walk().depth, 2U);
  EXPECT_TRUE(stack.walk().truncated);
}
TEST(Unwind, marks_a_walk_that_ends_in_a_bad_frame_in_the_riscv_layout) { marks_a_bad_frame<RiscvFrames>(); }
TEST(Unwind, marks_a_walk_that_ends_in_a_bad_frame_in_the_pair_layout) { marks_a_bad_frame<PairFrames>(); }

TEST(Unwind, a_frame_lies_wholly_in_its_stack) {
  FakeStack<RiscvFrames> stack;
  stack.chain(1);
  const auto depth_with = [&](std::uintptr_t low, std::uintptr_t high) {
    CallStack out;
    walk_frames<RiscvFrames>(stack.frame(0), {low, high}, ranges(), out);
    EXPECT_EQ(out.truncated, out.depth == 0);
    return out.depth;
  };
  const std::uintptr_t frame = stack.frame(0);
  EXPECT_EQ(depth_with(frame - 2 * sizeof(void*), frame), 1U);
  EXPECT_EQ(depth_with(frame - 2 * sizeof(void*) + 1, frame), 0U);
  EXPECT_EQ(depth_with(frame - 2 * sizeof(void*), frame - 1), 0U);
}

TEST(Unwind, plain_text_changes_nothing_but_the_cost) {
  FakeStack<RiscvFrames> stack;
  stack.chain(6);
  stack.set(0, kText + 0x9010, stack.frame(1));  // a return address in the allocator
  WalkRanges known = ranges();
  CallStack without, with;
  walk_frames<RiscvFrames>(stack.frame(0), stack.bounds(), known, without);
  known.plain = {kText, kText + 0x400};  // contains a part of the chain
  walk_frames<RiscvFrames>(stack.frame(0), stack.bounds(), known, with);
  ASSERT_EQ(with.depth, without.depth);
  EXPECT_EQ(with.truncated, without.truncated);
  for (unsigned i = 0; i < with.depth; ++i) EXPECT_EQ(with.pcs[i], without.pcs[i]);
}

TEST(Unwind, the_images_plain_text_has_no_traps_and_no_trace) {
  const WalkRanges ranges = image_ranges();
  EXPECT_TRUE(ranges.text.contains(ranges.plain.low));
  EXPECT_EQ(ranges.plain.high, ranges.text.high);
  for (const TextRange& other : {ranges.traps, ranges.trace}) {
    EXPECT_TRUE(other.low == other.high || other.high <= ranges.plain.low);
  }
}

[[gnu::noinline]] void inner(CallStack& out) {
  walk_here(out);
  asm volatile("" : : : "memory");
}
[[gnu::noinline]] void outer(CallStack& out) {
  inner(out);
  asm volatile("" : : : "memory");  // keeps the call above from becoming a jump
}

// As with picolibc's own linker script, which defines only __text_end.
TEST(Unwind, takes_each_bound_of_the_text_for_itself_and_frames_count_from_within_the_code) {
  const std::uintptr_t start = static_cast<std::uintptr_t>(0x8000'0000), end = start + 0x2'0000;
  const std::uintptr_t within = start + 0x1'0000;
  const auto text = [&](const ImageBounds& bounds) { return ranges_between(bounds, {}, {}).text; };
  for (const ImageBounds& bounds : {
           ImageBounds{.text_start = start, .text_end = end, .executable_start = 0, .etext = 0, .within = within},
           ImageBounds{.text_start = 0, .text_end = end, .executable_start = 0, .etext = 0, .within = within},
           ImageBounds{.text_start = start, .text_end = 0, .executable_start = 0, .etext = end, .within = within},
           ImageBounds{.text_start = 0, .text_end = 0, .executable_start = start, .etext = end, .within = within},
           ImageBounds{.text_start = start, .text_end = 0, .executable_start = 0, .etext = 0, .within = within},
           ImageBounds{.text_start = 0, .text_end = 0, .executable_start = 0, .etext = 0, .within = within},
       }) {
    EXPECT_EQ(text(bounds).low, bounds.text_start + bounds.executable_start);
    EXPECT_EQ(text(bounds).high, bounds.text_end + bounds.etext != 0 ? end : UINTPTR_MAX);
    const WalkRanges ranges = ranges_between(bounds, {}, {});
    for (const std::uintptr_t pc : {start + 4, start + 0xfe80, within + 2, end - 2}) {
      EXPECT_TRUE(ranges.text.contains(pc));
      const auto kept = static_cast<std::uint32_t>(pc - ranges.plain.low);
      const auto distance = std::intptr_t{static_cast<std::int32_t>(kept)};
      EXPECT_EQ(ranges.plain.low + static_cast<std::uintptr_t>(distance), pc);
    }
  }
  const TextRange trace{within - 0x100, within + 0x800};
  const ImageBounds no_start{.text_start = 0, .text_end = end, .executable_start = 0, .etext = 0, .within = within};
  EXPECT_FALSE(ranges_between(no_start, {}, trace).plain.contains(within)) << "the trace's own text is not plain";
}

TEST(Unwind, sees_the_running_stack) {
  CallStack found;
  outer(found);
  ASSERT_GE(found.depth, 2U);
  const auto offset = [&](unsigned i, void (*function)(CallStack&)) {
    return found.pcs[i] - reinterpret_cast<std::uintptr_t>(function);
  };
  EXPECT_LT(offset(0, outer), 256U);  // inner was called from outer
  CallStack again;
  outer(again);
  EXPECT_EQ(again.pcs[0], found.pcs[0]);
  EXPECT_NE(again.pcs[1], found.pcs[1]);  // and outer was called from two places here
}

TEST(Unwind, of_a_stack_that_the_port_does_not_know_keeps_one_return_address_and_a_mark) {
  // Frame records of either layout, not on a stack.
  alignas(16) static std::uintptr_t words[8] = {0x1234, 0x1234, 0x1234, 0x1234, 0x1234, 0x1234, 0x1234, 0x1234};
  const auto frame = reinterpret_cast<std::uintptr_t>(&words[4]);
  CallStack found;
  walk(frame, found);
  EXPECT_TRUE(found.truncated);
  ASSERT_EQ(found.depth, 1U);
  EXPECT_EQ(found.pcs[0], 0x1234U);
  for (const std::uintptr_t bad : {std::uintptr_t{0}, frame + sizeof(std::uintptr_t)}) {
    walk(bad, found);
    EXPECT_TRUE(found.truncated);
    EXPECT_EQ(found.depth, 0U);
  }
}

}  // namespace trace_unwind_test
