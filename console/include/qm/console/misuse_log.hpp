#pragma once
/// Queues reports of misuse for the console. Any hart at any interrupt level adds a report. The console's task prints
/// it, because only that task may resolve symbols.

#include <array>
#include <cstdint>

#include <qm/detail/lock.hpp>
#include <qm/misuse.hpp>
#include <qm/registry.hpp>

namespace qm::console {

class MisuseLog {
 public:
  static constexpr unsigned kReports = 8;

  /// A report, with copies of the caches' names: the caches may have been destroyed when it is printed.
  struct Entry {
    MisuseReport report;
    char cache[kNameBytes] = {};
    char owner[kNameBytes] = {};  ///< empty: none
  };

  /// Keeps a copy of @p report. @returns false if there is no room; the report is then counted as lost.
  /// Complexity: O(1), under a lock with interrupts masked. Context: any.
  bool add(const MisuseReport& report) noexcept;

  /// Takes the oldest report. @returns false if there is none.
  bool take(Entry& entry) noexcept;

  /// @returns the reports lost since the last call.
  [[nodiscard]] std::uint32_t take_lost() noexcept;

  /// Whether take() has a report or take_lost() is not 0.
  [[nodiscard]] bool pending() noexcept;

 private:
  Lock lock_;
  std::array<Entry, kReports> ring_;
  std::uint32_t head_ = 0;  // free-running
  std::uint32_t tail_ = 0;
  std::uint32_t lost_ = 0;
};

}  // namespace qm::console
