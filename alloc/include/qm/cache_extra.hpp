#pragma once
/// What few caches have: callbacks, a reserve. It lies apart, so that the others need no room for it.

#include <atomic>
#include <cstdint>

#include <qm/lock.hpp>
#include <qm/magazine.hpp>
#include <qm/registry.hpp>

namespace qm {

class Cache;

/// @returns false if the object could not be constructed: the allocation then follows the exhaustion path.
/// These two must not throw. Their types do not say so: they are those of C (qm_constructor, qm_destructor).
using Constructor = bool (*)(void* object, void* context);
using Destructor = void (*)(void* object, void* context);
/// Called when a cache's limit stands in the way of an allocation, after its idle objects were used. May free objects.
/// @returns true if the allocation should try once more. Context: as the allocation's.
using LimitCallback = bool (*)(Cache& cache, void* context) noexcept;

/// A number of objects that is kept ready: what no allocation but one that must not fail may have.
///
///     stocked_ -> | partly filled | full | full | ...        spare_ -> | empty | empty | ...
///
/// Every operation is O(1) under its lock.
class Reserve {
 public:
  /// Objects it lacks. Any hart may look, without the lock.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    const std::uint32_t promised = this->promised();
    const std::uint32_t held = this->held();
    return promised > held ? promised - held : 0;
  }
  /// Objects it should hold, and holds. Any hart may look, without the lock.
  [[nodiscard]] std::uint32_t promised() const noexcept { return promised_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  /// Takes an object; nullptr if there is none.
  [[nodiscard]] void* take() noexcept;
  /// Takes an object in. @returns false if none is missing.
  [[nodiscard]] bool put(void* object) noexcept;

  /// Adds an empty magazine.
  void add(Magazine* magazine) noexcept;
  /// Promises @p objects. Precondition: room() for them.
  void promise(std::uint32_t objects) noexcept;
  /// Takes an object beyond what is promised; nullptr if there is none.
  [[nodiscard]] void* take_surplus() noexcept;
  /// Takes an empty magazine that is not needed; nullptr if there is none.
  [[nodiscard]] Magazine* take_spare() noexcept;
  /// Whether it has @p object. Complexity: O(objects), under the lock: for the console.
  [[nodiscard]] bool holds(const void* object) noexcept;

  struct Stats {
    std::uint32_t promised = 0;
    std::uint32_t held = 0;
    std::uint32_t room = 0;  ///< slots of all magazines
  };
  [[nodiscard]] Stats stats() noexcept;

 private:
  void* take_locked() noexcept;
  void set_held_locked(std::uint32_t held) noexcept { store_relaxed(held_, held); }

  Lock lock_;
  std::atomic<std::uint32_t> promised_{0};  ///< written under the lock, as is the next
  std::atomic<std::uint32_t> held_{0};
  std::uint32_t room_ = 0;
  Magazine* stocked_ = nullptr;
  Magazine* spare_ = nullptr;
};

namespace internal {
/// What caches call once one has a reserve. An image that never calls Cache::reserve() does not link it.
struct ReserveCalls {
  bool (*put)(Reserve& reserve, void* object) noexcept;
  void* (*take)(Reserve& reserve) noexcept;
  bool (*replenish)(Cache& cache) noexcept;
  void (*end)(Cache& cache) noexcept;
};
extern constinit std::atomic<const ReserveCalls*> reserve_calls;
}  // namespace internal

/// Lies in a block of internal::allocate_block(), from the first that a cache needs of it to the cache's end.
struct CacheExtra {
  Constructor constructor = nullptr;  ///< these three from the cache's creation on
  Destructor destructor = nullptr;
  void* context = nullptr;
  std::atomic<LimitCallback> limit_callback{nullptr};
  Reserve reserve;
  char name[kNameBytes] = {};  ///< a quantum cache's, which nobody else keeps
};

}  // namespace qm
