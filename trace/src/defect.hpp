#pragma once
/// Deliberate defects of the commands. With them the test of exactness shows that it detects such defects. Only that
/// test compiles any value but kNone.

namespace qm::trace {

enum class Defect : unsigned {
  kNone,
  kOnePhaseStart,      ///< start begins to record when each hart closes its per-hart cache
  kEarlyReopening,     ///< stop ends the watching before every hart has answered
  kNoAcknowledgement,  ///< start, stop and reset do not wait for the harts
};

#if defined(QM_TRACE_DEFECT)
inline constexpr Defect kDefect{QM_TRACE_DEFECT};
#else
inline constexpr Defect kDefect = Defect::kNone;
#endif

}  // namespace qm::trace
