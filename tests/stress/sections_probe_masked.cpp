#include "sections_probe.hpp"

#include <qm/rewind.hpp>

namespace probe {
namespace {
std::uint32_t interrupts;
}
bool rewinding = true;
void reset() noexcept { interrupts = 0; }
std::uint32_t inside(Form) noexcept { return interrupts; }
std::uint32_t at_count(Form) noexcept { return interrupts; }
unsigned missed(Form, void (*)(unsigned), unsigned) noexcept { return 0; }
}  // namespace probe

extern "C" std::uintptr_t __wrap_qm_rewind(std::uintptr_t pc, const std::uintptr_t*) noexcept {
  ++probe::interrupts;
  return pc;
}
