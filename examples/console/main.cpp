/// A board with the console and no trace: how its memory is used, and the pool of its own as a command.

#include <algorithm>
#include <array>

#include <qm/console/console.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/console_io.hpp>
#include <qm/firmware/task.hpp>
#include <qm/system.hpp>

namespace {

using namespace qm;

Cache* frames;
std::array<void*, 8> queue;
unsigned queued = 0;

console::CommandStatus run_queue(console::Invocation& call) noexcept {
  if (call.words()[1] == "fill") {
    while (queued < queue.size() && (queue[queued] = frames->allocate()) != nullptr) ++queued;
  } else if (call.words()[1] == "empty") {
    while (queued > 0) frames->free(queue[--queued]);
  } else {
    return call.usage();
  }
  call.print("{} frames\n", queued);
  return call.ok();
}
QM_CONSOLE_COMMAND(queue, {.name = "queue",
                           .usage = "queue fill|empty",
                           .summary = "take the queue's frames, or give them back",
                           .run = run_queue,
                           .min_arguments = 1,
                           .max_arguments = 1});

class Line final : public console::Terminal {
 public:
  void write(std::string_view bytes) noexcept override { firmware::console_write_frame(bytes); }
  std::size_t read(std::span<char> bytes) noexcept override { return firmware::console_read(bytes); }
  void yield() noexcept override { firmware::yield(); }
};

}  // namespace

namespace qm::firmware {

void early_main(const BootInfo& info) {
  const auto smaller = [](const hal::MemoryRange& a, const hal::MemoryRange& b) { return a.bytes() < b.bytes(); };
  const hal::MemoryRange ram = *std::max_element(info.memory.begin(), info.memory.end(), smaller);
  const MemoryRange memory[] = {{ram.low, ram.bytes()}};
  if (initialize(memory, info.hart_count) != Status::kOk) panic("the allocator cannot start");
  attach_hart(0);
  frames = Cache::create({.name = "frame", .object_size = 1536});
}

void hart_main(unsigned hart) { attach_hart(hart); }

void main(const BootInfo& info) {
  static Line line;
  static console::Console console(line, {.version = "1.0", .harts = info.hart_count, .ram_bytes = info.ram_bytes});
  console.start();
  for (;;) {
    const std::uint32_t seen = console_input().sequence();
    if (!console.poll()) wait_event(console_input(), seen, hal::Port::ticks() + hal::Port::tick_rate() / 10);
  }
}

}  // namespace qm::firmware
