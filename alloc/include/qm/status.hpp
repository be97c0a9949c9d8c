#pragma once
/// What the allocator answers where nullptr does not say enough.

#include <cstdint>

#include <qm/hal/round.hpp>

namespace qm {

enum class Status : std::uint8_t {
  kOk,
  /// An argument that can never be right: size 0, an alignment that is no power of two, an overflow, a bad name.
  kInvalid,
  kDuplicate,  ///< the name is taken
  kOverlap,    ///< the range overlaps what the arena has
  kNoMemory,   ///< the source cannot supply it
  kBusy,       ///< still in use: nothing was freed
  kNotFound,   ///< nothing of that description: an address that is not allocated, a name that does not exist
  kMismatch,   ///< the address is known, with another size or in another cache
  kTimedOut,   ///< a hart did not answer in time
  kUnsafe,     ///< the caller's context does not allow it (interrupt handler, lock held, interrupts masked, panic)
  kRefused,    ///< the object's flags forbid it, as tracing a no-trace cache
  kAborted,    ///< the caller's abort test said so
};

/// What a round's answer is called here.
constexpr Status status_of(hal::RoundStatus answer) noexcept {
  switch (answer) {
    case hal::RoundStatus::kDone: return Status::kOk;
    case hal::RoundStatus::kTimedOut: return Status::kTimedOut;
    case hal::RoundStatus::kAborted: return Status::kAborted;
    case hal::RoundStatus::kUnsafe: break;
  }
  return Status::kUnsafe;
}

}  // namespace qm
