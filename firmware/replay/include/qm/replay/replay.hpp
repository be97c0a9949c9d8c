#pragma once
/// Replays a recording on an allocator: it fills every block after its allocation, and verifies the contents before a
/// resize or a free.
///
///     Replay<Face> replay(header, operations, slots);
///     on each worker:  replay.work(worker, workers, go);     // worker w does the operations of the threads t % workers == w
///     one of them:     replay.result(), replay.free_rest();
///
/// Workers run concurrently. An operation waits until the earlier operations on its slot are done: a free waits for its
/// allocation, and an allocation for the free that left it the slot. Waits follow the recorded order, so there is no
/// circular wait.
///
/// Face is the interface to the allocator: static functions allocate(size), reallocate(block, size) and free(block);
/// wait(ready), which returns when ready() is true, after a wake(), or after some time; and wake(workers) for a mask of
/// workers.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>

#include <qm/replay/recording.hpp>

namespace qm::replay {

/// The slot of a block. Only the operation whose turn it is accesses it.
struct Slot {
  std::atomic<std::uint32_t> turn{0};
  std::atomic<std::uint32_t> waiting{0};  ///< bit mask of the workers that wait for a turn on this slot
  std::uint32_t size = 0;
  std::uint32_t worker = 0;  ///< the worker that allocated the block
  std::uint32_t seed = 0;    ///< of the block's contents
  unsigned char* block = nullptr;
};

struct Result {
  std::uint32_t operations = 0;
  std::uint32_t peak_bytes = 0;  ///< most requested bytes live at once
  std::uint32_t crossed = 0;     ///< frees by a different worker than the allocation's
  std::uint32_t left = 0;        ///< blocks still live
  std::uint32_t failed = 0;      ///< allocations that returned nullptr
  std::uint32_t broken = 0;      ///< blocks whose contents had changed
  [[nodiscard]] std::uint32_t errors() const noexcept { return failed + broken; }
};

/// Fill and check the contents of a block: words of a sequence that depends on the seed.
void fill(unsigned char* block, std::uint32_t size, std::uint32_t seed) noexcept;
[[nodiscard]] bool holds(const unsigned char* block, std::uint32_t size, std::uint32_t seed) noexcept;

template <class Face>
class Replay {
 public:
  /// @param[in] slots memory of slots_bytes() bytes; initialized here.
  Replay(const Header& header, std::span<const Operation> operations, void* slots) noexcept
      : operations_(operations), slots_(static_cast<Slot*>(slots)), slot_count_(header.slots) {
    for (std::uint32_t i = 0; i < slot_count_; ++i) new (&slots_[i]) Slot;
  }
  [[nodiscard]] static std::size_t slots_bytes(const Header& header) noexcept { return header.slots * sizeof(Slot); }

  /// @param[in] go called before each operation and in waits; returns whether to continue. One false stops all workers.
  template <class Go>
  void work(unsigned worker, unsigned workers, Go go) noexcept {
    for (const Operation& operation : operations_) {
      if (operation.thread % workers != worker) continue;
      Slot& slot = slots_[operation.slot];
      if (!may_go(go) || !await(slot, operation.turn, std::uint32_t{1} << worker, go)) return;
      perform(operation, slot, worker);
      // Store the turn before loading `waiting`; waiters set `waiting` before they load the turn. seq_cst (release):
      // pairs with the acquire in await().
      slot.turn.store(operation.turn + 1, std::memory_order_seq_cst);
      const std::uint32_t waiting = slot.waiting.load(std::memory_order_seq_cst);
      if (waiting != 0) Face::wake(waiting);
    }
  }

  /// @returns the totals, which are exact while no worker runs.
  [[nodiscard]] Result result() const noexcept {
    Result result;
    result.operations = done_.load(std::memory_order_relaxed);
    result.peak_bytes = peak_.load(std::memory_order_relaxed);
    result.crossed = crossed_.load(std::memory_order_relaxed);
    result.failed = failed_.load(std::memory_order_relaxed);
    result.broken = broken_.load(std::memory_order_relaxed);
    for (std::uint32_t i = 0; i < slot_count_; ++i) result.left += slots_[i].block != nullptr;
    return result;
  }

