#pragma once
/// `qm sweep`: runs commands repeatedly, fails another allocation in each run, and reports the outcomes.

#include <string>
#include <vector>

#include <qm/host/target.hpp>

#include "commands.hpp"

namespace qm::tool {

struct SweepOptions {
  host::QemuOptions qemu;
  std::string serial;  ///< a line to attach to instead of booting
  unsigned baud = 115200;
  std::vector<std::string> commands;
  /// pattern of the caches whose allocations fail; empty: all caches that the commands allocate from, unless `arenas` or
  /// `internal` is set
  std::string caches;
  std::string arenas;     ///< pattern of the arenas whose segments and blocks fail
  bool internal = false;  ///< all that the allocator takes on slow paths fails, too
  unsigned most = 1000;   ///< most allocations to fail in each source, one in each run
  Answers answers = Answers::kText;
  host::TargetTimeouts timeouts;
};

/// For each cache or other source and each N, the N-th allocation fails; in further runs, the N-th and all later ones. N rises until a
/// run has no N-th allocation.
/// @returns kOk iff every run succeeded or ended with an error that a command reported; kCommandFailed if a run leaked,
///          damaged the heap, hung or crashed; kTargetFailed if the commands fail or leak without an injected failure,
///          or the target is not available.
int sweep(const SweepOptions& options);

}  // namespace qm::tool
