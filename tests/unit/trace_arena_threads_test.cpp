// The live trace of an arena while all harts allocate from it: the result of a command holds for every hart.

#include "trace_fixture.hpp"

#include <atomic>

#include <qm/arena.hpp>
#include <qm/heap.hpp>
#include <qm/test/harts.hpp>

namespace trace_arena_threads_test {

using namespace qm;
using trace::State;

/// The phase that hart 0 has published. Odd numbers: a command is in progress.
constexpr std::uint32_t kOff = 0;
constexpr std::uint32_t kOn = 2;

class TraceArenaThreads : public qm::test::TraceTest {};

TEST_F(TraceArenaThreads, each_segment_is_recorded_exactly_when_the_answered_command_says_so) {
  const unsigned harts = qm::test::harts();
  if (harts < 2) GTEST_SKIP() << "needs two harts";
  begin_again({}, harts);
  RegistryCursor<Arena> arenas;
  Arena& kheap = *arenas.find("kheap");
  std::atomic<std::uint32_t> phase{0};  // increases; phase % 4 is kOff or kOn, or odd
  std::atomic<std::uint32_t> done{0};
  std::atomic<std::uint32_t> judged[2] = {0, 0};
  std::atomic<std::uint32_t> wrong{0};
  qm::test::on_each_hart(harts, [&](unsigned hart) {
    attach_hart(hart);
    if (hart == 0) {
      for (unsigned cycle = 0; cycle < 50; ++cycle) {
        const auto until_judged = [&](unsigned which) {
          const std::uint32_t before = judged[which].load();
          while (judged[which].load() < before + 20) hal::Port::relax();
        };
        until_judged(0);
        phase.fetch_add(1);
        EXPECT_EQ(trace::start("kheap").status, Status::kOk);
        phase.fetch_add(1);
        until_judged(1);
        if (cycle % 3 == 0) {
          phase.fetch_add(1);
          EXPECT_EQ(trace::reset("kheap").status, Status::kOk);
          EXPECT_EQ(trace::stop("kheap").status, Status::kOk);
        } else {
          phase.fetch_add(1);
          EXPECT_EQ(trace::stop("kheap").status, Status::kOk);
        }
        phase.fetch_add(1);
      }
      done = 1;
      return;
    }
    constexpr unsigned kBlocks = 8;
    void* blocks[kBlocks] = {};
    for (unsigned i = 0; done.load() == 0; i = (i + 1) % kBlocks) {
      if (blocks[i] != nullptr) heap::free(blocks[i]);
      const std::uint32_t before = phase.load();
      blocks[i] = heap::allocate(7000 + 512 * i);
      const std::uint32_t* handle = kheap.handle(reinterpret_cast<std::uintptr_t>(blocks[i]));
      const bool has_record = handle != nullptr && *handle != 0;
      if (phase.load() != before || before % 2 != 0) continue;
      if (has_record != (before % 4 == kOn)) wrong.fetch_add(1);
      judged[before % 4 == kOn ? 1 : 0].fetch_add(1);
      static_assert(kOff == 0);
    }
    for (void* block : blocks) heap::free(block);
  });
  EXPECT_EQ(wrong.load(), 0U);
  EXPECT_EQ(trace::cache_trace(kheap).live, 0U);
  EXPECT_EQ(trace::cache_trace(kheap).state, State::kOff);
  EXPECT_EQ(kheap.segments_held(), 0U);
  EXPECT_TRUE(trace::validate());
}

}  // namespace trace_arena_threads_test
