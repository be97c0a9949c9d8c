#pragma once
/// `qm check`: is a capture complete and consistent, and does it agree with the device's counters?

#include <filesystem>

namespace qm::tool {

struct CheckOptions {
  std::filesystem::path file;
  std::filesystem::path image;  ///< the ELF file that the capture should belong to; empty: any
  bool force = false;           ///< if the build id differs, say so and continue
};

/// Prints its findings. @returns kOk iff the capture is complete, and equal to the device's statistics number for
/// number; else kCommandFailed.
/// @throws host::Error kInput for files that cannot be read.
int check(const CheckOptions& options);

}  // namespace qm::tool
