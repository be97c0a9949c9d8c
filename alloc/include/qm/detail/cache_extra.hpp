#pragma once
/// Data that few caches have: callbacks, a reserve and a quarantine. It is allocated separately, so that other caches
/// need no room for it.

#include <atomic>
#include <cstdint>

#include <qm/detail/lock.hpp>
#include <qm/detail/magazine.hpp>
#include <qm/detail/quarantine.hpp>
#include <qm/registry.hpp>

namespace qm {

class Cache;
namespace scan {
class Scanner;
}

/// @returns false if the object could not be constructed: the allocation then continues as if memory were exhausted.
/// Constructor and Destructor must not throw. Their types do not say so, since they are the C types (qm_constructor,
/// qm_destructor).
using Constructor = bool (*)(void* object, void* context);
using Destructor = void (*)(void* object, void* context);
/// Called when a cache's limit prevents an allocation, after its idle objects were used. May free objects.
/// @returns true if the allocation should try once more. Context: as the allocation's.
using LimitCallback = bool (*)(Cache& cache, void* context) noexcept;

/// A number of objects that a cache keeps for allocations that must not fail; other allocations do not use them.
///
///     stocked_ -> | partly filled | full | full | ...        spare_ -> | empty | empty | ...
///
/// Every operation is O(1) under its lock.
class Reserve {
 public:
  /// Objects that the reserve lacks. Any hart may call it, without the lock.
  [[nodiscard]] std::uint32_t missing() const noexcept {
    const std::uint32_t promised = this->promised();
    const std::uint32_t held = this->held();
    return promised > held ? promised - held : 0;
  }
  /// promised(): objects that the reserve should hold; held(): objects that it holds. Any hart may call them, without
  /// the lock.
  [[nodiscard]] std::uint32_t promised() const noexcept { return promised_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  /// Takes an object; nullptr if there is none.
  [[nodiscard]] void* take() noexcept;
  /// Adds an object. @returns false if none is missing.
  [[nodiscard]] bool put(void* object) noexcept;

  /// Adds an empty magazine.
  void add(Magazine* magazine) noexcept;
  /// Sets the promised number to @p objects. Precondition: there are slots for them (Stats::room).
  void promise(std::uint32_t objects) noexcept;
  /// Takes an object above the promised number; nullptr if there is none.
  [[nodiscard]] void* take_surplus() noexcept;
  /// Takes an empty magazine that is not needed; nullptr if there is none.
  [[nodiscard]] Magazine* take_spare() noexcept;
  /// Whether the reserve contains @p object. Complexity: O(objects), under the lock: for the console.
  [[nodiscard]] bool holds(const void* object) noexcept;

  struct Stats {
    std::uint32_t promised = 0;
    std::uint32_t held = 0;
    std::uint32_t room = 0;  ///< slots of all magazines
  };
  [[nodiscard]] Stats stats() noexcept;

 private:
  friend class scan::Scanner;
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
/// Functions that caches call once a cache has a reserve. An image that never calls Cache::reserve() does not link
/// them.
struct ReserveCalls {
  bool (*put)(Reserve& reserve, void* object) noexcept;
  void* (*take)(Reserve& reserve) noexcept;
  bool (*replenish)(Cache& cache) noexcept;
  void (*end)(Cache& cache) noexcept;
};
extern constinit std::atomic<const ReserveCalls*> reserve_calls;
}  // namespace internal

/// Lies in a block of internal::allocate_block(), from the first need of the cache to the cache's destroy.
struct CacheExtra {
  Constructor constructor = nullptr;  ///< these three are set at the cache's creation
  Destructor destructor = nullptr;
  void* context = nullptr;
  std::atomic<LimitCallback> limit_callback{nullptr};
  Reserve reserve;
  std::atomic<Quarantine*> quarantine{nullptr};  ///< from the first Cache::set_quarantine() to the cache's destroy
  char name[kNameBytes] = {};                    ///< name of a quantum cache, which is stored only here
};

}  // namespace qm
