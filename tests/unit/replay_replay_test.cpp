#include <gtest/gtest.h>

#include <array>

#include <qm/arena.hpp>
#include <qm/heap.hpp>
#include <qm/detail/page_map.hpp>
#include <qm/replay/replay.hpp>
#include <qm/system.hpp>
#include <qm/test/harts.hpp>

namespace replay_replay_test {

using namespace qm;
using replay::Header;
using replay::Kind;
using replay::Operation;

/// The heap as the allocator of a replay.
struct HeapFace {
  static void* allocate(std::size_t size) noexcept { return heap::allocate(size); }
  static void* reallocate(void* block, std::size_t size) noexcept { return heap::reallocate(block, size); }
  static void free(void* block) noexcept { heap::free(block); }
  template <class Ready>
  static void wait(const Ready& ready) noexcept {
    const hal::InterruptGuard masked;
    if (!ready()) hal::Port::wait_for_interrupt();
  }
  static void wake(std::uint32_t workers) noexcept {
    for (unsigned hart = 0; hart < hal::Port::kMaxHarts; ++hart) {
      if ((workers >> hart & 1) != 0 && hart != hal::Port::hart_index()) hal::Port::send_ipi(hart);
    }
  }
};

class ReplayTest : public testing::Test {
 protected:
  static constexpr std::size_t kPoolBytes = std::size_t{6} << 20;
  static constexpr std::size_t kTableBytes = std::size_t{5} << 20;

  void TearDown() override { shutdown(); }

  /// In one page-map leaf at any address of the image: a second leaf would add a page to the peak.
  static std::byte* pool() {
    static_assert(kPoolBytes <= PageMap::kLeafBytes);
    alignas(4096) static std::byte memory[2 * kPoolBytes];
    const std::size_t left_of_leaf =
        PageMap::kLeafBytes - reinterpret_cast<std::uintptr_t>(memory) % PageMap::kLeafBytes;
    return memory + (left_of_leaf < kPoolBytes ? left_of_leaf : 0);
  }
  static std::byte* tables() {
    alignas(8) static std::byte memory[kTableBytes];
    return memory;
  }

  void start(unsigned harts) {
    const MemoryRange range{reinterpret_cast<std::uintptr_t>(pool()), kPoolBytes};
    ASSERT_EQ(initialize({&range, 1}, harts), Status::kOk);
    attach_hart(0);
  }

  /// Decodes a recording into the tables.
  void read(const replay::Recording& recording) {
    ASSERT_TRUE(replay::read_header(recording.file, header_));
    ASSERT_LE(replay::unpack_bytes(header_) + replay::Replay<HeapFace>::slots_bytes(header_) + 8, kTableBytes);
    operations_ = replay::unpack(recording.file, tables());
    ASSERT_EQ(operations_.size(), header_.operations);
  }
  /// Behind the operations; unpack() no longer needs the memory there.
  [[nodiscard]] void* slots() const { return tables() + ((operations_.size_bytes() + 7) & ~std::size_t{7}); }

  /// Replays on @p workers harts; expects no error, and that all memory is freed.
  void replay_on(unsigned workers) {
    start(workers);
    replay::Replay<HeapFace> replay(header_, operations_, slots());
    qm::test::on_each_hart(workers, [&](unsigned hart) {
      if (hart != 0) attach_hart(hart);
      replay.work(hart, workers, [] { return true; });
      if (hart != 0) detach_hart(hart);
    });
    result_ = replay.result();
    peak_ = base_arena().stats().high_water;
    EXPECT_EQ(replay.free_rest(), 0U);
    EXPECT_EQ(result_.errors(), 0U);
    EXPECT_EQ(result_.operations, header_.operations);
    EXPECT_EQ(result_.left, header_.left);
    EXPECT_EQ(heap::misuses(), 0U);
    reclaim();
    EXPECT_TRUE(base_arena().validate());
    EXPECT_EQ(page_arena().stats().allocated, 0U);
  }

