#pragma once
/// The handler of faults of guarded objects: on the host a SIGSEGV handler, which a FaultHandler sets for its life. On
/// the target firmware/boot has it.

#include <cstdint>

#include <qm/config.h>
#include <qm/guards.hpp>

#if !defined(QM_TARGET)
#include <csignal>
#include <cstdlib>
#include <ucontext.h>
#endif

namespace qm::test {

#if !defined(QM_TARGET)
/// Whether reports have the access's pc and say whether it was a write.
#if defined(__x86_64__)
inline constexpr bool kKnowsAccess = true;
#else
inline constexpr bool kKnowsAccess = false;
#endif

class FaultHandler {
 public:
  FaultHandler() {
    struct sigaction action {};
    action.sa_sigaction = answer;
    action.sa_flags = SA_SIGINFO | SA_NODEFER;
    sigaction(SIGSEGV, &action, &former_);
  }
  ~FaultHandler() { sigaction(SIGSEGV, &former_, nullptr); }
  /// To be called by each thread: the first walk of a thread's stack allocates memory, which a handler may not.
  static void prepare_thread() noexcept { static_cast<void>(hal::Port::stack_bounds(0)); }
  FaultHandler(const FaultHandler&) = delete;
  FaultHandler& operator=(const FaultHandler&) = delete;

 private:
  static void answer(int, siginfo_t* info, [[maybe_unused]] void* context) {
    std::uintptr_t pc = 0, frame = 0;
    bool is_write = false;
#if defined(__x86_64__)
    const auto& registers = static_cast<ucontext_t*>(context)->uc_mcontext.gregs;
    pc = static_cast<std::uintptr_t>(registers[REG_RIP]);
    frame = static_cast<std::uintptr_t>(registers[REG_RBP]);
    is_write = (registers[REG_ERR] & 2) != 0;
#endif
    if (!guards::on_fault(reinterpret_cast<std::uintptr_t>(info->si_addr), is_write, pc, frame)) std::abort();
  }

  struct sigaction former_ {};
};
#else
inline constexpr bool kKnowsAccess = true;
struct FaultHandler {
  static void prepare_thread() noexcept {}
};
#endif

}  // namespace qm::test
