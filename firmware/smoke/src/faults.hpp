#pragma once
/// Faults by name: each must stop the system with a report and a failing status.

#include <string_view>

namespace qm::smoke {

/// Runs fault @p name. @returns only if there is no such fault.
void run_fault(std::string_view name);

}  // namespace qm::smoke
