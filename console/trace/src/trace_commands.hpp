#pragma once
/// The commands of the trace, by the file that has them.

#include "trace_text.hpp"

#include <qm/console/command.hpp>
#include <qm/console/query.hpp>

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

/// The report of slab_stacks, on what @p pattern names or, empty, on all. In slab_stacks.cpp.
/// @param[in] before if there, only of records with a lower number.
CommandStatus show_stacks(Invocation& call, std::string_view pattern, std::size_t top, Detail detail,
                          std::uint64_t before = UINT64_MAX) noexcept;

/// Of Takes, what slab_trace print takes.
inline constexpr unsigned kPrintTakes =
    Takes::kVerbose | Takes::kPattern | Takes::kOlder | Takes::kTop | Takes::kByStackSite | Takes::kAllSites;
/// slab_trace print. In slab_trace_print.cpp.
CommandStatus print_outstanding(Invocation& call) noexcept;

}  // namespace qm::console::commands
