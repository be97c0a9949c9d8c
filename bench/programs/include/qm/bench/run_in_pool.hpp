#pragma once
/// One run of a program in one pool.

#include <cstddef>
#include <cstdint>

#include <qm/replay/replay.hpp>

#include <qm/bench/program.hpp>

namespace qm::bench {

/// The end of a program's run in a pool.
enum class Ending : int { kThrough, kNoMemory, kRefused, kDamaged };

/// An allocator in a replay. Sizes are at least one byte for every allocator.
template <class Allocator>
struct RamFace {
  static inline bool out_of_memory = false;
  static void* told(void* block) noexcept {
    if (block == nullptr) out_of_memory = true;
    return block;
  }
  static std::size_t at_least_one(std::size_t size) noexcept { return size != 0 ? size : 1; }
  static void* allocate(std::size_t size) noexcept { return told(Allocator::allocate(at_least_one(size))); }
  static void* reallocate(void* block, std::size_t size) noexcept {
    return told(Allocator::reallocate(block, at_least_one(size)));
  }
  static void free(void* block) noexcept { Allocator::free(block); }
  template <class Ready>
  static void wait(const Ready&) noexcept {}
  static void wake(std::uint32_t) noexcept {}
};

/// Runs the program on the allocator, whose only memory is the pool; blocks are filled and verified. Stops when an
/// allocation fails.
/// @param[in] slots memory for script.slots slots of the replay
template <class Allocator>
Ending run_in_pool(const Script& script, void* slots, void* pool, std::size_t bytes) noexcept {
  using Face = RamFace<Allocator>;
  if (!Allocator::start(pool, bytes)) return Ending::kRefused;
  Face::out_of_memory = false;
  replay::Header header;
  header.slots = script.slots;
  replay::Replay<Face> replay(header, script.operations, slots);
  replay.work(0, 1, [] { return !Face::out_of_memory; });
  if (replay.result().broken != 0) return Ending::kDamaged;
  return Face::out_of_memory ? Ending::kNoMemory : Ending::kThrough;
}

}  // namespace qm::bench
