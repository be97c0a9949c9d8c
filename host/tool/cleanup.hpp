#pragma once
/// Undoes, even when a signal ends the program, the changes of the terminal's mode, a QEMU and its directory.
/// Destructors do it on every other path. A signal handler cannot run destructors, so it uses the copies kept here.

#include <signal.h>
#include <termios.h>

#include <qm/host/qemu.hpp>

namespace qm::tool {

/// Handles every signal that would end the program. SIGPIPE is ignored: writes report the error.
void install_signal_handlers();

/// A signal restores @p mode on standard input; nullptr: it restores nothing.
void remember_terminal(const termios* mode);

/// Blocks signals during its lifetime.
class SignalsHeld {
 public:
  SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld();

 private:
  sigset_t before_;
};

/// A signal kills @p qemu and removes its directory; nullptr: it kills nothing.
void remember_qemu(const host::Qemu* qemu);

}  // namespace qm::tool
