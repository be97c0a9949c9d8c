#pragma once
/// `qm check`: is a capture whole, does it agree with itself, and with what the device counted?

#include <filesystem>

namespace qm::tool {

struct CheckOptions {
  std::filesystem::path file;
  std::filesystem::path image;  ///< the ELF file that it is to belong to; empty: any
  bool force = false;           ///< of another build id say so and go on
};

/// Prints what it finds. @returns kOk iff the capture is complete, and equal to the device's statistics number for
/// number; else kCommandFailed.
/// @throws host::Error kInput for files that cannot be read.
int check(const CheckOptions& options);

}  // namespace qm::tool
