#pragma once
/// The stack depot stores each distinct (owner, call stack) once. It is append-only, and a look-up takes no lock.
///
///     directory: | region 0 -> | region 1 -> | ...      a region: memory for entries, in the order in which they come
///     region:    | - | entry: snapshots count id children owner,depth,flags | frame 0 | frame 1 | ... | 0 or 4 bytes | entry ...
///
/// A handle is a place in units of 8 bytes: region * kRegionUnits + the distance from the region's start. The entries
/// are the nodes of a tree that only grows: at each node two bits of the id, from the lowest on, select the child. So
/// no table has to be sized for the largest number of stacks. Memory is added one region at a time, and the first
/// region is small.
///
/// A record holds a handle. Reports and streams show the entry's id: a hash of the frames' link-time offsets, the depth
/// and the truncation mark, so a stack has the same id in every boot of an image. The entries of several owners
/// (caches) for one stack share the id. A report counts a stack's live objects over the records; for objects without
/// records the entry keeps the count.
///
/// Invariants
/// - D1 An entry's key (id, owner, depth, flags, frames) never changes once the root or a child names the entry. A
///      child never changes once set.
/// - D2 Entries with equal ids have equal stacks: if the hashes of two stacks collide, the later stack gets its hash
///      with the next salt, is marked kCollided and counted. Every look-up tries the salts in the same order.
/// - D3 An entry lies on the path of its id; of several entries with one id the oldest comes first.
/// - D4 Ids below kFirstId and handles below kFirstHandle do not stand for a stack.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include <qm/detail/bits.hpp>
#include <qm/detail/page_map.hpp>

namespace qm::trace {

/// The place of an entry. Fits in 22 bits.
using StackHandle = std::uint32_t;
inline constexpr StackHandle kNoStack = 0;        ///< no stack
inline constexpr StackHandle kStackNoMemory = 1;  ///< the depot was full
inline constexpr StackHandle kFirstHandle = 2;
inline constexpr unsigned kStackHandleBits = 22;

/// The key that tells stacks apart, in words of 8 bytes. An entry holds its key from `owner` on.
struct alignas(8) StackKey {
  static constexpr unsigned kMostFrames = 31;
  std::uint16_t owner;
  std::uint8_t depth;
  std::uint8_t flags;
  std::uint32_t frames[kMostFrames];  ///< the word behind the last frame is 0 if it completes 8 bytes
  /// Words of a key of @p depth frames.
  static constexpr unsigned words(unsigned depth) noexcept { return depth / 2 + 1; }
};
static_assert(sizeof(StackKey) == 8 * StackKey::words(StackKey::kMostFrames));

/// Ids below this are sentinels; a sentinel handle's id is the handle.
inline constexpr std::uint32_t kFirstId = 16;

struct StackEntry {
  static constexpr std::uint8_t kTruncated = 0x80;  ///< the sign bit, so a test is one branch
  static constexpr std::uint8_t kCollided = 1;
  /// Repeated here for debuggers: debug information has all constants of a class, but only those constants of a
  /// namespace that are used.
  static constexpr unsigned kHandleBits = kStackHandleBits;
  static constexpr StackHandle kFirst = kFirstHandle;
  static constexpr std::size_t kHandleUnit = 8;  ///< the unit of a handle in bytes
  /// The value of snapshot_objects in an entry that is not part of the last report.
  static constexpr std::uint32_t kUnreported = 0x8000'0000;

  std::atomic<std::uint32_t> snapshot_objects{kUnreported};  ///< for a report, see stack_report.hpp
  std::atomic<std::uint32_t> snapshot_bytes{0};
  std::atomic<std::uint32_t> counted{0};  ///< live objects without a record, because their cache keeps only counts
  std::uint32_t id = 0;
  std::atomic<StackHandle> children[4] = {};
  std::uint16_t owner = 0;
  std::uint8_t depth = 0;
  std::uint8_t flags = 0;

  [[nodiscard]] std::uint32_t* frames() noexcept { return reinterpret_cast<std::uint32_t*>(this + 1); }
  [[nodiscard]] const std::uint32_t* frames() const noexcept {
    return reinterpret_cast<const std::uint32_t*>(this + 1);
  }
  [[nodiscard]] bool truncated() const noexcept { return static_cast<std::int8_t>(flags) < 0; }

