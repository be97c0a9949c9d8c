#pragma once
/// Whether the threads of a port that has some (hal::kThreads) are what the allocator takes them for. Run after
/// check_port(), with the allocator set up, every hart attached, and the scheduler at work:
///
///     one thread       check_threads({print, harts, threads})   -> true: they are
///     every other one  attend_thread_check()                    -> returns when the check is over
///
/// At least one thread more than there are harts, so that they move. All of them allocate meanwhile. A line a check, as
/// check_port().

#include <cstdint>
#include <string_view>

namespace qm::conformance {

struct ThreadCheck {
  void (*write)(std::string_view text) = nullptr;  ///< prints; called in the thread of check_threads()
  unsigned harts = 1;
  unsigned threads = 2;  ///< that take part, at most kMostThreads
  /// How long to wait for threads to come, and to have been on every hart.
  std::uint32_t wait_ms = 5000;
};

inline constexpr unsigned kMostThreads = 32;

/// Runs every check that the ones before it allow. On a port without threads there is none.
/// @returns whether none failed. Context: a thread, once at a time.
bool check_threads(const ThreadCheck& check) noexcept;

/// Does what is to be checked, until the check is over. Context: as check_threads(), in each further thread.
void attend_thread_check() noexcept;

}  // namespace qm::conformance
