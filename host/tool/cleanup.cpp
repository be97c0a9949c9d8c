#include "cleanup.hpp"

#include <signal.h>
#include <sys/types.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstring>

namespace qm::tool {
namespace {

// The main thread writes these, and the handler reads them on the same thread. A flag is set last and makes the data
// valid.
termios saved_mode;
volatile sig_atomic_t mode_is_saved = 0;
pid_t child = -1;
char socket_path[256];
char log_path[256];
char directory_path[256];
volatile sig_atomic_t child_is_known = 0;

/// Async-signal-safe calls only.
void end_by_signal(int number) {
  if (mode_is_saved != 0) tcsetattr(STDIN_FILENO, TCSANOW, &saved_mode);
  if (child_is_known != 0) {
    kill(child, SIGKILL);
    unlink(socket_path);
    unlink(log_path);
    rmdir(directory_path);
  }
  signal(number, SIG_DFL);
  raise(number);
}

template <std::size_t size>
void copy(char (&to)[size], const std::string& from) {
  std::snprintf(to, size, "%s", from.c_str());
}

}  // namespace

void install_signal_handlers() {
  signal(SIGPIPE, SIG_IGN);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    struct sigaction action {};
    action.sa_handler = end_by_signal;
    action.sa_flags = static_cast<int>(SA_RESETHAND | SA_NODEFER);
    sigaction(number, &action, nullptr);
  }
}

void remember_terminal(const termios* mode) {
  mode_is_saved = 0;
  if (mode == nullptr) return;
  saved_mode = *mode;
  // release: the handler reads saved_mode only after it has seen mode_is_saved
  std::atomic_signal_fence(std::memory_order_release);
  mode_is_saved = 1;
}

SignalsHeld::SignalsHeld() {
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before_);
}

SignalsHeld::~SignalsHeld() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

void remember_qemu(const host::Qemu* qemu) {
  child_is_known = 0;
  if (qemu == nullptr) return;
  child = qemu->pid();
  copy(socket_path, qemu->socket().string());
  copy(log_path, (qemu->directory() / "qemu.log").string());
  copy(directory_path, qemu->directory().string());
  std::atomic_signal_fence(std::memory_order_release);  // release: as above, for the child
  child_is_known = 1;
}

}  // namespace qm::tool
