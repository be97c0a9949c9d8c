#pragma once
/// The drain: returns all idle memory to the arenas.

#include <cstddef>

#include <qm/hal/hart.hpp>

namespace qm::exhaustion {

struct Drained {
  std::size_t objects = 0;   ///< moved from magazines and depots into slabs
  std::size_t bytes = 0;     ///< given back by caches and arenas, counted at each level
  hal::HartMask silent = 0;  ///< harts that did not answer
  bool shared = false;       ///< another hart's drain served this one
  [[nodiscard]] bool moved() const noexcept { return objects != 0 || bytes != 0; }
};

/// For its scope, allocations of this thread, or of this hart if the port has no threads, fail quietly (X4).
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

/// Drains, or waits for a drain that begins after this call (X3). If the context does not allow waiting, the magazines
/// of other harts keep their objects.
/// Complexity: O(idle memory), in bounded steps. Context: no lock held.
Drained drain() noexcept;

/// Starts a drain without waiting: the running hart gives its magazines to the depots at once, each other hart when it
/// serves the post.
/// Context: any.
void post_drain() noexcept;

/// Sets how long a drain waits for a hart, in milliseconds.
void set_drain_deadline(std::uint32_t ms) noexcept;

struct DrainCounts {
  std::uint32_t drains, shared, broadcasts, posts, missed;
};
[[nodiscard]] DrainCounts drain_counts() noexcept;
void reset_drains() noexcept;

}  // namespace qm::exhaustion
