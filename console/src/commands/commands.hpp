#pragma once
/// The console's own commands, by the file that has them.

#include <qm/console/command.hpp>

namespace qm::console::commands {

// help.cpp
extern const Command help;
extern const Command version;

}  // namespace qm::console::commands