  /// Bytes of an entry of @p depth frames.
  static constexpr std::size_t bytes(unsigned depth) noexcept {
    return (sizeof(StackEntry) + 4 * std::size_t{depth} + 7) & ~std::size_t{7};
  }
};
static_assert(sizeof(StackEntry) == 36 && offsetof(StackEntry, owner) == 32);  // the key begins at a multiple of 8

/// The hash of a stack's content: the upper half of a 64-bit multiplicative hash. A stack walk can compute it frame by
/// frame.
struct ContentHash {
  static constexpr std::uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;
  static constexpr std::uint64_t begin(std::uint32_t salt) noexcept { return kFactor + (std::uint64_t{salt} << 32); }
  /// @param[in] distance of a frame, between -2^31 and 2^31.
  static constexpr std::uint64_t add_distance(std::uint64_t hash, std::int64_t distance) noexcept {
    return (hash ^ static_cast<std::uint64_t>(distance)) * kFactor;
  }
  static constexpr std::uint64_t add(std::uint64_t hash, std::uint32_t frame) noexcept {
    return add_distance(hash, static_cast<std::int32_t>(frame));
  }
  static constexpr std::uint32_t end(std::uint64_t hash, std::size_t depth, bool truncated) noexcept {
    return static_cast<std::uint32_t>(add(hash, static_cast<std::uint32_t>(depth << 1 | (truncated ? 1 : 0))) >> 32);
  }
  static std::uint32_t id(std::span<const std::uint32_t> frames, bool truncated, std::uint32_t salt) noexcept {
    std::uint64_t hash = begin(salt);
    for (const std::uint32_t frame : frames) hash = add(hash, frame);
    return end(hash, frames.size(), truncated);
  }
};

struct StackDepotStats {
  std::size_t capacity_bytes = 0;  ///< in all regions
  std::size_t used_bytes = 0;      ///< by entries
  std::uint32_t entries = 0;
  std::uint32_t collisions = 0;  ///< entries marked kCollided
  std::uint32_t failures = 0;    ///< look-ups that ended in kStackNoMemory
};

/// @tparam Hash computes the id of a stack; tests use one with fewer ids.
template <class Hash>
class BasicStackDepot {
 public:
  constexpr BasicStackDepot() noexcept = default;

  static constexpr unsigned kRegionLog2 = PageMap::kPageBytes == 4096 ? 10 : 7;
  static constexpr std::uint32_t kRegionUnits = 1U << kRegionLog2;  ///< of 8 bytes
  static constexpr std::size_t kRegionBytes = std::size_t{kRegionUnits} * 8;
  /// Bytes of region 0. It is small, so that the depot needs little memory at first.
  static constexpr std::size_t kFirstBytes = 512;
  static constexpr std::size_t kMostBytes = StackEntry::bytes(StackKey::kMostFrames);  ///< largest entry
  static_assert(kFirstBytes >= kMostBytes + 8 * kFirstHandle && kRegionBytes >= kFirstBytes);

  /// A region's start, minus 8 * the first handle in it, plus 1; 0: the region has no memory yet.
  using Region = std::atomic<std::uintptr_t>;

  /// The number of regions, which is the number of directory entries, of a depot of @p bytes, 256 bytes to 32 MiB.
  static constexpr std::size_t regions_for(std::size_t bytes) noexcept {
    return bytes <= kFirstBytes ? 1 : 1 + (bytes - kFirstBytes + kRegionBytes - 1) / kRegionBytes;
  }

  /// Starts empty, without memory.
  /// @param[in] directory regions_for(bytes) entries.
  /// @param[in] bytes     size of all regions. A last region too small for an entry is not used, nor is memory beyond
  ///                      the reach of a handle of 22 bits.
  /// Context: before the depot is in use.
  void initialize(std::span<Region> directory, std::size_t bytes) noexcept {
    for (Region& region : directory) new (&region) Region(0);
    directory_ = directory.data();
    bytes_ = bytes;
    regions_ = static_cast<std::uint32_t>(directory.size());
    if (regions_ > 1U << (kStackHandleBits - kRegionLog2)) regions_ = 1U << (kStackHandleBits - kRegionLog2);
    while (regions_ > 1 && region_bytes(regions_ - 1) < kMostBytes) --regions_;
    root_.store(kNoStack, std::memory_order_relaxed);
    end_.store(kFirstHandle, std::memory_order_relaxed);
    used_.store(0, std::memory_order_relaxed);
    entries_.store(0, std::memory_order_relaxed);
    collisions_.store(0, std::memory_order_relaxed);
    failures_.store(0, std::memory_order_relaxed);
  }

  /// Returns to the state before initialize(). Context: nobody uses the depot.
  void forget() noexcept { initialize({}, 0); }

