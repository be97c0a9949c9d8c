#pragma once
/// The numbers of the results of commands and of the protocol's errors. They are part of docs/protocol.md; the meaning
/// of a number never changes.

#include <cstdint>
#include <string_view>

namespace qm::wire {

/// The result of a command: the first field of a status frame.
enum class CommandStatus : std::uint32_t {
  kOk = 0,
  kFailed = 1,          ///< the command ran and failed; its text ends in a line `error: ...`
  kUsage = 2,           ///< wrong or extra arguments; nothing was done
  kUnknownCommand = 3,  ///< no such command; nothing was done
  kAborted = 4,         ///< Ctrl-C ended it early
  kBusy = 5,            ///< it cannot run now, because another command of its kind is running; nothing was done
};

/// Flags of a status frame; bits without a name are 0.
enum StatusFlag : std::uint32_t {
  kOutputDropped = 1u << 0,  ///< part of the command's output was not sent
};

/// Why no command ran: the first field of an error frame.
enum class ProtocolError : std::uint16_t {
  kVersion = 1,      ///< the frame's version is not supported; the error frame has the supported version
  kDamaged = 2,      ///< a frame arrived broken; its request is not known, so the error's request is 0
  kTooLong = 3,      ///< the payload is longer than the receiver accepts
  kUnknownType = 4,  ///< the type is not defined in this version
  kMalformed = 5,    ///< the payload is not valid for its type: a control character in a command, a missing field
  kBusy = 6,         ///< another request is waiting; send the next one after its answer
};

/// @returns the word for @p status, or "unknown status".
constexpr std::string_view name(CommandStatus status) noexcept {
  switch (status) {
    case CommandStatus::kOk: return "ok";
    case CommandStatus::kFailed: return "failed";
    case CommandStatus::kUsage: return "usage";
    case CommandStatus::kUnknownCommand: return "unknown command";
    case CommandStatus::kAborted: return "aborted";
    case CommandStatus::kBusy: return "busy";
  }
  return "unknown status";
}

/// @returns the text for @p error in an error frame, or "unknown error".
constexpr std::string_view name(ProtocolError error) noexcept {
  switch (error) {
    case ProtocolError::kVersion: return "protocol version 2 is spoken here";
    case ProtocolError::kDamaged: return "a frame arrived broken";
    case ProtocolError::kTooLong: return "the payload is too long";
    case ProtocolError::kUnknownType: return "unknown frame type";
    case ProtocolError::kMalformed: return "the payload is malformed";
    case ProtocolError::kBusy: return "another request is waiting";
  }
  return "unknown error";
}

}  // namespace qm::wire
