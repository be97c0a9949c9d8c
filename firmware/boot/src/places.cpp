#include <qm/firmware/places.hpp>

#include "hart_state.hpp"
#include <qm/firmware/text.hpp>

namespace qm::firmware {
namespace {

bool contains(const hal::StackBounds& stack, std::uintptr_t address) noexcept {
  return address >= stack.low && address < stack.high;
}

/// Writes the owner of the stack that contains @p address. @returns false if no stack contains it.
bool describe_stack(std::uintptr_t address, Text& out) noexcept {
  if (describe_task_stack(address, out)) return true;
  for (unsigned hart = 0; hart < hart_states.size(); ++hart) {
    const HartState& state = hart_states[hart];
    const bool boots = contains(state.boot_stack, address);
    if (!boots && !contains(state.trap_stack, address)) continue;
    (out << (boots ? "the boot and idle" : "the trap") << " stack of hart ").decimal(hart);
    return true;
  }
  return false;
}

}  // namespace

std::size_t describe(std::uintptr_t address, std::span<char> text) noexcept {
  Text out(text);
  if (!describe_stack(address, out) && address >= reinterpret_cast<std::uintptr_t>(__image_start) &&
      address < __qm_symbols_start[0]) {
    out << "the image";
  }
  return out.length();
}

}  // namespace qm::firmware
