#pragma once
/// Queues reports of exhaustion for the console. The hart whose allocation failed finds the holders of the memory at
/// that moment; the console's task prints each report in one piece later.

#include <array>
#include <atomic>
#include <cstdint>

#include <qm/detail/call_sites.hpp>
#include <qm/console/trace_backend.hpp>
#include <qm/exhaustion.hpp>
#include <qm/detail/lock.hpp>

namespace qm::console {

class ExhaustionLog {
 public:
  static constexpr unsigned kReports = 2;
  static constexpr unsigned kSites = 10;  ///< most call sites of one report

  /// A report, and the stacks that held the most when it was made. They are counted over caches, and over arenas that
  /// no cache or arena imports from.
  struct Entry {
    ExhaustionReport report;
    TraceBackend::Holders holders;
    std::array<call_sites::Row, kSites> sites{};  ///< the call sites that hold the most, in a build with call sites
    unsigned site_count = 0;
    std::atomic<bool> whole{false};  ///< the entry is complete; release in add(), acquire in oldest()
  };

  /// Keeps @p report, and finds the stacks and call sites that hold the most. Allocates nothing.
  /// @returns false if there is no room; the report is then counted as lost.
  /// Complexity: O(call sites), and that of TraceBackend::find_holders(). Holds a lock for O(1).
  /// Context: as ExhaustionConfig::report.
  bool add(const ExhaustionReport& report, TraceBackend& trace) noexcept;

  /// @returns the oldest report, which is valid until drop(); nullptr if there is none. Context: the console's task.
  [[nodiscard]] const Entry* oldest() const noexcept;
  void drop() noexcept;

  /// @returns the reports lost since the last call.
  [[nodiscard]] std::uint32_t take_lost() noexcept;

  /// Whether oldest() has a report or take_lost() is not 0.
  [[nodiscard]] bool pending() noexcept;

 private:
  Entry* claim() noexcept;

  Lock lock_;  // guards head_, tail_ and lost_
  std::array<Entry, kReports> ring_;
  std::uint32_t head_ = 0;  // free-running
  std::uint32_t tail_ = 0;
  std::uint32_t lost_ = 0;
};

}  // namespace qm::console
