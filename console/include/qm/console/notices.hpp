#pragma once
/// Queues text for the console from any hart and any interrupt level. The console prints it when that disturbs no other
/// output.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include <qm/detail/lock.hpp>

namespace qm::console {

class Notices {
 public:
  static constexpr std::size_t kBytes = 1024;
  static constexpr std::size_t kMaxNotice = 256;  ///< characters of one add(); the rest is cut
  static constexpr std::size_t kMaxLine = 160;    ///< characters of a line; the rest is cut

  /// Adds @p text, one or more lines; a final line end is optional.
  /// @returns false if the text does not fit; then nothing is added, and its lines are counted as lost.
  /// Complexity: O(text), under a lock with interrupts masked. Context: any.
  bool add(std::string_view text) noexcept;

  /// Takes the oldest line, without its end. @returns its length; 0 if there is none. An empty line is skipped.
  [[nodiscard]] std::size_t take(std::span<char, kMaxLine> line) noexcept;

  /// @returns the notices lost since the last call.
  [[nodiscard]] std::uint32_t take_lost() noexcept;

  /// Whether take() has a line or take_lost() is not 0.
  [[nodiscard]] bool pending() noexcept;

 private:
  Lock lock_;
  std::array<char, kBytes> ring_;
  std::uint32_t head_ = 0;  // free-running
  std::uint32_t tail_ = 0;
  std::uint32_t lost_ = 0;
};

}  // namespace qm::console