  /// Verifies and frees the blocks that the program left. @returns the number of blocks whose contents had changed.
  std::uint32_t free_rest() noexcept {
    std::uint32_t broken = 0;
    for (std::uint32_t i = 0; i < slot_count_; ++i) {
      if (slots_[i].block == nullptr) continue;
      broken += !holds(slots_[i].block, slots_[i].size, slots_[i].seed);
      Face::free(slots_[i].block);
      slots_[i].block = nullptr;
    }
    return broken;
  }

 private:
  template <class Go>
  bool may_go(Go& go) noexcept {
    if (!stopped_.load(std::memory_order_relaxed) && go()) return true;
    stopped_.store(true, std::memory_order_relaxed);
    return false;
  }

  /// Waits for a turn on a slot. @returns false if the replay was stopped.
  template <class Go>
  bool await(Slot& slot, std::uint32_t turn, std::uint32_t bit, Go& go) noexcept {
    // acquire: pairs with the store in work(), so that the slot and its block's contents are visible.
    if (slot.turn.load(std::memory_order_acquire) == turn) return true;
    slot.waiting.fetch_or(bit, std::memory_order_seq_cst);
    const auto ready = [&] { return slot.turn.load(std::memory_order_seq_cst) == turn; };
    bool goes = true;
    while (!ready() && (goes = may_go(go))) Face::wait(ready);
    slot.waiting.fetch_and(~bit, std::memory_order_relaxed);
    return goes;
  }

  void perform(const Operation& operation, Slot& slot, unsigned worker) noexcept {
    done_.fetch_add(1, std::memory_order_relaxed);
    const auto kind = static_cast<Kind>(operation.kind);
    if (kind != Kind::kAllocate) check(slot, slot.size);
    if (kind == Kind::kFree) {
      if (slot.worker != worker) crossed_.fetch_add(1, std::memory_order_relaxed);
      count(slot.size, 0);
      Face::free(slot.block);
      slot.block = nullptr;
      return;
    }
    const bool fresh = kind == Kind::kAllocate;
    if (!fresh && slot.block == nullptr) return;  // its allocation failed
    void* const block = fresh ? Face::allocate(operation.size) : Face::reallocate(slot.block, operation.size);
    if (block == nullptr) {
      failed_.fetch_add(1, std::memory_order_relaxed);
      return;
    }
    slot.block = static_cast<unsigned char*>(block);
    if (fresh) {
      slot.worker = worker;
      slot.size = 0;
    } else {
      check(slot, slot.size < operation.size ? slot.size : operation.size);
    }
    count(slot.size, operation.size);
    slot.size = operation.size;
    slot.seed = operation.slot * 0x9e3779b9U + operation.turn;
    fill(slot.block, slot.size, slot.seed);
  }

  void check(const Slot& slot, std::uint32_t size) noexcept {
    if (slot.block != nullptr && !holds(slot.block, size, slot.seed)) broken_.fetch_add(1, std::memory_order_relaxed);
  }

  void count(std::uint32_t less, std::uint32_t more) noexcept {
    const std::uint32_t live = live_.fetch_add(more - less, std::memory_order_relaxed) + (more - less);
    std::uint32_t peak = peak_.load(std::memory_order_relaxed);
    while (live > peak && !peak_.compare_exchange_weak(peak, live, std::memory_order_relaxed)) {
    }
  }

  std::span<const Operation> operations_;
  Slot* slots_;
  std::uint32_t slot_count_;
  std::atomic<bool> stopped_{false};
  std::atomic<std::uint32_t> done_{0};
  std::atomic<std::uint32_t> live_{0};
  std::atomic<std::uint32_t> peak_{0};
  std::atomic<std::uint32_t> crossed_{0};
  std::atomic<std::uint32_t> failed_{0};
  std::atomic<std::uint32_t> broken_{0};
};

}  // namespace qm::replay
