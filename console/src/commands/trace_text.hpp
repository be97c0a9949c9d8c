#pragma once
/// Trace records and call stacks as text: what slab_trace, whatis and reports of misuse share.

#include <qm/console/command.hpp>
#include <qm/trace/dump.hpp>

namespace qm::console {

enum class Detail : std::uint8_t { kPlain, kVerbose };

/// Prints a record as `slab_trace print` does: the line `Obj ...`, the frames, an empty line.
/// @param[in] detail kVerbose: size, age and number on the first line.
void print_record(Console& console, Output& out, const trace::DumpEntry& entry, Detail detail) noexcept;

/// Prints a stack on one line, innermost first: `packet_alloc+0x3a < rx_deliver+0x12 < ...`.
void print_stack_line(Console& console, Output& out, const trace::CallStack& stack) noexcept;

}  // namespace qm::console
