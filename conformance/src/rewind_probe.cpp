/// A restartable section that is so long that it is certainly interrupted; its entry in the table has the form of
/// inline_sections.hpp.

#include "board.hpp"

extern "C" {
// The linker script's table of sections, if it has one.
extern const char __qm_sections_start[] __attribute__((weak));
extern const char __qm_sections_end[] __attribute__((weak));
}

namespace qm::conformance {

bool can_probe_rewind() noexcept { return &__qm_sections_start[0] != &__qm_sections_end[0]; }

/// Counts how often the section starts, and stays in it until it is released: an interrupt makes it start again.
[[gnu::noinline]] void stay_in_section(Desk& desk) noexcept {
  std::uint32_t left;
  // clang-format off
  asm volatile(".option push\n.option norvc\n"
               ".Lqm_start%=:\n"             //
               "  lw t0, 0(%[begun])\n"       //
               "  addi t0, t0, 1\n"           //
               "  sw t0, 0(%[begun])\n"       //
               "1:\n"                         //
               "  lw t0, 0(%[go])\n"          //
               "  beqz t0, 1b\n"              //
               ".Lqm_commit%=:\n"             //
               "  sw t0, 0(%[left])\n"        //
               ".Lqm_end%=:\n.option pop\n"
               ".pushsection qm_sections, \"ao\", @progbits, .Lqm_start%=\n"
               "  .balign 4\n"
               "  .4byte .Lqm_start%= - .\n"
               "  .2byte .Lqm_commit%= - .Lqm_start%=\n"
               "  .2byte .Lqm_end%= - .Lqm_start%=\n"
               ".popsection\n"
               :
               : [begun] "r"(&desk.begun), [go] "r"(&desk.go), [left] "r"(&left)
               : "t0", "memory");
  // clang-format on
}

}  // namespace qm::conformance
