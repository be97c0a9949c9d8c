#pragma once
/// The stack depot: each distinct (owner, call stack) once, append-only, found without a lock.
///
///     buckets: | head | head | ...            heads and `next` are handles: offsets into the pool in units of 8 bytes
///     pool:    | - | entry: snapshots count id next - owner,depth,flags | frame 0 | frame 1 | ... | 0 or 4 bytes | entry ...
///
/// A record holds a handle. What is printed and sent is the entry's id: a hash of the frames' link-time offsets, the
/// depth and the truncation mark, so the same stack has the same id in every boot of an image. Entries of several
/// owners (caches) for one stack share the id. How much of what is out comes from a stack is counted over the records
/// when it is asked for, and kept in the entry where there are no records.
///
/// Invariants
/// - D1 An entry's key (id, owner, depth, flags, frames) never changes once a bucket's head or a `next` names it.
/// - D2 Entries with equal ids have equal stacks: where two stacks' hashes collide, the later gets the hash of the next
///      salt, is marked kCollided and counted. Every look-up tries the salts in the same order.
/// - D3 An entry lies in the bucket of its id.
/// - D4 Ids below kFirstId and handles below kFirstHandle mean something else than a stack.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

namespace qm::trace {

/// Where an entry lies: its offset in the pool / 8. Fits 22 bits.
using StackHandle = std::uint32_t;
inline constexpr StackHandle kNoStack = 0;        ///< none
inline constexpr StackHandle kStackNoMemory = 1;  ///< the depot was full
inline constexpr StackHandle kFirstHandle = 2;
inline constexpr unsigned kStackHandleBits = 22;

/// A key: what makes two stacks the same, in words of 8 bytes. An entry has it from its owner on.
struct alignas(8) StackKey {
  static constexpr unsigned kMostFrames = 31;
  std::uint16_t owner;
  std::uint8_t depth;
  std::uint8_t flags;
  std::uint32_t frames[kMostFrames];  ///< the one behind the last is 0 if that makes the words whole
  /// Words of a key of @p depth frames.
  static constexpr unsigned words(unsigned depth) noexcept { return depth / 2 + 1; }
};
static_assert(sizeof(StackKey) == 8 * StackKey::words(StackKey::kMostFrames));

/// Ids below this are sentinels; a sentinel handle's id is the handle.
inline constexpr std::uint32_t kFirstId = 16;

struct StackEntry {
  static constexpr std::uint8_t kTruncated = 0x80;  ///< the sign: one branch
  static constexpr std::uint8_t kCollided = 1;
  /// snapshot_objects of an entry that has no part in the last report.
  static constexpr std::uint32_t kUnreported = 0x8000'0000;

  std::atomic<std::uint32_t> snapshot_objects{kUnreported};  ///< for a report: stack_report.hpp
  std::atomic<std::uint32_t> snapshot_bytes{0};
  std::atomic<std::uint32_t> counted{0};  ///< objects that are out and have no record, as their cache keeps counts only
  std::uint32_t id = 0;
  StackHandle next = kNoStack;
  std::uint32_t unused = 0;  ///< the key begins at a multiple of 8
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
static_assert(sizeof(StackEntry) == 28 && offsetof(StackEntry, owner) == 24);

/// The hash of a stack's content: the upper half of a 64-bit multiplicative hash, which a walk can keep as it goes.
struct ContentHash {
  static constexpr std::uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;
  static constexpr std::uint64_t begin(std::uint32_t salt) noexcept { return kFactor + (std::uint64_t{salt} << 32); }
  /// @param[in] distance a frame's, below 2^31 either way.
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
  std::size_t capacity_bytes = 0;  ///< of the pool
  std::size_t used_bytes = 0;
  std::size_t table_bytes = 0;  ///< of the buckets, fixed
  std::uint32_t entries = 0;
  std::uint32_t collisions = 0;  ///< entries marked kCollided
  std::uint32_t failures = 0;    ///< look-ups that ended in kStackNoMemory
};

/// @tparam Hash what gives a stack its id; tests narrow it.
template <class Hash>
class BasicStackDepot {
 public:
  constexpr BasicStackDepot() noexcept = default;

  /// Buckets that suit a pool of @p pool_bytes: a power of two.
  static constexpr std::size_t buckets_for(std::size_t pool_bytes) noexcept {
    std::size_t buckets = 16;
    while (buckets * 128 < pool_bytes) buckets *= 2;
    return buckets;
  }

  /// Starts empty over @p pool (aligned to 8; what lies beyond 32 MiB is not used) and @p buckets (a power of two).
  /// Context: before anybody uses the depot.
  void initialize(std::span<std::byte> pool, std::span<std::uint32_t> buckets) noexcept {
    constexpr std::size_t kMost = std::size_t{8} << kStackHandleBits;
    pool_ = pool.data();
    capacity_ = static_cast<std::uint32_t>((pool.size() < kMost ? pool.size() : kMost) / 8);
    mask_ = static_cast<std::uint32_t>(buckets.size() - 1);
    buckets_ = buckets.data();
    for (std::uint32_t& bucket : buckets) new (&bucket) std::atomic<std::uint32_t>(kNoStack);
    end_.store(kFirstHandle, std::memory_order_relaxed);
    entries_.store(0, std::memory_order_relaxed);
    collisions_.store(0, std::memory_order_relaxed);
    failures_.store(0, std::memory_order_relaxed);
  }

