#pragma once
/// Results of functions for which nullptr does not say enough.

#include <cstdint>

#include <qm/hal/broadcast.hpp>

namespace qm {

enum class Status : std::uint8_t {
  kOk,
  /// An argument that can never be right: size 0, an alignment that is no power of two, an overflow, a bad name.
  kInvalid,
  kDuplicate,  ///< the name is taken
  kOverlap,    ///< the range overlaps a range of the arena
  kNoMemory,   ///< the source cannot supply it
  kBusy,       ///< still in use: nothing was freed
  kNotFound,   ///< no allocated object or segment at that address, or no such name
  kMismatch,   ///< the address is allocated, but with another size or in another cache
  kTimedOut,   ///< a hart did not answer in time
  kUnsafe,     ///< the caller's context does not allow it (interrupt handler, lock held, interrupts masked, panic)
  kRefused,    ///< the object's flags or the build forbid it, for example tracing a no-trace cache
  kAborted,    ///< the caller's abort test returned true
};

/// The Status for the result of a broadcast.
constexpr Status status_of(hal::BroadcastStatus answer) noexcept {
  switch (answer) {
    case hal::BroadcastStatus::kDone: return Status::kOk;
    case hal::BroadcastStatus::kTimedOut: return Status::kTimedOut;
    case hal::BroadcastStatus::kAborted: return Status::kAborted;
    case hal::BroadcastStatus::kUnsafe: break;
  }
  return Status::kUnsafe;
}

}  // namespace qm
