#pragma once
/// Failures between a host and a target, as exceptions. A caller that can handle one of them checks its fault; every
/// other caller prints what().

#include <chrono>
#include <stdexcept>
#include <string>

namespace qm::host {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

enum class Fault {
  kUsage,        ///< an impossible argument
  kOpen,         ///< the line, the image or the program cannot be opened or started
  kBusy,         ///< another program holds the line
  kNoAnswer,     ///< the target has never answered
  kTimedOut,     ///< the target has answered before, but not in time
  kDied,         ///< the line was closed, or the program that ran the target ended
  kProtocol,     ///< the received data do not follow docs/protocol.md
  kVersion,      ///< the target speaks another version of the protocol
  kInterrupted,  ///< Transport::interrupt() was called
  kInput,        ///< a file does not exist, or has the wrong contents
};

/// One clear message, which can be printed after "error: ".
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

}  // namespace qm::host
