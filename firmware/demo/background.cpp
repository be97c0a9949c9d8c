#include "background.hpp"

#include <array>
#include <atomic>
#include <cstdint>

#include <qm/firmware/interrupt.hpp>
#include <qm/firmware/task.hpp>
#include <qm/hal/hart.hpp>
#include <qm/hal/port.hpp>

#include "arenas.hpp"
#include "caches.hpp"
#include "random.hpp"

namespace qm::demo {
namespace {

/// The objects that a hart's ticks hold. Only that hart's timer interrupt accesses them.
std::array<std::array<void*, 4>, hal::Port::kMaxHarts> tick_events;

}  // namespace
}  // namespace qm::demo

// Plain C names: this is how the console prints them.
extern "C" {

/// Timer interrupt: replaces one of four objects at each tick.
static void tick_interrupt(void*) {
  static std::array<std::uint32_t, qm::hal::Port::kMaxHarts> turn;
  const unsigned hart = qm::hal::Port::hart_index();
  void*& slot = qm::demo::tick_events[hart][turn[hart]++ % 4];
  qm::Cache* cache = qm::demo::caches().tick_event;
  if (slot != nullptr) cache->free(slot);
  slot = qm::demo::cleared(QM_ALLOC(cache->allocate, 0, qm::WaitPolicy::kAtomic), cache->object_size());
}

/// Sleeps until the next multiple of @p milliseconds since the board was switched on. So all tasks of all harts wake at
/// the same times, and an idle board wakes less often.
static void sleep_to_next(std::uint32_t milliseconds) {
  const std::uint64_t period = qm::hal::ticks_of(milliseconds);
  qm::firmware::sleep_until((qm::hal::Port::ticks() / period + 1) * period);
}

/// Sets and expires timers of random length.
static void timer_task(void*) {
  qm::demo::Random random(qm::hal::Port::hart_index() + 1);
  std::array<void*, 16> timers{};
  qm::Cache* cache = qm::demo::caches().timer;
  for (;;) {
    void*& slot = timers[random.below(timers.size())];
    if (slot != nullptr) cache->free(slot);
    slot = qm::demo::cleared(QM_ALLOC(cache->allocate), cache->object_size());
    sleep_to_next(50);
  }
}

/// Opens and closes files: each has an inode and an id, and is read through a buffer of the device.
static void fs_task(void*) {
  struct File {
    void* inode;
    std::uintptr_t number;
  };
  qm::demo::Random random(qm::hal::Port::hart_index() + 101);
  qm::Arena& numbers = qm::demo::arenas().inode_ids;
  qm::Cache* inodes = qm::demo::caches().inode;
  std::array<File, 24> files{};
  for (;;) {
    File& file = files[random.below(files.size())];
    if (file.inode != nullptr) inodes->free(file.inode);
    if (file.number != 0) numbers.free(file.number, 1);
    file.inode = qm::demo::cleared(QM_ALLOC(inodes->allocate), inodes->object_size());
    file.number = QM_ALLOC(numbers.allocate, 1, qm::Fit::kNext);
    void* buffer = QM_ALLOC(qm::demo::caches().dma_buffer->allocate);
    if (buffer != nullptr) qm::demo::caches().dma_buffer->free(buffer);
    sleep_to_next(100);
  }
}

}  // extern "C"

namespace qm::demo {

void start_background() noexcept {
  for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
    if ((hal::online_harts() >> hart & 1) == 0) continue;
    firmware::spawn(hart, "timers", timer_task, nullptr);
    firmware::spawn(hart, "fs", fs_task, nullptr);
  }
  firmware::set_tick_handler(tick_interrupt, nullptr);
}

}  // namespace qm::demo