  /// The next region that needs memory when a stack does not fit. @returns regions() if all regions have memory.
  /// Context: any, as the next three.
  [[nodiscard]] std::uint32_t next_region() const noexcept {
    const std::uint32_t region = end_.load(std::memory_order_relaxed) >> kRegionLog2;
    return region < regions_ && has_region(region) ? region + 1 : region;
  }
  [[nodiscard]] std::uint32_t regions() const noexcept { return regions_; }
  [[nodiscard]] bool has_region(std::uint32_t region) const noexcept {
    // acquire: pairs with the release in add_region(): the region's memory belongs to the depot.
    return directory_[region].load(std::memory_order_acquire) != 0;
  }
  /// Bytes of a region.
  [[nodiscard]] std::size_t region_bytes(std::uint32_t region) const noexcept {
    const std::size_t before = region == 0 ? 0 : kFirstBytes + (region - 1) * kRegionBytes;
    const std::size_t most = region == 0 ? kFirstBytes : kRegionBytes;
    return bytes_ - before < most ? bytes_ - before : most;
  }
  /// Adds the memory at @p start, region_bytes(region) bytes, aligned to 8; the depot keeps it.
  /// @returns false if another hart has added this region; the memory then stays the caller's.
  bool add_region(std::uint32_t region, void* start) noexcept {
    std::uintptr_t none = 0;
    return directory_[region].compare_exchange_strong(
        none, reinterpret_cast<std::uintptr_t>(start) - std::uintptr_t{region} * kRegionBytes + 1,
        std::memory_order_release, std::memory_order_relaxed);
  }

  /// Finds or stores a stack.
  /// @param[in] owner  the owner (cache) whose counts the entry keeps.
  /// @param[in] frames link-time offsets, innermost first, at most StackKey::kMostFrames.
  /// @returns its handle; kStackNoMemory if it is new, and the depot is full or next_region() has no memory yet.
  /// Complexity: O(depth) and O(log(entries)) steps down the tree. Context: any, any interrupt level; no lock.
  StackHandle intern(std::uint16_t owner, std::span<const std::uint32_t> frames, bool truncated) noexcept {
    return intern(Hash::id(frames, truncated, 0), owner, frames, truncated);
  }
  /// The same for a key, where @p content_id is the Hash of its frames.
  StackHandle intern(std::uint32_t content_id, const StackKey& key) noexcept {
    return intern(content_id, key.owner, {key.frames, key.depth}, (key.flags & StackEntry::kTruncated) != 0);
  }
  /// Counts a stack that was not stored. The caller calls it after its attempt to add a region.
  void note_failure() noexcept { failures_.fetch_add(1, std::memory_order_relaxed); }

  /// Finds a stack that has the id of its content (salt 0), as nearly all stacks have.
  /// @param[in] id the Hash of the stack. @returns its handle; kNoStack if there is no entry, or none with this id.
  /// Complexity: as intern(); it is meant to be inlined. Context: any.
  [[nodiscard]] StackHandle find(std::uint32_t id, const StackKey& key) const noexcept {
    const unsigned words = StackKey::words(key.depth);
    const std::atomic<StackHandle>* place = &root_;
    for (std::uint32_t path = id;; path >>= 2) {
      const auto at = static_cast<StackHandle>(load_followed(*place));  // pairs with the release in intern()
      if (at == kNoStack) return kNoStack;
      const StackEntry& one = at_handle(at);
      if (one.id == id && has_key(one, key, words)) return at;
      place = &one.children[path & 3];
    }
  }

  /// The entry of a handle that is not a sentinel.
  [[nodiscard]] StackEntry& at_handle(std::size_t handle) const noexcept {
    // A hart that has the handle sees the region: the region was published before the handle.
    const std::uintptr_t region = directory_[handle >> kRegionLog2].load(kFollowed);
    return *std::launder(reinterpret_cast<StackEntry*>(region + handle * 8 - 1));
  }
  /// The entry of a handle that intern() returned; nullptr for a sentinel.
  [[nodiscard]] StackEntry* entry(StackHandle handle) const noexcept {
    return handle < kFirstHandle ? nullptr : &at_handle(handle);
  }

  /// The entry of a number from an untrusted source. @returns nullptr if no entry has the number. Complexity: as
  /// intern(). Context: any.
  [[nodiscard]] StackEntry* find_entry(std::uint32_t number) const noexcept {
    if (number < kFirstHandle || number >= end_.load(std::memory_order_relaxed)) return nullptr;
    const std::uint32_t region = number >> kRegionLog2;
    if (!has_region(region) || (number % kRegionUnits) * 8 + sizeof(StackEntry) > region_bytes(region)) return nullptr;
    // The word read here is an id (D3), or it leads down a path on which the number does not lie.
    const std::uint32_t id = std::atomic_ref(at_handle(number).id).load(std::memory_order_relaxed);
    std::uint32_t path = id;
    StackHandle at = root_.load(std::memory_order_acquire);  // acquire: as in intern()
    for (; at != kNoStack && at != number; path >>= 2)
      at = at_handle(at).children[path & 3].load(std::memory_order_acquire);
    return at != kNoStack ? &at_handle(at) : nullptr;
  }

