/// Stress test of the restartable sections: out of line, inlined, and those of the heap. A timer interrupt allocates
/// from and frees to the same cache on the same hart, and occurs at random at every instruction of every section. With
/// QM_FAST_PATH=masked the test does the same to the masked form.
///
/// sections_probe.hpp counts where interrupts occur, and can leave out the rewind, to show that the test can fail.
///
/// Plain TCG takes interrupts only at block starts; the modes icount and singlestep reach every instruction.

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include <qm/cache.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/hal/port.hpp>
#include <qm/heap.hpp>
#include <qm/inline_cache.hpp>
#include <qm/system.hpp>
#include <qm/test/seed.hpp>

#include "sections_probe.hpp"

namespace {

using probe::Form;

QM_INLINE_CACHE(Contested);
QM_DEFINE_INLINE_CACHE(Contested);

constexpr std::uint32_t kInsideWanted = 100'000;

std::uint32_t interrupts;
std::uint32_t violations;
qm::test::Random* handler_random;

/// An object that records its holder.
struct Object {
  std::uint32_t holder;  // 0: none
  std::uint32_t rest[15];
};

alignas(4096) std::byte memory[4 << 20];  // large enough for kmalloc_64 to have its cache at once

/// Both forms of the cache are used in turn; the heap's objects are those of a size class.
std::uint32_t turn;
bool from_heap;

/// Without the rewind, the cache may return anything.
bool is_plausible(const Object* object) {
  const auto offset = reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(memory);
  return offset < sizeof memory && offset % alignof(Object) == 0;
}

/// Marks an object as held by @p holder. @returns nullptr if there is no object, or it must not be touched.
Object* take(Object* object, std::uint32_t holder) {
  if (object == nullptr) return nullptr;
  if (!is_plausible(object) || object->holder != 0) {
    ++violations;
    return nullptr;
  }
  object->holder = holder;
  return object;
}

void give(Object* object, std::uint32_t holder) {
  if (object == nullptr) return;
  if (object->holder != holder) ++violations;
  object->holder = 0;
  if (from_heap) return qm::heap::free(object);
  (++turn & 1) != 0 ? Contested::free(object) : Contested::cache()->free(object);
}

Object* allocate(const qm::CallSite* site) {
  if (from_heap) return static_cast<Object*>(qm::heap::allocate_at(site, sizeof(Object)));
  switch (++turn % 4) {
    case 0: return static_cast<Object*>(Contested::cache()->allocate_at(site));
    case 1: return static_cast<Object*>(Contested::cache()->allocate_at(site, 64));
    default: return static_cast<Object*>(Contested::allocate_at(site));
  }
}

[[gnu::noinline]] const qm::CallSite* site_of_main() { return QM_SITE; }
[[gnu::noinline]] const qm::CallSite* site_of_handler() { return QM_SITE; }

/// Whether a build with call sites has charged this many objects to @p site.
bool is_charged([[maybe_unused]] const qm::CallSite* site, [[maybe_unused]] std::size_t objects) {
  if constexpr (qm::kCallSites) {
    const qm::call_sites::Row row = qm::call_sites::row(qm::call_sites::number_of(site));
    return row.calls == objects && row.bytes == objects * sizeof(Object);
  }
  return true;
}

constexpr std::uint32_t kMain = 1;
constexpr std::uint32_t kHandler = 2;

bool boot_argument(const char* text) {
  const std::string_view arguments = qm::firmware::boot_info().bootargs;
  const std::size_t length = __builtin_strlen(text);
  for (std::size_t at = 0; at + length <= arguments.size(); ++at) {
    if (__builtin_memcmp(arguments.data() + at, text, length) == 0) return true;
  }
  return false;
}

/// Sets the next ticks at random: interrupts must not stay in step with the loop, and must not take all the time. The
/// mode with one instruction a block is slow.
void change_period() {
  const bool slow = boot_argument("mode=singlestep");
  const std::uint64_t ticks = slow ? handler_random->between(1000, 4000) : handler_random->between(30, 90);
  qm::firmware::set_tick_period(qm::hal::Port::hart_index(), static_cast<std::uint32_t>(ticks));
}

std::array<Object*, 3> kept;

void give_kept() {
  for (Object*& object : kept) {
    give(object, kHandler);
    object = nullptr;
  }
}

/// Frees the objects that the last tick allocated, oldest first, and allocates up to three others: so each tick leaves
/// the magazine in another state.
void tick(void*) {
  if (violations != 0) return;  // without the rewind: the cache must not be used any more
  give_kept();
  const unsigned count = 1 + interrupts % kept.size();
  for (unsigned i = 0; i < count; ++i) kept[i] = take(allocate(site_of_handler()), kHandler);
  // This must hold at whatever point an operation or its charge was interrupted.
  if (probe::rewinding && !is_charged(site_of_handler(), count)) ++violations;
  if (++interrupts % 8 == 0) change_period();
}

/// Only pairs; without the rewind each object is checked.
[[gnu::noinline]] void pairs_out_of_line(unsigned count) {
  for (; count != 0 && violations == 0; --count) {
    auto* object = static_cast<Object*>(QM_ALLOC(Contested::cache()->allocate));
    if (!probe::rewinding) object = take(object, kMain);
    if (object == nullptr) continue;
    if (!probe::rewinding) object->holder = 0;
    Contested::cache()->free(object);
  }
}

[[gnu::noinline]] void pairs_inlined(unsigned count) {
  for (; count != 0 && violations == 0; --count) {
    auto* object = static_cast<Object*>(QM_ALLOC(Contested::allocate));
    if (!probe::rewinding) object = take(object, kMain);
    if (object == nullptr) continue;
    if (!probe::rewinding) object->holder = 0;
    Contested::free(object);
  }
}

[[gnu::noinline]] void pairs_in_heap(unsigned count) {
  for (; count != 0 && violations == 0; --count) {
    auto* object = static_cast<Object*>(QM_ALLOC(qm::heap::allocate, sizeof(Object)));
    if (!probe::rewinding) object = take(object, kMain);
    if (object == nullptr) continue;
    if (!probe::rewinding) object->holder = 0;
    qm::heap::free(object);
  }
}

void pairs(Form form, unsigned count) {
  switch (form) {
    case Form::kOutOfLine: return pairs_out_of_line(count);
    case Form::kInlined: return pairs_inlined(count);
    case Form::kHeap: return pairs_in_heap(count);
  }
}

/// A class has no constructor: more blocks than will ever be held are written to, and marked as held by none.
void prepare_heap() {
  std::array<void*, 200> blocks;
  for (void*& block : blocks) __builtin_memset(block = qm::heap::allocate(sizeof(Object)), 0, sizeof(Object));
  for (void* block : blocks) qm::heap::free(block);
}

bool every_instruction_is_reached() { return !boot_argument("mode=plain"); }

/// @returns the number of interrupts inside a section that a run waits for: some hundreds for each instruction, fewer
///          with one instruction a block, which is slow. More if the boot arguments contain `full`.
std::uint32_t inside_wanted() {
  if (boot_argument("full")) return kInsideWanted;
  if (!probe::kSections || boot_argument("mode=plain")) return kInsideWanted / 40;
  return kInsideWanted / (boot_argument("mode=singlestep") ? 20 : 4);
}

/// Allocates and frees one object or a few, until inside_wanted() interrupts occurred inside sections of @p form, and
/// one at each instruction if the mode can do that. Most of the time goes to simple pairs, so that most interrupts
/// occur inside a section.
void fight(Form form) {
  qm::test::Random random;
  static qm::test::Random for_handler(qm::test::seed() + 1);
  handler_random = &for_handler;
  probe::reset();
  interrupts = violations = 0;
  from_heap = form == Form::kHeap;
  if (from_heap) prepare_heap();
  qm::firmware::set_tick_handler(tick, nullptr);
  change_period();
  std::array<Object*, 8> taken{};
  const std::uint32_t wanted = inside_wanted();
  const bool each = every_instruction_is_reached();
  const auto is_thorough = [&] {
    return probe::inside(form) >= wanted && !(each && probe::missed(form, &pairs_inlined, 2) != 0);
  };
  while (!is_thorough() && violations == 0) {
    const unsigned count = 1 + static_cast<unsigned>(random.below(taken.size()));
    for (unsigned i = 0; i < count; ++i) taken[i] = take(allocate(site_of_main()), kMain);
    for (unsigned i = 0; i < count; ++i) give(taken[i], kMain);
    pairs(form, 50);
  }
  qm::firmware::set_tick_handler(nullptr, nullptr);
  qm::firmware::set_tick_period(qm::hal::Port::hart_index(), 10000);
  if (violations == 0) give_kept();
  kept = {};
  from_heap = false;
}

class Sections : public testing::Test {
 protected:
  void SetUp() override {
    const qm::MemoryRange range{reinterpret_cast<std::uintptr_t>(memory), sizeof memory};
    ASSERT_EQ(qm::initialize({&range, 1}, 1), qm::Status::kOk);
    qm::attach_hart(0);
    qm::CacheConfig config;
    config.name = "contested";
    config.object_size = sizeof(Object);
    config.constructor = [](void* object, void*) noexcept {
      static_cast<Object*>(object)->holder = 0;
      return true;
    };
    ASSERT_EQ(Contested::create(config), qm::Status::kOk);
  }
  void TearDown() override {
    qm::shutdown();
    Contested::forget();
  }

