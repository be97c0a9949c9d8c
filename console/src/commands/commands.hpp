#pragma once
/// The console's own commands, and the file that defines each.

#include <qm/console/command.hpp>

namespace qm::console::commands {

// help.cpp
extern const Command help;
extern const Command version;
// free.cpp
extern const Command free_memory;
// fault.cpp
extern const Command fault_injection;
// in the file with the command's name
extern const Command allocinfo;
extern const Command arena_stats;
extern const Command frag;
extern const Command kmemstat;
extern const Command quarantine;
extern const Command reap;
extern const Command slab_stats;
extern const Command verify;
extern const Command whatis;

/// Prints the report of kmemstat -v. In kmemstat_tree.cpp.
CommandStatus show_tree(Invocation& call) noexcept;

}  // namespace qm::console::commands
