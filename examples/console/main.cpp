/// A board with the console and without the trace. It shows how its memory is used, and has a command for its own pool.

#include <array>

#include <qm/cache.hpp>
#include <qm/firmware/app.hpp>

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
  } else if (call.words()[1] == "bug") {  // frees the newest frame twice
    if (queued == 0) return call.fail("the queue is empty");
    frames->free(queue[--queued]);
    frames->free(queue[queued]);
  } else {
    return call.usage();
  }
  call.print("{} frames\n", queued);
  return call.ok();
}
QM_CONSOLE_COMMAND(queue, {.name = "queue",
                           .usage = "queue fill|empty|bug",
                           .summary = "take the queue's frames, give them back, or one twice",
                           .run = run_queue,
                           .min_arguments = 1,
                           .max_arguments = 1});

}  // namespace

void qm::firmware::early_main(const BootInfo& info) {
  start_allocator(info);
  frames = Cache::create({.name = "frame", .object_size = 1536});
}

void qm::firmware::main(const BootInfo&) { serve_console({.version = "1.0"}); }
