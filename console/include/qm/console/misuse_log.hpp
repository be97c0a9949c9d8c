#pragma once
/// Reports of misuse on their way to the console: taken from any hart and any interrupt level, printed by the console's
/// task, which alone may look names up.

#include <array>
#include <cstdint>

#include <qm/lock.hpp>
#include <qm/misuse.hpp>
#include <qm/registry.hpp>

namespace qm::console {

class MisuseLog {
 public:
  static constexpr unsigned kReports = 8;

  /// A report, with the names of the caches, which may be gone when it is printed.
  struct Entry {
    MisuseReport report;
    char cache[kNameBytes] = {};
    char owner[kNameBytes] = {};  ///< empty: none
  };

  /// Keeps a copy of @p report. @returns false if there is no room: it is counted as lost.
  /// Complexity: O(1), under a lock with interrupts masked. Context: any.
  bool add(const MisuseReport& report) noexcept;

  /// Takes the oldest report. @returns false if there is none.
  bool take(Entry& entry) noexcept;

  /// @returns the reports lost since the last call.
  [[nodiscard]] std::uint32_t take_lost() noexcept;

  /// Whether take() or take_lost() has something.
  [[nodiscard]] bool pending() noexcept;

 private:
  Lock lock_;
  std::array<Entry, kReports> ring_;
  std::uint32_t head_ = 0;  // free-running
  std::uint32_t tail_ = 0;
  std::uint32_t lost_ = 0;
};

}  // namespace qm::console
