#pragma once
/// `qm image`: the console's reports, made by GDB from a core or from raw memory of a target.

#include <optional>
#include <string>
#include <vector>

namespace qm::tool {

struct ImageOptions {
  std::string firmware;                              ///< the ELF file that ran, with debug information
  std::string memory;                                ///< a core; raw memory if `base` is set
  std::optional<std::string> base;                   ///< the address of the first byte of raw memory
  std::vector<std::string> reports = {"findleaks"};  ///< commands of host/gdb/quartermaster.py, without `qm`
};

/// Runs $QM_GDB, or gdb-multiarch, and prints what it prints.
/// @returns kOk; kCommandFailed if a report failed, for instance on damaged memory; kWrongUsage if a file or GDB is
///          missing.
int image(const ImageOptions& options);

}  // namespace qm::tool
