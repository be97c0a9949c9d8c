#pragma once
/// Reports of exhaustion on their way to the console: what holds the memory is looked up on the hart that had none
/// left, when it had none left; the console's task prints each report in one piece.

#include <array>
#include <atomic>
#include <cstdint>

#include <qm/call_sites.hpp>
#include <qm/console/books.hpp>
#include <qm/exhaustion.hpp>
#include <qm/lock.hpp>

namespace qm::console {

class ExhaustionLog {
 public:
  static constexpr unsigned kReports = 2;
  static constexpr unsigned kSites = 10;  ///< most call sites of one report

  /// A report, and the stacks that held the most then, of caches and of arenas that nothing else draws from.
  struct Entry {
    ExhaustionReport report;
    Books::Holders holders;
    std::array<call_sites::Row, kSites> sites{};  ///< those that hold the most, in a build with call sites
    unsigned site_count = 0;
    std::atomic<bool> whole{false};  ///< all of it is filled in
  };

  /// Keeps @p report and looks up what goes with it.
  /// @returns false if there is no room: it is counted as lost.
  /// Complexity: O(call sites), and Books::find_holders(). A lock for O(1).
  /// Context: of ExhaustionConfig::report. Allocates nothing.
  bool add(const ExhaustionReport& report, Books& books) noexcept;

  /// @returns the oldest report, until drop(); nullptr if there is none. Context: the console's task.
  [[nodiscard]] const Entry* oldest() const noexcept;
  void drop() noexcept;

  /// @returns the reports lost since the last call.
  [[nodiscard]] std::uint32_t take_lost() noexcept;

  /// Whether oldest() or take_lost() has something.
  [[nodiscard]] bool pending() noexcept;

 private:
  Entry* claim() noexcept;

  Lock lock_;  // guards what is claimed and lost
  std::array<Entry, kReports> ring_;
  std::uint32_t head_ = 0;  // free-running
  std::uint32_t tail_ = 0;
  std::uint32_t lost_ = 0;
};

}  // namespace qm::console
