#include <qm/console/command.hpp>

#include "commands/commands.hpp"

namespace qm::console {
namespace {

/// The console's own commands. They lie in the same section as the commands of the firmware, so one search finds both,
/// and the section always exists.
[[gnu::section("qm_commands"), gnu::used]] constinit const Command* const own_commands[] = {
    &commands::help,        &commands::version,         &commands::kmemstat,
    &commands::free_memory, &commands::arena_stats,     &commands::slab_stats,
    &commands::reap,        &commands::verify,          &commands::whatis,
    &commands::allocinfo,   &commands::fault_injection, &commands::frag,
    &commands::quarantine,
};

}  // namespace

// Names that the linker gives to the start and the end of the section.
extern "C" {
extern const Command* const __start_qm_commands[];  // NOLINT
extern const Command* const __stop_qm_commands[];   // NOLINT
}

const Command* CommandTable::find(std::string_view name) noexcept {
  for (const Command* const* entry = __start_qm_commands; entry != __stop_qm_commands; ++entry) {
    if (*entry != nullptr && (*entry)->name == name) return *entry;
  }
  return nullptr;
}

const Command* CommandTable::after(std::string_view name) noexcept {
  const Command* next = nullptr;
  for (const Command* const* entry = __start_qm_commands; entry != __stop_qm_commands; ++entry) {
    // Alignment may leave zeroes between the entries of two object files.
    if (*entry == nullptr || (*entry)->name <= name) continue;
    if (next == nullptr || (*entry)->name < next->name) next = *entry;
  }
  return next;
}

}  // namespace qm::console
