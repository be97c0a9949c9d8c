/// replay NAME: replays a recorded trace of a real program on the heap. Harts take the parts of its threads, and the
/// contents of every block are checked. One replay runs at a time. Its tables lie in pages of the base arena.

#include <new>

#include <qm/arena.hpp>
#include <qm/heap.hpp>
#include <qm/replay/replay.hpp>
#include <qm/system.hpp>

#include "workloads.hpp"

namespace qm::demo {
namespace {

/// Signalled when a worker has done an operation that another worker waits for.
constinit firmware::Event turn_over;

/// The interface of a replay to the heap.
struct HeapFace {
  static void* allocate(std::size_t size) noexcept { return QM_ALLOC(heap::allocate, size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return QM_ALLOC(heap::reallocate, block, size); }
  static void free(void* block) noexcept { heap::free(block); }
  template <class Ready>
  static void wait(const Ready& ready) noexcept {
    const std::uint32_t seen = turn_over.sequence();
    if (!ready()) firmware::wait_event(turn_over, seen, hal::Port::ticks() + hal::Port::tick_rate() / 100);
  }
  static void wake(std::uint32_t) noexcept { turn_over.signal(); }
};

using HeapReplay = replay::Replay<HeapFace>;

/// The running replay.
struct Stage {
  replay::Header header;
  std::span<const replay::Operation> operations;
  std::uintptr_t unpacked = 0;  // memory of base
  std::uintptr_t slots = 0;     // memory of base
  alignas(HeapReplay) std::byte replay[sizeof(HeapReplay)];

  void clear() noexcept {
    if (unpacked != 0) base_arena().free(unpacked);
    if (slots != 0) base_arena().free(slots);
    unpacked = slots = 0;
  }
};

Stage stage;
std::atomic<std::uint32_t> staged{0};

HeapReplay& the_replay() noexcept { return *std::launder(static_cast<HeapReplay*>(static_cast<void*>(stage.replay))); }

const char* set_up(const replay::Recording& recording) noexcept {
  if (!replay::read_header(recording.file, stage.header)) return "the recording is damaged";
  stage.unpacked = base_arena().allocate(replay::unpack_bytes(stage.header));
  stage.slots = base_arena().allocate(HeapReplay::slots_bytes(stage.header));
  if (stage.unpacked == 0 || stage.slots == 0) return "no memory for the recording";
  stage.operations = replay::unpack(recording.file, reinterpret_cast<void*>(stage.unpacked));
  if (stage.operations.empty()) return "the recording is damaged";
  new (stage.replay) HeapReplay(stage.header, stage.operations, reinterpret_cast<void*>(stage.slots));
  return nullptr;
}

const char* prepare(WorkloadRun& run) noexcept {
  const replay::Recording* recording = replay::find_recording(run.text);
  if (recording == nullptr) return "no such recording: sqlite, jq or redis-threads";
  if (staged.exchange(1, std::memory_order_acquire) != 0) return "a replay is under way";
  const char* wrong = set_up(*recording);
  if (wrong != nullptr) {
    stage.clear();
    staged.store(0, std::memory_order_release);
  }
  return wrong;
}

void replay_task(WorkloadRun& run, unsigned hart) noexcept {
  std::uint32_t turns = 0;
  the_replay().work(run.place(hart), run.participants(), [&] {
    if (++turns % 16 == 0) firmware::yield();
    return !run.stopping();
  });
}

void finish(WorkloadRun&, console::Output& out) noexcept {
  const replay::Result result = the_replay().result();
  const std::uint32_t broken = result.broken + the_replay().free_rest();
  if (result.failed != 0)
    console::Row(out, "failed")
        .print("replay: {failed} failed\n", console::Counted{result.failed, "allocation/allocations"});
  if (broken != 0)
    console::Row(out, "broken")
        .print("replay: {broken} overwritten\n", console::Counted{broken, "block was/blocks were"});
  console::Row(out, "end")
      .print("replay: {operations}, peak {peak_bytes} bytes, crossed {crossed}, outstanding {outstanding}\n",
             console::Counted{result.operations, "operation/operations"}, result.peak_bytes, result.crossed,
             result.left);
  stage.clear();
  staged.store(0, std::memory_order_release);
}

}  // namespace

constinit const Workload kReplay = {
    .name = "replay",
    .usage = "replay NAME",
    .summary = "the allocations of sqlite, jq or redis-threads, their threads as harts, contents checked",
    .task = "replay",
    .counted = false,
    .named = true,
    .option = {},
    .names = "sqlite,jq,redis-threads",
    .prepare = prepare,
    .work = replay_task,
    .finish = finish,
    .release = nullptr,
};

}  // namespace qm::demo
