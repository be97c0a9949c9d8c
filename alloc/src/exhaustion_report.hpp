#pragma once
/// The report of a failure: when one is due, and what it says.

#include <qm/exhaustion.hpp>

namespace qm::exhaustion {

enum class Deliver : std::uint8_t {
  kNow,
  kLater,  ///< by deliver_noted(): the caller has no time for it
};

/// Makes reports possible. An image that does not call it does not link what they are made with.
void enable_reports() noexcept;

/// Counts a failure, and reports it if a report is due.
void note_failure(const Want& want, Effort done, hal::HartMask silent, Deliver when,
                  const ExhaustionConfig& config) noexcept;

/// Delivers the report that a note_failure() has put off, if there is one.
void deliver_noted(const ExhaustionConfig& config) noexcept;

struct ReportCounts {
  std::uint32_t failures, atomic_failures, reports;
};
[[nodiscard]] ReportCounts report_counts() noexcept;
void reset_reports() noexcept;

}  // namespace qm::exhaustion