  static void survive(Form form) {
    fight(form);
    EXPECT_GE(probe::inside(form), inside_wanted());
    EXPECT_EQ(violations, 0U);
    qm::Cache* cache = form == Form::kHeap ? heap_class() : Contested::cache();
    EXPECT_EQ(cache->stats().in_use, 0U);
    EXPECT_TRUE(cache->validate());
    EXPECT_EQ(cache->stats().misuses, 0U);
    EXPECT_TRUE(is_charged(site_of_main(), 0));
    EXPECT_TRUE(is_charged(site_of_handler(), 0));
    if (every_instruction_is_reached()) {
      EXPECT_EQ(probe::missed(form, &pairs_inlined, 2), 0U);
    }
    EXPECT_EQ(Contested::destroy(), qm::Status::kOk);
  }

  static qm::Cache* heap_class() {
    qm::RegistryCursor<qm::Cache> caches;
    return caches.find("kmalloc_64");
  }

  /// Interrupts occur at the store of the count, and no allocation is missing in it.
  static void count(Form form) {
    probe::reset();
    from_heap = form == Form::kHeap;
    if (from_heap) prepare_heap();
    qm::Cache* cache = from_heap ? heap_class() : Contested::cache();
    const std::size_t before = cache->stats().allocations;
    std::uint32_t mine = 0;
    static std::uint32_t handlers;
    handlers = 0;
    qm::firmware::set_tick_handler(
        [](void*) {
          auto* object = allocate(site_of_handler());
          if (object != nullptr) {
            ++handlers;
            object->holder = kHandler;
            give(object, kHandler);
          }
          if (handlers % 8 == 0) change_period();
        },
        nullptr);
    change_period();
    while (handlers < 2000) {
      for (int i = 0; i < 50; ++i) {
        void* object = form == Form::kHeap      ? qm::heap::allocate(sizeof(Object))
                       : form == Form::kInlined ? Contested::allocate()
                                                : Contested::cache()->allocate();
        if (object == nullptr) continue;
        ++mine;
        form == Form::kHeap      ? qm::heap::free(object)
        : form == Form::kInlined ? Contested::free(object)
                                 : Contested::cache()->free(object);
      }
    }
    qm::firmware::set_tick_handler(nullptr, nullptr);
    qm::firmware::set_tick_period(0, 10000);
    from_heap = false;
    EXPECT_EQ(cache->stats().allocations - before, static_cast<std::size_t>(mine) + handlers);
    if (every_instruction_is_reached()) {
      EXPECT_GT(probe::at_count(form), 0U);
    }
    EXPECT_EQ(Contested::destroy(), qm::Status::kOk);
  }

