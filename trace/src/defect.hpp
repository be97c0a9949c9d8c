#pragma once
/// Defects put into the commands on purpose, so that the test of their exactness can show that it sees them. Only that
/// test compiles anything but kNone.

namespace qm::trace {

enum class Defect : unsigned {
  kNone,
  kOnePhaseStart,      ///< start records as each hart closes
  kEarlyReopening,     ///< stop lets the watch end before every hart has answered
  kNoAcknowledgement,  ///< start, stop and reset do not wait for the harts
};

#if defined(QM_TRACE_DEFECT)
inline constexpr Defect kDefect{QM_TRACE_DEFECT};
#else
inline constexpr Defect kDefect = Defect::kNone;
#endif

}  // namespace qm::trace
