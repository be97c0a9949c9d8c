#pragma once
/// The user's terminal, attached to a target's console: it sends all keys unchanged, and shows text but not frames.

#include <termios.h>

#include <qm/host/target.hpp>

namespace qm::tool {

/// Puts standard input and output into raw mode during its lifetime.
class RawTerminal {
 public:
  /// @throws host::Error kOpen if standard input or output is not a terminal.
  RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

 private:
  termios saved_{};
};

enum class Left {
  kByKey,     ///< Ctrl-A x, or the end of the terminal's input
  kByTarget,  ///< the line was closed
};

/// Passes keys and text until the user leaves or the line closes.
/// @param[in] first longest time in which the target may send nothing at all at the beginning; zero: no limit.
/// @throws host::Error kNoAnswer if the target sends nothing for that long; also all errors of the line.
Left converse(host::Console& console, host::Milliseconds first);

}  // namespace qm::tool
