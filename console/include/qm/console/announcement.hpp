#pragma once
/// Text that the console's task prints without a command.

#include <qm/console/console.hpp>
#include <qm/console/output.hpp>

namespace qm::console {

/// Prints text of any length at once, on lines of its own, and then shows the line being typed again.
/// Context: the console's task, while no command runs. Any other context calls Console::notify().
class Announcement {
 public:
  explicit Announcement(Console& console) noexcept : console_(console) { console.begin_lines(); }
  ~Announcement() { console_.end_lines(); }
  Announcement(const Announcement&) = delete;
  Announcement& operator=(const Announcement&) = delete;
  [[nodiscard]] Output& out() noexcept { return console_.text_; }

 private:
  Console& console_;
};

}  // namespace qm::console
