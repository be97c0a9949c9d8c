// What the trace does for the segments of an arena. Linked only with an observer.

#include <qm/arena.hpp>
#include <qm/detail/observer.hpp>

#include <qm/hal/port.hpp>

namespace qm {

/// The state word is read again in the masked section that inserts the record.
void Observer::taken(Arena& arena, std::uintptr_t start, std::size_t requested, const CallSite* site,
                     WaitPolicy wait_policy) noexcept {
  const Allocation allocation{
      nullptr, &arena, requested, site, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)), wait_policy};
  auto* const object = reinterpret_cast<void*>(start);
  Prepared prepared;
  for (bool done = false; !done;) {
    {
      const hal::InterruptGuard masked;
      // acquire: pairs with the release of the command that changed the word.
      prepared.word = arena.state().load(std::memory_order_acquire);
      const bool recording = (prepared.word & trace_state::kHearsAllocation) != 0;
      done = !recording || (prepared.ready && record(allocation, object, prepared));
    }
    if (!done) prepare(allocation, object, prepared);
  }
  if (prepared.ready) release(prepared);
}

void Observer::going(Arena& arena, std::uintptr_t start, std::size_t size) noexcept {
  const std::size_t is = arena.size_of(start);
  if (is == 0 || (is != size && size != SIZE_MAX)) return;
  const hal::InterruptGuard masked;
  // acquire: as in taken().
  if ((arena.state().load(std::memory_order_acquire) & trace_state::kHearsFree) != 0) forget(arena, start);
}

}  // namespace qm