  Header header_;
  std::span<const Operation> operations_;
  replay::Result result_;
  std::size_t peak_ = 0;
};

struct Known {
  const char* name;
  std::uint32_t operations, peak_bytes, peak_blocks, crossed;
  std::uint32_t picolibc_bytes;  ///< memory that picolibc's malloc takes for it: bench/recorded/replay.json
};
constexpr Known kKnown[] = {{"sqlite", 88402, 1623803, 1172, 0, 1915520},
                            {"jq", 69406, 2642283, 25191, 0, 2976680},
                            {"redis-threads", 160000, 1595149, 19727, 29543, 1780128}};

TEST_F(ReplayTest, recordings_are_the_programs_they_say) {
  ASSERT_EQ(replay::recordings().size(), std::size(kKnown));
  for (const Known& known : kKnown) {
    const replay::Recording* recording = replay::find_recording(known.name);
    ASSERT_NE(recording, nullptr);
    read(*recording);
    EXPECT_EQ(header_.operations, known.operations);
    EXPECT_EQ(header_.peak_bytes, known.peak_bytes);
    EXPECT_EQ(header_.slots, known.peak_blocks);
    EXPECT_EQ(header_.crossed, known.crossed);
    auto* const sizes = static_cast<std::uint32_t*>(slots());
    std::uint32_t live = 0;
    std::uint32_t peak = 0;
    for (std::uint32_t i = 0; i < header_.slots; ++i) sizes[i] = 0;
    for (const Operation& operation : operations_) {
      const std::uint32_t size = operation.kind == static_cast<std::uint32_t>(Kind::kFree) ? 0 : operation.size;
      live += size - sizes[operation.slot];
      sizes[operation.slot] = size;
      peak = live > peak ? live : peak;
    }
    EXPECT_EQ(peak, known.peak_bytes);
  }
  EXPECT_EQ(replay::find_recording("nethack"), nullptr);
}

TEST_F(ReplayTest, a_damaged_recording_is_refused_wherever_it_is_cut) {
  const std::span<const std::uint8_t> file = replay::find_recording("sqlite")->file;
  for (std::size_t length = 0; length < file.size(); length += 97) {
    Header header;
    const auto cut = file.first(length);
    if (replay::read_header(cut, header)) {
      EXPECT_TRUE(replay::unpack(cut, tables()).empty()) << length;
    }
  }
}

TEST_F(ReplayTest, programs_get_what_they_ask_for_in_little_more_than_picolibc_takes) {
  if (kCallSites) GTEST_SKIP() << "16 bytes more a block: its tag, and what aligns the next";
  // Where a section can be closed, each cache has one per-hart cache more: with so many caches, one page.
  const std::size_t close_hart_caches = hal::Section::kShuts ? PageMap::kPageBytes : 0;
  for (const Known& known : kKnown) {
    SCOPED_TRACE(known.name);
    read(*replay::find_recording(known.name));
    replay_on(1);
    EXPECT_EQ(result_.peak_bytes, header_.peak_bytes);
    EXPECT_EQ(result_.crossed, 0U);
    EXPECT_LE(peak_, header_.peak_bytes * 13 / 10);
    EXPECT_LE((peak_ - close_hart_caches) * 100, known.picolibc_bytes * std::size_t{112});
    shutdown();
  }
}

TEST_F(ReplayTest, redis_gets_what_it_asks_for_with_its_threads_as_harts) {
  read(*replay::find_recording("redis-threads"));
  if (qm::test::harts() < header_.threads) GTEST_SKIP();
  replay_on(header_.threads);
  EXPECT_EQ(result_.crossed, header_.crossed);
  // Including idle memory on four harts; with call sites 16 bytes more for each block.
  EXPECT_LE(peak_, header_.peak_bytes * (kCallSites ? 15 : 13) / 10);
}

/// A heap that damages a byte of every thousandth block, and loses every thousandth reallocation.
struct SpoiledFace : HeapFace {
  static inline unsigned count = 0;
  static void* allocate(std::size_t size) noexcept {
    spoil();
    last = static_cast<unsigned char*>(heap::allocate(size));
    return last;
  }
  static void free(void* block) noexcept {
    if (block == last) last = nullptr;
    heap::free(block);
  }
  static void spoil() noexcept {
    if (++count % 1000 == 0 && last != nullptr) *last = static_cast<unsigned char>(*last + 1);
  }
  static inline unsigned char* last = nullptr;
};

TEST_F(ReplayTest, a_replay_sees_a_spoiled_block) {
  read(*replay::find_recording("jq"));
  start(1);
  replay::Replay<SpoiledFace> replay(header_, operations_, slots());
  replay.work(0, 1, [] { return true; });
  EXPECT_NE(replay.result().broken + replay.free_rest(), 0U);
}

}  // namespace replay_replay_test
