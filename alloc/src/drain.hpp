#pragma once
/// The drain: all idle memory back to the arenas.

#include <cstddef>

#include <qm/hal/hart.hpp>

namespace qm::exhaustion {

struct Drained {
  std::size_t objects = 0;   ///< moved from magazines and depots into slabs
  std::size_t bytes = 0;     ///< given back by caches and arenas, counted at each level
  hal::HartMask silent = 0;  ///< harts that did not answer
  bool shared = false;       ///< another hart did it
  [[nodiscard]] bool moved() const noexcept { return objects != 0 || bytes != 0; }
};

/// For its scope, what is allocated by this thread, or where the port has none on this hart, fails quietly (X4).
class Reclaiming {
 public:
  Reclaiming() noexcept : thread_(hal::thread_state()), before_(thread_.reclaiming) { thread_.reclaiming = true; }
  ~Reclaiming() { thread_.reclaiming = before_; }
  Reclaiming(const Reclaiming&) = delete;
  Reclaiming& operator=(const Reclaiming&) = delete;

 private:
  hal::ThreadState& thread_;
  bool before_;
};

/// Drains, or waits for a drain that begins from now on (X3). Where the context does not allow waiting, what other
/// harts have in magazines stays there.
/// Complexity: O(idle memory), in bounded steps. Context: no lock held.
Drained drain() noexcept;

/// Starts a drain without waiting: every other hart gives its magazines to the depots, the running one at once.
/// Context: any.
void post_drain() noexcept;

/// How long a hart is waited for.
void set_drain_deadline(std::uint32_t ms) noexcept;

struct DrainCounts {
  std::uint32_t drains, shared, rounds, posts, missed;
};
[[nodiscard]] DrainCounts drain_counts() noexcept;
void reset_drains() noexcept;

}  // namespace qm::exhaustion
