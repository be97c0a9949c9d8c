#pragma once
/// The test whether the threads of a port with threads (hal::kThreads) behave as the allocator assumes. Run it after
/// check_port(), with the allocator set up, every hart attached, and the scheduler running:
///
///     one thread         check_threads({print, harts, threads})   -> true: they do
///     every other thread attend_thread_check()                    -> returns when the check is over
///
/// There must be at least one more thread than harts, so that threads move. All of them allocate during the check. Each
/// check prints a line, as in check_port().

#include <cstdint>
#include <string_view>

namespace qm::conformance {

struct ThreadCheck {
  void (*write)(std::string_view text) = nullptr;  ///< prints; called in the thread that runs check_threads()
  unsigned harts = 1;
  unsigned threads = 2;  ///< number of threads that take part, at most kMostThreads
  /// How long to wait for the threads to arrive, and for each to have run on every hart, in milliseconds.
  std::uint32_t wait_ms = 5000;
};

inline constexpr unsigned kMostThreads = 32;

/// Runs every check that the earlier results allow; on a port without threads none.
/// @returns whether none failed. Context: a thread, one check at a time.
bool check_threads(const ThreadCheck& check) noexcept;

/// Takes part in the check until it is over. Context: as check_threads(), in each further thread.
void attend_thread_check() noexcept;

}  // namespace qm::conformance