  /// The oldest entry with id @p id; there must be one. Complexity, context: as intern().
  [[nodiscard]] StackEntry& oldest(std::uint32_t id) const noexcept {
    StackEntry* one = &at_handle(root_.load(std::memory_order_acquire));
    for (std::uint32_t path = id; one->id != id; path >>= 2)
      one = &at_handle(one->children[path & 3].load(std::memory_order_acquire));
    return *one;
  }

  /// The id to print for a handle.
  [[nodiscard]] std::uint32_t id(StackHandle handle) const noexcept {
    return handle < kFirstHandle ? handle : entry(handle)->id;
  }

  /// Walks over all entries. It may miss entries that are stored during the walk.
  class Walk {
   public:
    explicit Walk(const BasicStackDepot& depot) noexcept : depot_(depot) {}
    /// @returns the next entry's handle, kNoStack at the end. Complexity: O(log(entries)).
    StackHandle next() noexcept {
      if (is_over_) return kNoStack;
      at_ = at_ == kNoStack ? depot_.root_.load(std::memory_order_acquire) : behind(at_);
      is_over_ = at_ == kNoStack;
      return at_;
    }

   private:
    /// The first child of @p at. If it has none: the next later child of the closest node above that has one.
    [[nodiscard]] StackHandle behind(StackHandle at) const noexcept {
      const StackEntry& entry = depot_.at_handle(at);
      StackHandle found = first_child(entry, 0);
      if (found != kNoStack) return found;
      std::uint32_t path = entry.id;
      for (StackHandle above = depot_.root_.load(std::memory_order_acquire); above != at; path >>= 2) {
        const StackEntry& one = depot_.at_handle(above);
        if (const StackHandle later = first_child(one, (path & 3) + 1); later != kNoStack) found = later;
        above = one.children[path & 3].load(std::memory_order_acquire);
      }
      return found;
    }
    [[nodiscard]] static StackHandle first_child(const StackEntry& entry, std::uint32_t child) noexcept {
      StackHandle found = kNoStack;
      while (found == kNoStack && child != 4) found = entry.children[child++].load(std::memory_order_acquire);
      return found;
    }

    const BasicStackDepot& depot_;
    StackHandle at_ = kNoStack;
    bool is_over_ = false;
  };

  /// Whether less than @p bytes are left in the region that is being filled, or it has no memory.
  [[nodiscard]] bool is_short_of(std::size_t bytes) const noexcept {
    const std::uint32_t end = end_.load(std::memory_order_relaxed);
    const std::uint32_t region = end >> kRegionLog2;
    if (region >= regions_ || (region + 1 < regions_ && has_region(region + 1))) return false;
    return !has_region(region) || region_bytes(region) - end % kRegionUnits * 8 < bytes;
  }