  /// Goes back to the time before initialize(). Context: nobody uses the depot.
  void forget() noexcept { buckets_ = nullptr; }

  /// Finds or stores a stack.
  /// @param[in] owner  whose counts the entry keeps.
  /// @param[in] frames link-time offsets, innermost first, at most 255.
  /// @returns its handle; kStackNoMemory, counted, if it is new and the pool is full.
  /// Complexity: O(depth) and a short chain. Context: any, any interrupt level; no lock.
  StackHandle intern(std::uint16_t owner, std::span<const std::uint32_t> frames, bool truncated) noexcept {
    return intern(Hash::id(frames, truncated, 0), owner, frames, truncated);
  }
  /// The same of a key to whose frames Hash gives @p content_id.
  StackHandle intern(std::uint32_t content_id, const StackKey& key) noexcept {
    return intern(content_id, key.owner, {key.frames, key.depth}, (key.flags & StackEntry::kTruncated) != 0);
  }

  /// Finds a stack whose id is that of its content, as nearly all are.
  /// @param[in] id what Hash gives it. @returns its handle; kNoStack if there is none, or none with that id.
  /// Complexity: O(depth) and a short chain, to be inlined. Context: any.
  [[nodiscard]] StackHandle find(std::uint32_t id, const StackKey& key) const noexcept {
    // acquire: as in intern()
    const unsigned words = StackKey::words(key.depth);
    for (StackHandle at = head(id & mask_).load(std::memory_order_acquire); at != kNoStack; at = at_handle(at).next) {
      const StackEntry& one = at_handle(at);
      if (one.id == id && has_key(one, key, words)) return at;
    }
    return kNoStack;
  }

  /// The entry of a handle that is no sentinel.
  [[nodiscard]] StackEntry& at_handle(std::size_t handle) const noexcept {
    return *std::launder(static_cast<StackEntry*>(static_cast<void*>(pool_ + handle * 8)));
  }
  /// The entry of a handle that intern() returned; nullptr for a sentinel.
  [[nodiscard]] StackEntry* entry(StackHandle handle) const noexcept {
    return handle < kFirstHandle ? nullptr : &at_handle(handle);
  }

  /// The entry of a number from elsewhere. @returns nullptr: no entry has it. Complexity: a short chain. Context: any.
  [[nodiscard]] StackEntry* find_entry(std::uint32_t number) const noexcept {
    const std::uint32_t end = end_.load(std::memory_order_relaxed);
    if (number < kFirstHandle || number >= end || (end - number) * 8 < sizeof(StackEntry)) return nullptr;
    // What lies there is an id (D3), or leads to a chain in which the number is not.
    const std::uint32_t id = std::atomic_ref(at_handle(number).id).load(std::memory_order_relaxed);
    // acquire: as in intern()
    for (StackHandle at = head(id & mask_).load(std::memory_order_acquire); at != kNoStack; at = at_handle(at).next) {
      if (at == number) return &at_handle(at);
    }
    return nullptr;
  }

  /// The id to print for a handle.
  [[nodiscard]] std::uint32_t id(StackHandle handle) const noexcept {
    return handle < kFirstHandle ? handle : entry(handle)->id;
  }

  /// Walks over all entries, those stored meanwhile perhaps not.
  class Walk {
   public:
    explicit Walk(const BasicStackDepot& depot) noexcept : depot_(depot) {}
    /// @returns the next entry's handle, kNoStack at the end.
    StackHandle next() noexcept {
      if (at_ != kNoStack) at_ = depot_.entry(at_)->next;
      while (at_ == kNoStack && depot_.buckets_ != nullptr && bucket_ <= depot_.mask_) {
        at_ = depot_.head(bucket_++).load(std::memory_order_acquire);
      }
      return at_;
    }

   private:
    const BasicStackDepot& depot_;
    std::uint32_t bucket_ = 0;
    StackHandle at_ = kNoStack;
  };

  [[nodiscard]] StackDepotStats stats() const noexcept {
    StackDepotStats stats;
    stats.capacity_bytes = std::size_t{capacity_} * 8;
    stats.used_bytes = buckets_ != nullptr ? std::size_t{end_.load(std::memory_order_relaxed) - kFirstHandle} * 8 : 0;
    stats.table_bytes = buckets_ != nullptr ? (std::size_t{mask_} + 1) * sizeof(std::uint32_t) : 0;
    stats.entries = entries_.load(std::memory_order_relaxed);
    stats.collisions = collisions_.load(std::memory_order_relaxed);
    stats.failures = failures_.load(std::memory_order_relaxed);
    return stats;
  }

 private:
  struct Verdict {
    StackHandle found = kNoStack;
    bool collision = false;  ///< another stack has the id
  };

