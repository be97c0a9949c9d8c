#pragma once
/// The report of a failure: when one is due, and what it says.

#include <qm/exhaustion.hpp>

namespace qm::exhaustion {

enum class Deliver : std::uint8_t {
  kNow,
  kLater,  ///< by deliver_noted(): the caller may not take the time
};

/// The functions that make reports. An image that does not call configure_exhaustion() does not link them.
struct ReportCalls {
  /// Reports a failure, the last of @p failures, if a report is due.
  void (*note)(const Request& request, WaitPolicy done, hal::HartMask silent, Deliver when, std::uint32_t failures,
               const ExhaustionConfig& config) noexcept;
  /// Delivers the report that note() deferred, if there is one.
  void (*deliver_noted)(std::uint32_t failures, const ExhaustionConfig& config) noexcept;
  std::uint32_t (*reports)() noexcept;
  void (*reset)() noexcept;
};

/// @param[in] failures so far, none of them reported.
[[nodiscard]] const ReportCalls* report_calls(std::uint32_t failures) noexcept;

}  // namespace qm::exhaustion
