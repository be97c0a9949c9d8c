// The checking build's half of a cache; see checked.hpp. Linked only where QM_CHECKED is set.

#include <qm/detail/checked.hpp>

#include <cstring>

#include <qm/cache.hpp>
#include <qm/detail/observer.hpp>
#include <qm/detail/poison.hpp>
#include <qm/detail/slab_pass.hpp>

#if !defined(__riscv)

#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define VALGRIND_MAKE_MEM_NOACCESS(start, size) static_cast<void>(0)
#define VALGRIND_MAKE_MEM_DEFINED(start, size) static_cast<void>(0)
#endif

// Of AddressSanitizer, null in a program without it. This file need not be compiled with it.
extern "C" {
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* start, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* start, std::size_t size);
}

void qm::poison::hide(void* start, std::size_t size) noexcept {
  if (__asan_poison_memory_region != nullptr) __asan_poison_memory_region(start, size);
  VALGRIND_MAKE_MEM_NOACCESS(start, size);
}

void qm::poison::show(void* start, std::size_t size) noexcept {
  if (__asan_unpoison_memory_region != nullptr) __asan_unpoison_memory_region(start, size);
  VALGRIND_MAKE_MEM_DEFINED(start, size);
}

#endif

namespace qm::checked {
namespace {

/// Live objects that are reported when a destroy is refused.
constexpr std::size_t kHolders = 4;
using poison::first_other;
using poison::kNone;
using poison::kRedzone;
using poison::sum_of;

unsigned char* bytes_of(void* object) noexcept { return static_cast<unsigned char*>(object); }

bool is_touched(const Cache& cache) noexcept { return (cache.flags() & cache_flags::kNoTouch) == 0; }

ObjectCheck* check_of(Cache& cache, const void* object) noexcept {
  Slab* slab = cache.slabs().find(object);
  const unsigned at = slab != nullptr ? cache.slabs().index(*slab, object) : SlabLayer::kNoIndex;
  return at != SlabLayer::kNoIndex ? cache.slabs().checks(*slab) + at : nullptr;
}

/// The stack that begins at @p frame; 0 for a cache that cannot be traced, as the allocator's own.
std::uint32_t stack_at(const Cache& cache, std::uintptr_t frame) noexcept {
  Observer* trace = cache.traceable() ? observer() : nullptr;
  return trace != nullptr ? trace->stack(frame) : 0;
}

void tell(Misuse kind, Cache& cache, void* object, std::size_t offset) noexcept {
  MisuseReport report;
  report.kind = kind;
  report.cache = &cache;
  report.object = object;
  report.offset = offset;
  cache.report(report);
}

/// The offset at which an idle object's contents differ from what they were; kNone if they do not; 0 if it is not
/// known.
std::size_t damage_of(Cache& cache, const ObjectCheck& check, void* object) noexcept {
  if (!is_touched(cache)) return kNone;
  return poison::damage_of(object, cache.object_size(), check.sum, !cache.keeps_contents());
}

std::size_t redzone_damage(Cache& cache, const ObjectCheck& check, void* object) noexcept {
  if (!is_touched(cache)) return kNone;
  return first_other(bytes_of(object), check.requested, cache.slabs().redzone_end(), kRedzone);
}

void paint_redzone(Cache& cache, const ObjectCheck& check, void* object) noexcept {
  if (is_touched(cache))
    std::memset(bytes_of(object) + check.requested, kRedzone, cache.slabs().redzone_end() - check.requested);
}

void sum(Cache& cache, ObjectCheck& check, void* object) noexcept {
  if (is_touched(cache)) check.sum = sum_of(bytes_of(object), cache.object_size());
}

/// Hides the object and its redzone, from the offset @p from on.
void hide_from(Cache& cache, void* object, std::size_t from) noexcept {
  if constexpr (poison::kHides) {
    if (is_touched(cache)) poison::hide(bytes_of(object) + from, cache.slabs().redzone_end() - from);
  }
}

/// Undoes hide_from(), for the allocator's own accesses.
void show_from(Cache& cache, void* object, std::size_t from) noexcept {
  if constexpr (poison::kHides) {
    if (is_touched(cache)) poison::show(bytes_of(object) + from, cache.slabs().redzone_end() - from);
  }
}

/// Changes the life from @p from to @p to; waits while a pass inspects the object. @returns false if it was another
/// one.
bool change(ObjectCheck& check, std::uint32_t from, std::uint32_t to) noexcept {
  for (;;) {
    std::uint32_t life = from;
    // acq_rel: sees what the previous holder wrote to the check, and keeps earlier reads before.
    if (check.life.compare_exchange_strong(life, to, std::memory_order_acq_rel)) return true;
    if (life != ObjectCheck::kLooking) return false;
    hal::Port::relax();
  }
}

/// Checks an idle object, which is `changing` from here on. A fresh one needs no check.
void open(Cache& cache, ObjectCheck& check, void* object) noexcept {
  if (!change(check, ObjectCheck::kIdle, ObjectCheck::kChanging)) return;
  show_from(cache, object, 0);
  const std::size_t offset = damage_of(cache, check, object);
  if (offset != kNone) tell(Misuse::kWriteAfterFree, cache, object, offset);
}

}  // namespace

void unseal(Cache& cache, void* object) noexcept {
  if (ObjectCheck* check = check_of(cache, object)) open(cache, *check, object);
}

void seal(Cache& cache, void* object) noexcept {
  ObjectCheck* check = check_of(cache, object);
  if (check == nullptr) return;
  show_from(cache, object, 0);  // for valgrind: the constructor may leave bytes uninitialized
  sum(cache, *check, object);
  hide_from(cache, object, 0);
  check->life.store(ObjectCheck::kIdle, std::memory_order_release);
}

void hand_out(Cache& cache, void* object, const Allocation& allocation) noexcept {
  ObjectCheck* check = check_of(cache, object);
  if (check == nullptr) return;
  open(cache, *check, object);
  check->requested = allocation.requested < cache.object_size() ? allocation.requested : cache.object_size();
  check->allocated_by = stack_at(cache, allocation.frame);
  paint_redzone(cache, *check, object);
  hide_from(cache, object, check->requested);
  check->life.store(ObjectCheck::kUsed, std::memory_order_release);
}

bool take_back(Cache& cache, void* object) noexcept {
  ObjectCheck* check = check_of(cache, object);
  if (check == nullptr) return true;
  if (!change(*check, ObjectCheck::kUsed, ObjectCheck::kChanging)) {
    tell(Misuse::kDoubleFree, cache, object, 0);
    return false;
  }
  show_from(cache, object, 0);
  const std::size_t offset = redzone_damage(cache, *check, object);
  if (offset != kNone) tell(Misuse::kOverflow, cache, object, offset);
  check->freed_by = stack_at(cache, reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)));
  if (is_touched(cache) && !cache.keeps_contents()) std::memset(object, poison::kFree, cache.object_size());
  sum(cache, *check, object);
  hide_from(cache, object, 0);
  check->life.store(ObjectCheck::kIdle, std::memory_order_release);
  return true;
}

