/// The restartable sections under fire: a timer interrupt that allocates from and frees to the same cache on the same hart
/// lands, at random, at every instruction of every section.
///
/// qm_rewind() is wrapped at link time (--wrap): the wrapper counts where interrupts fall, and can leave the rewind out, to
/// see that the test would notice.
///
/// Plain TCG takes interrupts at block starts only; the modes icount and singlestep reach every instruction.

#include <gtest/gtest.h>

#include <array>
#include <string_view>

#include <qm/cache.hpp>
#include <qm/firmware/boot.hpp>
#include <qm/firmware/interrupt.hpp>
#include <qm/hal/port.hpp>
#include <qm/rewind.hpp>
#include <qm/system.hpp>
#include <qm/test/seed.hpp>

extern "C" {
extern const char qm_sections_start[];
extern const char qm_sections_end[];
std::uintptr_t __real_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept;
std::uintptr_t __wrap_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept;
}

namespace {

constexpr std::uint32_t kInsideWanted = 100'000;
constexpr unsigned kSlots = 64;  // instructions of all sections

std::array<std::uint32_t, kSlots> hits;
std::uint32_t inside;
std::uint32_t interrupts;
bool rewinding = true;

qm::Cache* cache;
std::uint32_t violations;
qm::test::Random* handler_random;

/// An object knows whether somebody holds it.
struct Object {
  std::uint32_t holder;  // 0: nobody
  std::uint32_t rest[15];
};

alignas(4096) std::byte memory[1 << 20];

/// Without the rewind anything may come out of the cache.
bool is_plausible(const Object* object) {
  const auto offset = reinterpret_cast<std::uintptr_t>(object) - reinterpret_cast<std::uintptr_t>(memory);
  return offset < sizeof memory && offset % alignof(Object) == 0;
}

/// Takes an object for @p holder. @returns nullptr if there is none, or none that may be touched.
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
  cache->free(object);
}

constexpr std::uint32_t kMain = 1;
constexpr std::uint32_t kHandler = 2;

/// Sets the next ticks at random: the interrupts must not march in step with the loop.
void change_period() {
  qm::firmware::set_tick_period(qm::hal::Port::hart_index(), static_cast<std::uint32_t>(handler_random->between(30, 90)));
}

std::array<Object*, 3> kept;

void give_kept() {
  for (Object*& object : kept) {
    give(object, kHandler);
    object = nullptr;
  }
}

/// Gives back what the last tick took, oldest first, and takes up to three others: the magazine is never left as it was found.
void tick(void*) {
  if (violations != 0) return;  // without the rewind: the cache is not to be touched any more
  give_kept();
  const unsigned count = 1 + interrupts % kept.size();
  for (unsigned i = 0; i < count; ++i) kept[i] = take(static_cast<Object*>(cache->allocate()), kHandler);
  if (++interrupts % 8 == 0) change_period();
}

/// Allocates and frees, one object or a few, until @p wanted interrupts fell into a section.
void fight(std::uint32_t wanted) {
  qm::test::Random random;
  static qm::test::Random for_handler(qm::test::seed() + 1);
  handler_random = &for_handler;
  hits = {};
  inside = interrupts = violations = 0;
  qm::firmware::set_tick_handler(tick, nullptr);
  change_period();
  std::array<Object*, 8> taken{};
  while (inside < wanted && violations == 0) {
    const unsigned count = 1 + static_cast<unsigned>(random.below(taken.size()));
    for (unsigned i = 0; i < count; ++i) {
      taken[i] = take(static_cast<Object*>(random.chance(50) ? cache->allocate() : cache->allocate_at(nullptr, 64)), kMain);
    }
    for (unsigned i = 0; i < count; ++i) give(taken[i], kMain);
    // Most of the time goes to bare pairs, so that most interrupts fall into a section; without the rewind each is looked at.
    for (int pairs = 0; pairs < 50 && violations == 0; ++pairs) {
      auto* object = static_cast<Object*>(cache->allocate());
      if (!rewinding) object = take(object, kMain);
      if (!rewinding) give(object, kMain);
      if (rewinding && object != nullptr) cache->free(object);
    }
  }
  qm::firmware::set_tick_handler(nullptr, nullptr);
  qm::firmware::set_tick_period(qm::hal::Port::hart_index(), 10000);
  if (violations == 0) give_kept();
  kept = {};
}