  StackHandle intern(std::uint32_t content_id, std::uint16_t owner, std::span<const std::uint32_t> frames,
                     bool truncated) noexcept {
    StackEntry* fresh = nullptr;
    std::uint32_t id = content_id;
    for (std::uint32_t salt = 0;; id = Hash::id(frames, truncated, ++salt)) {
      if (id < kFirstId) continue;
      std::atomic<std::uint32_t>& bucket = head(id & mask_);
      StackHandle seen = kNoStack;  // entries from here on were compared already
      for (;;) {
        // acquire: pairs with the release below, so that an entry's key is seen.
        StackHandle first = bucket.load(std::memory_order_acquire);
        const Verdict verdict = search(first, seen, id, owner, frames, truncated);
        if (verdict.found != kNoStack) {
          if (fresh != nullptr) give_back(fresh);
          return verdict.found;
        }
        if (verdict.collision) break;  // the next salt
        if (fresh == nullptr && (fresh = reserve(frames.size())) == nullptr) {
          failures_.fetch_add(1, std::memory_order_relaxed);
          return kStackNoMemory;
        }
        fill(*fresh, id, first, owner, frames, truncated);
        if (salt != 0 && content_id >= kFirstId) fresh->flags |= StackEntry::kCollided;
        const StackHandle handle = handle_of(*fresh);
        // release: pairs with the acquire above and in Walk.
        if (bucket.compare_exchange_strong(first, handle, std::memory_order_release, std::memory_order_relaxed)) {
          entries_.fetch_add(1, std::memory_order_relaxed);
          if ((fresh->flags & StackEntry::kCollided) != 0) collisions_.fetch_add(1, std::memory_order_relaxed);
          return handle;
        }
        seen = fresh->next;
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

  [[nodiscard]] std::atomic<std::uint32_t>& head(std::uint32_t bucket) const noexcept {
    return *std::launder(reinterpret_cast<std::atomic<std::uint32_t>*>(buckets_ + bucket));
  }
  [[nodiscard]] StackHandle handle_of(const StackEntry& one) const noexcept {
    return static_cast<StackHandle>((reinterpret_cast<const std::byte*>(&one) - pool_) / 8);
  }

  static bool same_stack(const StackEntry& one, std::span<const std::uint32_t> frames, bool truncated) noexcept {
    if (one.depth != frames.size() || one.truncated() != truncated) return false;
    for (std::size_t i = 0; i < frames.size(); ++i) {
      if (one.frames()[i] != frames[i]) return false;
    }
    return true;
  }

  /// Compares the entries from @p first up to @p last, which was compared before.
  Verdict search(StackHandle first, StackHandle last, std::uint32_t id, std::uint16_t owner,
                 std::span<const std::uint32_t> frames, bool truncated) const noexcept {
    for (StackHandle at = first; at != last; at = at_handle(at).next) {
      const StackEntry& one = at_handle(at);
      if (one.id != id) continue;
      if (!same_stack(one, frames, truncated)) return {kNoStack, true};
      if (one.owner == owner) return {at, false};
    }
    return {};
  }

  StackEntry* reserve(std::size_t depth) noexcept {
    const auto units = static_cast<std::uint32_t>(StackEntry::bytes(static_cast<unsigned>(depth)) / 8);
    std::uint32_t start = end_.load(std::memory_order_relaxed);
    do {
      if (start > capacity_ || capacity_ - start < units) return nullptr;
      // acquire: pairs with the release in give_back(), after whose writes ours come.
    } while (!end_.compare_exchange_weak(start, start + units, std::memory_order_acquire, std::memory_order_relaxed));
    return new (pool_ + std::size_t{start} * 8) StackEntry;
  }

  /// Gives a reservation back that another hart's insert made useless, if it is still the last one; else its bytes are
  /// lost.
  void give_back(StackEntry* fresh) noexcept {
    std::uint32_t end = handle_of(*fresh) + static_cast<std::uint32_t>(StackEntry::bytes(fresh->depth) / 8);
    end_.compare_exchange_strong(end, handle_of(*fresh), std::memory_order_release, std::memory_order_relaxed);
  }

  static void fill(StackEntry& fresh, std::uint32_t id, StackHandle next, std::uint16_t owner,
                   std::span<const std::uint32_t> frames, bool truncated) noexcept {
    fresh.id = id;
    fresh.next = next;
    fresh.owner = owner;
    fresh.depth = static_cast<std::uint8_t>(frames.size());
    fresh.flags = truncated ? StackEntry::kTruncated : 0;
    for (std::size_t i = 0; i < frames.size(); ++i) fresh.frames()[i] = frames[i];
    if (frames.size() % 2 == 0) fresh.frames()[frames.size()] = 0;
  }

  std::byte* pool_ = nullptr;
  std::uint32_t* buckets_ = nullptr;
  std::uint32_t capacity_ = 0;  ///< units of 8 bytes
  std::uint32_t mask_ = 0;
  std::atomic<std::uint32_t> end_{kFirstHandle};
  std::atomic<std::uint32_t> entries_{0};
  std::atomic<std::uint32_t> collisions_{0};
  std::atomic<std::uint32_t> failures_{0};
};

using StackDepot = BasicStackDepot<ContentHash>;

}  // namespace qm::trace
