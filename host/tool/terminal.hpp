#pragma once
/// The user's terminal, attached to a target's console: keys go out as they are, text comes in, frames do not.

#include <termios.h>

#include <qm/host/target.hpp>

namespace qm::tool {

/// Standard input and output in raw mode, for as long as this lives.
class RawTerminal {
 public:
  /// @throws host::Error kOpen if standard input or output is no terminal.
  RawTerminal();
  RawTerminal(const RawTerminal&) = delete;
  RawTerminal& operator=(const RawTerminal&) = delete;
  ~RawTerminal();

 private:
  termios saved_{};
};

enum class Left {
  kByKey,     ///< Ctrl-A x, or the terminal's end
  kByTarget,  ///< the line was closed
};

/// Passes keys and text until the user leaves or the line closes.
/// @param[in] first how long the target may say nothing at all at the beginning; zero: for ever.
/// @throws host::Error kNoAnswer if it says nothing for that long, and whatever the line throws.
Left converse(host::Console& console, host::Milliseconds first);

}  // namespace qm::tool