  [[nodiscard]] StackDepotStats stats() const noexcept {
    StackDepotStats stats;
    stats.capacity_bytes = bytes_;
    stats.used_bytes = used_.load(std::memory_order_relaxed);
    stats.entries = entries_.load(std::memory_order_relaxed);
    stats.collisions = collisions_.load(std::memory_order_relaxed);
    stats.failures = failures_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  StackHandle intern(std::uint32_t content_id, std::uint16_t owner, std::span<const std::uint32_t> frames,
                     bool truncated) noexcept {
    StackHandle fresh = kNoStack;  // reserved for the entry
    std::uint32_t id = content_id;
    for (std::uint32_t salt = 0;; id = Hash::id(frames, truncated, ++salt)) {
      if (id < kFirstId) continue;
      bool is_collision = false;  // another stack has this id
      std::atomic<StackHandle>* place = &root_;
      for (std::uint32_t path = id; !is_collision; path >>= 2) {
        // acquire: pairs with the release below: the entry's key is visible.
        StackHandle at = place->load(std::memory_order_acquire);
        if (at == kNoStack) {
          if (fresh == kNoStack && (fresh = reserve(frames.size())) == kNoStack) return kStackNoMemory;
          StackEntry& entry = at_handle(fresh);
          fill(entry, id, owner, frames, truncated);
          if (salt != 0 && content_id >= kFirstId) entry.flags |= StackEntry::kCollided;
          // release: pairs with the acquire here and in Walk.
          if (place->compare_exchange_strong(at, fresh, std::memory_order_release, std::memory_order_acquire)) {
            entries_.fetch_add(1, std::memory_order_relaxed);
            used_.fetch_add(static_cast<std::uint32_t>(StackEntry::bytes(entry.depth)), std::memory_order_relaxed);
            if ((entry.flags & StackEntry::kCollided) != 0) collisions_.fetch_add(1, std::memory_order_relaxed);
            return fresh;
          }
        }
        StackEntry& one = at_handle(at);
        if (one.id == id) {
          is_collision = !same_stack(one, frames, truncated);
          if (!is_collision && one.owner == owner) {
            if (fresh != kNoStack) give_back(fresh, one.depth);
            return at;
          }
        }
        place = &one.children[path & 3];
      }
    }
  }

  static bool has_key(const StackEntry& one, const StackKey& key, unsigned words) noexcept {
    const auto* ours = static_cast<const std::byte*>(__builtin_assume_aligned(&one.owner, 8));
    const auto* theirs = static_cast<const std::byte*>(__builtin_assume_aligned(&key, 8));
    const std::byte* const end = theirs + std::size_t{words} * 8;
    do {
      std::uint64_t our_word = 0;
      std::uint64_t their_word = 0;
      __builtin_memcpy(&our_word, __builtin_assume_aligned(ours, 8), 8);
      __builtin_memcpy(&their_word, __builtin_assume_aligned(theirs, 8), 8);
      if (our_word != their_word) return false;
      ours += 8;
      theirs += 8;
    } while (theirs != end);
    return true;
  }

  static bool same_stack(const StackEntry& one, std::span<const std::uint32_t> frames, bool truncated) noexcept {
    if (one.depth != frames.size() || one.truncated() != truncated) return false;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (one.frames()[i] != frames[i]) return false;
    }
    return true;
  }

  /// Reserves memory for an entry, behind the last entry or at the start of the next region. @returns kNoStack if there
  /// is no memory.
  StackHandle reserve(std::size_t depth) noexcept {
    const auto units = static_cast<std::uint32_t>(StackEntry::bytes(static_cast<unsigned>(depth)) / 8);
    std::uint32_t end = end_.load(std::memory_order_relaxed);
    std::uint32_t start = 0;
    do {
      start = end;
      for (;; start = ((start >> kRegionLog2) + 1) << kRegionLog2) {
        const std::uint32_t region = start >> kRegionLog2;
        if (region >= regions_ || !has_region(region)) return kNoStack;
        if (start % kRegionUnits + units <= region_bytes(region) / 8) break;
      }
      // acquire: pairs with the release in give_back(): our writes come after the other hart's.
    } while (!end_.compare_exchange_weak(end, start + units, std::memory_order_acquire, std::memory_order_relaxed));
    new (&at_handle(start)) StackEntry;
    return start;
  }

  /// Gives back a reservation that another hart's insert made useless. If it is not the last reservation any more, its
  /// bytes are lost.
  void give_back(StackHandle fresh, unsigned depth) noexcept {
    std::uint32_t end = fresh + static_cast<std::uint32_t>(StackEntry::bytes(depth) / 8);
    end_.compare_exchange_strong(end, fresh, std::memory_order_release, std::memory_order_relaxed);
  }

  static void fill(StackEntry& fresh, std::uint32_t id, std::uint16_t owner, std::span<const std::uint32_t> frames,
                   bool truncated) noexcept {
    fresh.id = id;
    fresh.owner = owner;
    fresh.depth = static_cast<std::uint8_t>(frames.size());
    fresh.flags = truncated ? StackEntry::kTruncated : 0;
    for (std::size_t i = 0; i < frames.size(); ++i) fresh.frames()[i] = frames[i];
    if (frames.size() % 2 == 0) fresh.frames()[frames.size()] = 0;
  }

  Region* directory_ = nullptr;
  std::size_t bytes_ = 0;      ///< in all regions
  std::uint32_t regions_ = 0;  ///< all, with memory or without
  std::atomic<StackHandle> root_{kNoStack};
  std::atomic<std::uint32_t> end_{kFirstHandle};  ///< no entry lies at or above this handle
  std::atomic<std::uint32_t> used_{0};            ///< bytes
  std::atomic<std::uint32_t> entries_{0};
  std::atomic<std::uint32_t> collisions_{0};
  std::atomic<std::uint32_t> failures_{0};
};

using StackDepot = BasicStackDepot<ContentHash>;

}  // namespace qm::trace
