#pragma once
/// The quarantine of a cache: objects that were freed wait, poisoned, before they are used again. So a write after the
/// free damages no other object, and is found when the object leaves, by `verify`, or when it is given up.
///
///     free -> | newest | ... | oldest | -> checked -> magazine or slab
///
/// While a cache has a quarantine its state word has trace_state::kQuarantine: every free takes the slow path, and the
/// fast path has no test. Objects in quarantine are not in use: their records, call sites and events ended with the
/// free.
///
/// Invariants
/// - N1 An object is in quarantine at most once: a second free finds it there.
/// - N2 Nothing writes to an object in quarantine; its sum shows whether something did. Objects of no-touch caches have
///      no sum.
/// - N3 Under memory pressure, at the cache's limit and at its destroy every object leaves the quarantine.

#include <atomic>
#include <cstddef>
#include <cstdint>

#include <qm/detail/lock.hpp>

namespace qm {

class Cache;
namespace scan {
class Scanner;
}

/// A ring of entries, in which the entries of a hash bucket are chained. Every operation is O(1) under its lock, except
/// inspect(), which also reads an object.
class Quarantine {
 public:
  static constexpr std::uint32_t kMostObjects = 65535;

  struct Entry {
    void* object = nullptr;
    std::uint32_t freed_by = 0;  ///< stack of the free
    std::uint32_t sum = 0;       ///< of the object's bytes
    std::uint16_t head = 0;      ///< of the bucket with this entry's number: number of an entry + 1; 0: none
    std::uint16_t next = 0;      ///< in the bucket of this entry's object: the same
  };

  /// Objects that wait, and objects that have left. Any hart may call them, without the lock.
  [[nodiscard]] std::uint32_t held() const noexcept { return held_.load(std::memory_order_relaxed); }
  [[nodiscard]] std::uint32_t passed() const noexcept { return passed_.load(std::memory_order_relaxed); }
  /// The bound in bytes, as it was set; 0: the cache has no quarantine.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_.load(std::memory_order_relaxed); }

  /// Whether @p object waits. @param[out] entry a copy of its entry.
  [[nodiscard]] bool find(const void* object, Entry& entry) noexcept;

  enum class Put : std::uint8_t {
    kHeld,
    kFull,    ///< held, and @p fresh is now the entry of the oldest, which has left
    kTwice,   ///< it waits already: @p fresh is a copy of its entry
    kRefused  ///< there is no room at all
  };
  [[nodiscard]] Put put(Entry& fresh) noexcept;
  /// Takes the oldest. @returns false if there is none.
  [[nodiscard]] bool take(Entry& oldest) noexcept;

  /// Calls @p check(entry) for the entry at @p position from the oldest, under the lock. @returns false if there is
  /// none.
  template <class Check>
  bool inspect(std::uint32_t position, const Check& check) noexcept {
    const LockGuard hold(lock_);
    if (position >= held()) return false;
    check(at(position));
    return true;
  }

  /// Sets the zeroed table, for @p capacity objects of together at most @p bytes bytes. Precondition: shut, and empty.
  void adopt(Entry* entries, std::uint32_t capacity, std::size_t bytes) noexcept;
  /// Ends the room: put() refuses from now on.
  void shut() noexcept;
  [[nodiscard]] Entry* entries() const noexcept { return entries_; }
  [[nodiscard]] std::size_t table_bytes() const noexcept { return table_ * sizeof(Entry); }

 private:
  friend class scan::Scanner;
  [[nodiscard]] Entry& at(std::uint32_t position) noexcept {
    const std::uint32_t number = first_ + position;
    return entries_[number < table_ ? number : number - table_];
  }
  [[nodiscard]] std::uint16_t& bucket_of(const void* object) noexcept;
  [[nodiscard]] Entry* find_locked(const void* object) noexcept;
  Entry pop_locked() noexcept;

  Lock lock_;  // a leaf
  std::atomic<std::uint32_t> held_{0};
  std::atomic<std::uint32_t> passed_{0};
  std::uint32_t first_ = 0;  ///< number of the oldest entry
  std::uint32_t table_ = 0;  ///< entries of the table: objects that may wait
  std::atomic<std::size_t> bytes_{0};
  Entry* entries_ = nullptr;
};

namespace internal {
/// Functions that caches call once a cache has a quarantine. An image that never calls Cache::set_quarantine() does not
/// link them.
struct QuarantineCalls {
  /// Puts an object that its user frees. @returns the object to free instead, or nullptr.
  void* (*put)(Cache& cache, void* object) noexcept;
  /// Frees all objects that wait. @returns how many.
  std::size_t (*give_up)(Cache& cache) noexcept;
  void (*end)(Cache& cache) noexcept;
};
extern constinit std::atomic<const QuarantineCalls*> quarantine_calls;
}  // namespace internal

}  // namespace qm
