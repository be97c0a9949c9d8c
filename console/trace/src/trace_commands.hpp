#pragma once
/// The commands of the trace, by the file that has them.

#include <qm/console/command.hpp>

namespace qm::console::commands {

// marks.cpp
extern const Command expect;
extern const Command leaks;
extern const Command mark;
extern const Command marks;
// in the files of their names
extern const Command growth;
extern const Command kmemtrace;
extern const Command slab_stacks;
extern const Command slab_trace;

}  // namespace qm::console::commands
