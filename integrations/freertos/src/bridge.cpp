#include "bridge.h"

#include <qm/arena.hpp>
#include <qm/hal/hart.hpp>
#include <qm/heap.hpp>
#include <qm/registry.hpp>
#include <qm/system.hpp>

namespace {

using qm::hal::Port;

constexpr std::uint32_t kMark = 0x51ab7a61;
/// If tp points into the image's TLS segment or a copy of it, this variable has the value kMark.
constinit thread_local std::uint32_t mark = kMark;

/// Calls @p action for the arenas of the heap: `base`, and `kheap`, which imports from it.
template <class Action>
void for_each_arena(const Action& action) noexcept {
  action(qm::base_arena());
  qm::RegistryCursor<qm::Arena> arenas;
  if (qm::Arena* const heap = arenas.find("kheap"); heap != nullptr) action(*heap);
}

}  // namespace

extern "C" {

void* qm_freertos_allocate(size_t size, qm_flags wait_policy) noexcept {
  return qm::heap::allocate(size, qm::WaitPolicy{wait_policy});
}

void qm_freertos_enter_handler() noexcept { ++qm::hal::hart_local().trap_depth; }
void qm_freertos_leave_handler() noexcept { --qm::hal::hart_local().trap_depth; }

uintptr_t qm_freertos_mask() noexcept { return static_cast<uintptr_t>(Port::mask_interrupts()); }
void qm_freertos_unmask(uintptr_t before) noexcept { Port::restore_interrupts(Port::InterruptState{before}); }

void qm_freertos_check_hart_locals() noexcept {
  std::uintptr_t tp;
  asm volatile("mv %0, tp" : "=r"(tp));
  const volatile std::uint32_t& seen = mark;
  if (tp == 0 || tp % 16 != 0 || seen != kMark) Port::fatal("tp does not point at the image's TLS segment");
}

void qm_freertos_shutdown() noexcept { qm::shutdown(); }

size_t qm_freertos_free_bytes() noexcept {
  size_t bytes = 0;
  for_each_arena([&](qm::Arena& arena) { bytes += arena.stats().free; });
  return bytes;
}

void qm_freertos_look_at_free_memory(qm_freertos_free_memory* memory) noexcept {
  for_each_arena([&](qm::Arena& arena) {
    qm::ArenaWalk walk(arena);
    qm::Segment segment;
    while (walk.next(segment)) {
      if (segment.kind != qm::TagKind::kFree) continue;
      ++memory->count;
      if (segment.size > memory->largest) memory->largest = segment.size;
      if (segment.size < memory->smallest) memory->smallest = segment.size;
    }
  });
}

}  // extern "C"
