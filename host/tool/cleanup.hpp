#pragma once
/// What has to be undone even when a signal ends the program: the terminal's mode, a QEMU, its directory. Destructors
/// do it on every other path; a signal handler cannot run destructors, so it works on the copies kept here.

#include <signal.h>
#include <termios.h>

#include <qm/host/qemu.hpp>

namespace qm::tool {

/// Handles every signal that would end the program. SIGPIPE is ignored: writes report it.
void install_signal_handlers();

/// @p mode is restored on standard input by a signal; nullptr: nothing is.
void remember_terminal(const termios* mode);

/// While it lives signals wait.
class SignalsHeld {
 public:
  SignalsHeld();
  SignalsHeld(const SignalsHeld&) = delete;
  SignalsHeld& operator=(const SignalsHeld&) = delete;
  ~SignalsHeld();

 private:
  sigset_t before_;
};

/// @p qemu is killed and its directory removed by a signal; nullptr: nothing is.
void remember_qemu(const host::Qemu* qemu);

}  // namespace qm::tool
