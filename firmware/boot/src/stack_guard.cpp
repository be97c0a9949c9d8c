#include "hart_state.hpp"

#include <qm/firmware/boot.hpp>

namespace qm::firmware {
namespace {
constexpr auto kGuardWord = static_cast<std::uintptr_t>(0x51'6d'67'75'61'72'64'21);  // "Qmguard!"
constexpr std::size_t kGuardWords = kStackGuardBytes / sizeof(std::uintptr_t);
}  // namespace

void paint_guard(const hal::StackBounds& stack) noexcept {
  auto* const words = reinterpret_cast<std::uintptr_t*>(stack.low);
  for (std::size_t i = 0; i < kGuardWords; ++i) words[i] = kGuardWord;
}

bool guard_intact(const hal::StackBounds& stack) noexcept {
  const auto* const words = reinterpret_cast<const std::uintptr_t*>(stack.low);
  return words[0] == kGuardWord && words[kGuardWords - 1] == kGuardWord;
}

void check_stack(const HartState& hart, std::uintptr_t sp) noexcept {
  const hal::StackBounds& stack = hart.current->stack;
  if (sp >= stack.low + kStackGuardBytes && sp <= stack.high && guard_intact(stack)) return;
  panic("stack overflow");
}

}  // namespace qm::firmware

namespace qm::hal {

StackBounds platform_stack_bounds(std::uintptr_t frame) noexcept {
  // A frame pointer is the address just above its frame, so the stack's high end is a valid frame pointer and its low
  // end is not.
  const auto has = [frame](const StackBounds& stack) { return frame > stack.low && frame <= stack.high; };
  const firmware::HartState& hart = firmware::this_hart();
  if (has(hart.current->stack)) return hart.current->stack;
  if (has(hart.trap_stack)) return hart.trap_stack;
  if (has(hart.boot_stack)) return hart.boot_stack;
  return {};
}

}  // namespace qm::hal
