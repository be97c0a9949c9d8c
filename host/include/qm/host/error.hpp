#pragma once
/// What goes wrong between a host and a target, as exceptions: a caller that can do something about one asks for its
/// fault, every other one prints what().

#include <chrono>
#include <stdexcept>
#include <string>

namespace qm::host {

using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::milliseconds;

enum class Fault {
  kUsage,        ///< an argument that cannot be right
  kOpen,         ///< the line, the image or the program cannot be opened or started
  kBusy,         ///< another program holds the line
  kNoAnswer,     ///< the target was never heard of
  kTimedOut,     ///< the target was heard of, and did not answer in time
  kDied,         ///< the line was closed, or the program that ran the target ended
  kProtocol,     ///< what arrived is not what docs/protocol.md says
  kVersion,      ///< the target speaks another version of the protocol
  kInterrupted,  ///< Transport::interrupt() was called
  kInput,        ///< a file is not there, or not what it should be
};

/// One clear message, fit to be printed after "error: ".
class Error : public std::runtime_error {
 public:
  Error(Fault fault, const std::string& message) : std::runtime_error(message), fault_(fault) {}
  [[nodiscard]] Fault fault() const noexcept { return fault_; }

 private:
  Fault fault_;
};

}  // namespace qm::host