bool boot_argument(const char* text) {
  const std::string_view arguments = qm::firmware::boot_info().bootargs;
  const std::size_t length = __builtin_strlen(text);
  for (std::size_t at = 0; at + length <= arguments.size(); ++at) {
    if (__builtin_memcmp(arguments.data() + at, text, length) == 0) return true;
  }
  return false;
}

bool every_instruction_is_reached() { return !boot_argument("mode=plain"); }

/// Interrupts inside a section that a run waits for. One instruction a block is slow: there it is fewer, unless `full` stands in
/// the boot arguments.
std::uint32_t inside_wanted() {
  if (boot_argument("mode=plain")) return kInsideWanted / 20;
  return boot_argument("mode=singlestep") && !boot_argument("full") ? kInsideWanted / 5 : kInsideWanted;
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
    cache = qm::Cache::create(config);
    ASSERT_NE(cache, nullptr);
  }
  void TearDown() override { qm::shutdown(); }
};

TEST_F(Sections, survive_interrupts_that_allocate_at_every_instruction) {
  rewinding = true;
  fight(inside_wanted());
  EXPECT_GE(inside, inside_wanted());
  EXPECT_EQ(violations, 0U);
  EXPECT_EQ(cache->stats().in_use, 0U);
  EXPECT_TRUE(cache->validate());
  EXPECT_EQ(cache->stats().misuses, 0U);
  if (every_instruction_is_reached()) {
    // From each section's first instruction to its committing store.
    const auto from = [](auto* function) { return reinterpret_cast<const char*>(function) - qm_sections_start; };
    for (const long start : {from(&qm_cache_allocate), from(&qm_cache_allocate_at), from(&qm_cache_free)}) {
      const long block = start / 64 * 64;
      const long commit = block + (qm::kCounted ? 36 : 28);
      for (long at = start; at <= commit; at += 4) EXPECT_GT(hits[at / 4], 0U) << "offset " << at;
    }
  }
  EXPECT_EQ(qm::Cache::destroy(cache), qm::Status::kOk);
}

TEST_F(Sections, count_every_allocation_under_interrupts) {
  if (!qm::kCounted) return;
  rewinding = true;
  const std::size_t before = cache->stats().allocations;
  std::uint32_t mine = 0;
  static std::uint32_t handlers;
  handlers = 0;
  qm::firmware::set_tick_handler(
      [](void*) {
        void* object = cache->allocate();
        if (object != nullptr) {
          ++handlers;
          cache->free(object);
        }
        if (handlers % 8 == 0) change_period();
      },
      nullptr);
  change_period();
  while (handlers < 2000) {
    for (int i = 0; i < 50; ++i) {
      void* object = cache->allocate();
      if (object == nullptr) continue;
      ++mine;
      cache->free(object);
    }
  }
  qm::firmware::set_tick_handler(nullptr, nullptr);
  qm::firmware::set_tick_period(0, 10000);
  EXPECT_EQ(cache->stats().allocations - before, static_cast<std::size_t>(mine) + handlers);
}

/// The same without the rewind hands objects out twice: the first case can fail.
TEST_F(Sections, need_the_rewind) {
  if (!every_instruction_is_reached()) return;
  rewinding = false;
  fight(inside_wanted());
  rewinding = true;
  EXPECT_GT(violations, 0U);
}

}  // namespace

std::uintptr_t __wrap_qm_rewind(std::uintptr_t pc, const std::uintptr_t* registers) noexcept {
  const std::uintptr_t offset = pc - reinterpret_cast<std::uintptr_t>(qm_sections_start);
  const std::uintptr_t resumed = __real_qm_rewind(pc, registers);
  if (offset < static_cast<std::uintptr_t>(qm_sections_end - qm_sections_start)) {
    ++hits[offset / 4];
    if (resumed < pc) ++inside;
  }
  return rewinding || resumed > pc ? resumed : pc;
}
