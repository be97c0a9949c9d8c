/// Times the allocations of real programs (firmware/replay). The replayer of the target fills and verifies every block;
/// this one writes one word of each block, because it compares allocators.

#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <qm/replay/recording.hpp>

#include "threads.hpp"
#include "workloads.hpp"

namespace qm::bench {
namespace {

/// The slot of a block. One operation at a time uses it, the one whose turn it is; as in qm/replay/replay.hpp.
struct Slot {
  std::atomic<std::uint32_t> turn{0};
  void* block = nullptr;
  std::size_t size = 0;
};

/// A decoded recording.
class Program {
 public:
  /// @param[in] workers if more than one, each block has a slot of its own: in the recording an allocation takes the
  ///          slot that was freed last, and would have to wait for that free, wherever it is done.
  Program(std::string_view name, unsigned workers) : workers_(workers) {
    const replay::Recording* recording = replay::find_recording(name);
    replay::Header header;
    if (recording == nullptr || !replay::read_header(recording->file, header)) {
      throw std::runtime_error("no recording of " + std::string(name));
    }
    std::vector<std::uint64_t> memory(replay::unpack_bytes(header) / sizeof(std::uint64_t) + 1);
    const auto operations = replay::unpack(recording->file, memory.data());
    operations_.assign(operations.begin(), operations.end());
    slots_ = header.slots;
    if (workers > 1) part_slots();
  }
  [[nodiscard]] const std::vector<replay::Operation>& operations() const { return operations_; }
  [[nodiscard]] std::size_t slots() const { return slots_; }
  [[nodiscard]] unsigned workers() const { return workers_; }

 private:
  void part_slots() {
    struct Block {
      std::uint32_t slot = 0;
      std::uint32_t turns = 0;
    };
    std::vector<Block> blocks(slots_);
    std::uint32_t next = 0;
    for (replay::Operation& operation : operations_) {
      Block& block = blocks[operation.slot];
      if (static_cast<replay::Kind>(operation.kind) == replay::Kind::kAllocate) block = {next++, 0};
      operation.slot = block.slot & 0xffffff;
      operation.turn = block.turns++;
    }
    slots_ = next;
  }

  std::vector<replay::Operation> operations_;
  std::size_t slots_ = 0;
  unsigned workers_;
};

void perform(const Subject& subject, const replay::Operation& operation, Slot& slot) {
  const auto kind = static_cast<replay::Kind>(operation.kind);
  if (kind == replay::Kind::kFree) {
    subject.free(slot.block, slot.size);
    slot.block = nullptr;
    return;
  }
  slot.block = kind == replay::Kind::kAllocate ? subject.allocate(operation.size)
                                               : subject.reallocate(slot.block, operation.size);
  slot.size = operation.size;
  if (operation.size >= sizeof(std::uint32_t)) *static_cast<volatile std::uint32_t*>(slot.block) = operation.turn;
}

/// Does the operations of the recorded threads that @p worker has. An operation waits for the earlier operations on its
/// slot.
void work(const Program& program, const Subject& subject, Slot* slots, unsigned worker) {
  for (const replay::Operation& operation : program.operations()) {
    if (operation.thread % program.workers() != worker) continue;
    Slot& slot = slots[operation.slot];
    // acquire: pairs with the release below, by the previous operation on this slot, whose block must be visible.
    while (slot.turn.load(std::memory_order_acquire) != operation.turn) std::this_thread::yield();
    perform(subject, operation, slot);
    slot.turn.store(operation.turn + 1, std::memory_order_release);
  }
}

/// @returns nanoseconds for one operation.
double replay_on(const Program& program, const Subject& subject) {
  const auto slots = std::make_unique<Slot[]>(program.slots());
  const Clock::duration time = on_threads(program.workers(), [&](unsigned worker) {
    const auto begin = Clock::now();
    work(program, subject, slots.get(), worker);
    return Clock::now() - begin;
  });
  const ThreadScope scope(0);
  for (std::size_t i = 0; i < program.slots(); ++i) {
    if (slots[i].block != nullptr) subject.free(slots[i].block, slots[i].size);
  }
  const auto operations = static_cast<double>(program.operations().size());
  return std::chrono::duration<double, std::nano>(time).count() / operations;
}

}  // namespace

double replay_sqlite(const Subject& subject, unsigned) {
  static const Program program("sqlite", 1);
  return replay_on(program, subject);
}

double replay_jq(const Subject& subject, unsigned) {
  static const Program program("jq", 1);
  return replay_on(program, subject);
}

double replay_redis(const Subject& subject, unsigned) {
  static const Program program("redis-threads", 1);
  return replay_on(program, subject);
}

double replay_redis_two_threads(const Subject& subject, unsigned) {
  static const Program program("redis-threads", 2);
  return replay_on(program, subject);
}

}  // namespace qm::bench
