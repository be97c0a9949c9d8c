#pragma once
/// The commands of the trace, and the file that defines each.

#include "trace_text.hpp"

#include <qm/console/command.hpp>
#include <qm/console/query.hpp>

namespace qm::console::commands {

// marks.cpp
extern const Command expect;
extern const Command leaks;
extern const Command mark;
extern const Command marks;
// in the file with the command's name
extern const Command growth;
extern const Command kmausers;
extern const Command kmemtrace;
extern const Command slab_stacks;
extern const Command slab_trace;
extern const Command status;

/// Prints the report of slab_stacks on the caches and arenas that @p pattern names; on all if it is empty. In
/// slab_stacks.cpp. @param[in] before only records with a lower number count.
CommandStatus show_stacks(Invocation& call, std::string_view pattern, std::size_t top, Detail detail,
                          std::uint64_t before = UINT64_MAX) noexcept;

/// The arguments of slab_trace print, as flags of Takes.
inline constexpr unsigned kPrintTakes =
    Takes::kVerbose | Takes::kPattern | Takes::kOlder | Takes::kTop | Takes::kByStackSite | Takes::kAllSites;
/// Runs slab_trace print. In slab_trace_print.cpp.
CommandStatus print_outstanding(Invocation& call) noexcept;

}  // namespace qm::console::commands
