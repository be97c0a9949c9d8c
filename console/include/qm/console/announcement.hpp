#pragma once
/// What the console's task has to say of its own accord.

#include <qm/console/console.hpp>
#include <qm/console/output.hpp>

namespace qm::console {

/// Text on lines of its own, printed at once and in any length; the line being typed appears again behind it.
/// Context: the console's task, while no command runs. Everybody else tells Console::notify().
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