  /// Without the rewind the same test allocates objects twice, which shows that survive() can fail.
  static void lose_objects_without_the_rewind(Form form) {
    if (!probe::kSections || !every_instruction_is_reached()) return;
    if (qm::kCallSites) GTEST_SKIP() << "what comes out of the cache then is charged, and need not be memory";
    probe::rewinding = false;
    fight(form);
    probe::rewinding = true;
    EXPECT_GT(violations, 0U);
  }
};

TEST_F(Sections, out_of_line_survive_interrupts_that_allocate_at_every_instruction) { survive(Form::kOutOfLine); }
TEST_F(Sections, inlined_survive_interrupts_that_allocate_at_every_instruction) { survive(Form::kInlined); }

TEST_F(Sections, of_the_heap_survive_interrupts_that_allocate_at_every_instruction) { survive(Form::kHeap); }

TEST_F(Sections, out_of_line_count_every_allocation_under_interrupts) {
  if (qm::kCounted) count(Form::kOutOfLine);
}
TEST_F(Sections, inlined_count_every_allocation_under_interrupts) {
  if (qm::kCounted) count(Form::kInlined);
}

TEST_F(Sections, of_the_heap_count_every_allocation_under_interrupts) {
  if (qm::kCounted) count(Form::kHeap);
}

TEST_F(Sections, out_of_line_need_the_rewind) { lose_objects_without_the_rewind(Form::kOutOfLine); }
TEST_F(Sections, inlined_need_the_rewind) { lose_objects_without_the_rewind(Form::kInlined); }
TEST_F(Sections, of_the_heap_need_the_rewind) { lose_objects_without_the_rewind(Form::kHeap); }

}  // namespace