void resize(Cache& cache, void* object, std::size_t requested) noexcept {
  ObjectCheck* check = check_of(cache, object);
  if (check == nullptr || !change(*check, ObjectCheck::kUsed, ObjectCheck::kChanging)) return;
  show_from(cache, object, check->requested);
  const std::size_t offset = redzone_damage(cache, *check, object);
  if (offset != kNone) tell(Misuse::kOverflow, cache, object, offset);
  check->requested = requested < cache.object_size() ? requested : cache.object_size();
  paint_redzone(cache, *check, object);
  hide_from(cache, object, check->requested);
  check->life.store(ObjectCheck::kUsed, std::memory_order_release);
}

std::size_t requested(Cache& cache, const void* object) noexcept {
  const ObjectCheck* check = check_of(cache, object);
  return check != nullptr ? check->requested : 0;
}

void add_stacks(MisuseReport& report) noexcept {
  Cache& holder = report.owner != nullptr ? *report.owner : *report.cache;
  const ObjectCheck* check = check_of(holder, report.object);
  if (check == nullptr) return;
  report.allocated_by = check->allocated_by;
  report.freed_by = check->freed_by;
}

void report_holders(Cache& cache, std::size_t out) noexcept {
  struct Search {
    Cache& cache;
    std::size_t out;
    std::size_t named = 0;
  } search{cache, out};
  SlabPass pass(cache.slabs());
  const auto name_holders = [](SlabLayer& layer, Slab& slab, void* argument) noexcept {
    auto& found = *static_cast<Search*>(argument);
    for (unsigned i = 0; i < slab.objects && found.named < kHolders; ++i) {
      if (layer.checks(slab)[i].life.load(std::memory_order_acquire) != ObjectCheck::kUsed) continue;
      ++found.named;
      MisuseReport report;
      report.kind = Misuse::kLeak;
      report.cache = &found.cache;
      report.object = layer.object(slab, i);
      report.count = found.out;
      found.cache.report(report);
    }
  };
  while (search.named < kHolders && pass.step(name_holders, &search)) {
  }
}

std::size_t inspect(Cache& cache, Slab& slab) noexcept {
  std::size_t damaged = 0;
  for (unsigned i = 0; i < slab.objects; ++i) {
    ObjectCheck& check = cache.slabs().checks(slab)[i];
    void* object = cache.slabs().object(slab, i);
    std::uint32_t life = check.life.load(std::memory_order_relaxed);
    if (life != ObjectCheck::kIdle && life != ObjectCheck::kUsed) continue;
    if (!check.life.compare_exchange_strong(life, ObjectCheck::kLooking, std::memory_order_acq_rel)) continue;
    const bool idle = life == ObjectCheck::kIdle;
    const std::size_t from = idle ? 0 : check.requested;
    show_from(cache, object, from);
    const std::size_t offset = idle ? damage_of(cache, check, object) : redzone_damage(cache, check, object);
    if (offset != kNone) {
      ++damaged;
      tell(idle ? Misuse::kWriteAfterFree : Misuse::kOverflow, cache, object, offset);
      idle ? sum(cache, check, object) : paint_redzone(cache, check, object);
    }
    hide_from(cache, object, from);
    check.life.store(life, std::memory_order_release);
  }
  return damaged;
}

}  // namespace qm::checked
