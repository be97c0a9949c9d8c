#pragma once
/// The commands of the trace, by the file that has them.

#include "trace_text.hpp"

#include <qm/console/command.hpp>

namespace qm::console::commands {

// marks.cpp
extern const Command expect;
extern const Command leaks;
extern const Command mark;
extern const Command marks;
// in the files of their names
extern const Command growth;
extern const Command kmausers;
extern const Command kmemtrace;
extern const Command slab_stacks;
extern const Command slab_trace;
extern const Command status;

inline constexpr std::uint32_t kAllStacks = ~std::uint32_t{0};
/// The report of slab_stacks, on what @p pattern names or, empty, on all. In slab_stacks.cpp.
CommandStatus show_stacks(Invocation& call, std::string_view pattern, std::uint32_t top, Detail detail) noexcept;

}  // namespace qm::console::commands
