#include <gtest/gtest.h>

#include <qm/hal/chip/board.hpp>
#include <qm/hal/chip/fdt.hpp>
#include <qm/test/seed.hpp>

#include <array>
#include <cstring>
#include <initializer_list>

namespace hal_device_tree_test {

using namespace qm::hal;

/// Writes a flattened device tree into a fixed buffer.
class TreeBuilder {
 public:
  TreeBuilder() {
    structure_.fill({});
    strings_.fill({});
    blob_.fill({});
  }
  TreeBuilder& begin(std::string_view name) {
    u32(1);
    string(name);
    return *this;
  }
  TreeBuilder& end() {
    u32(2);
    return *this;
  }
  TreeBuilder& cells(std::string_view name, std::initializer_list<std::uint32_t> values) {
    property(name, 4 * values.size());
    for (const std::uint32_t value : values) u32(value);
    return *this;
  }
  TreeBuilder& text(std::string_view name, std::string_view value) {
    property(name, value.size() + 1);
    string(value);
    return *this;
  }
  /// @returns the finished blob: header, one reservation and its end, structure, strings.
  Fdt::Bytes finish() {
    u32(9);
    constexpr std::size_t kReservations = 40, kStructure = kReservations + 32;
    const std::size_t total = kStructure + structure_size_ + strings_size_;
    const std::size_t header[] = {
        0xd00dfeed, total,         kStructure,     kStructure + structure_size_, kReservations, 17, 16,
        0,          strings_size_, structure_size_};
    for (std::size_t i = 0; i < 10; ++i) put(4 * i, static_cast<std::uint32_t>(header[i]));
    put(kReservations + 4, 0x8800'0000);
    put(kReservations + 12, 0x1000);
    std::memcpy(blob_.data() + kStructure, structure_.data(), structure_size_);
    std::memcpy(blob_.data() + kStructure + structure_size_, strings_.data(), strings_size_);
    return {blob_.data(), total};
  }

 private:
  void put(std::size_t at, std::uint32_t value) {
    for (std::size_t i = 0; i < 4; ++i) blob_[at + i] = static_cast<std::byte>(value >> (24 - 8 * i));
  }
  void u32(std::uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) structure_[structure_size_++] = static_cast<std::byte>(value >> shift);
  }
  void string(std::string_view value) {
    std::memcpy(structure_.data() + structure_size_, value.data(), value.size());
    structure_size_ += value.size();
    do structure_[structure_size_++] = std::byte{0};
    while (structure_size_ % 4 != 0);
  }
  void property(std::string_view name, std::size_t bytes) {
    u32(3);
    u32(static_cast<std::uint32_t>(bytes));
    u32(static_cast<std::uint32_t>(strings_size_));
    std::memcpy(strings_.data() + strings_size_, name.data(), name.size());
    strings_size_ += name.size() + 1;
  }

  // Static: too large for a target's stack. Only one builder exists at a time.
  static inline std::array<std::byte, 8192> structure_, strings_;
  static inline std::array<std::byte, 16384> blob_;
  std::size_t structure_size_ = 0, strings_size_ = 0;
};

// clang-format off
TreeBuilder& cpu(TreeBuilder& tree, std::uint32_t id, std::uint32_t handle, std::string_view status) {
  return tree.begin("cpu@N").text("device_type", "cpu").cells("reg", {id}).text("status", status)
      .begin("interrupt-controller").text("compatible", "riscv,cpu-intc").cells("phandle", {handle}).end().end();
}

/// A tree like that of QEMU's virt board with two harts in use, 1 and 4, and one that is not.
Fdt::Bytes virt(TreeBuilder& tree) {
  tree.begin("").cells("#address-cells", {2}).cells("#size-cells", {2});
  tree.begin("chosen").text("bootargs", "trace=* ring=4K").end();
  tree.begin("memory@80000000").text("device_type", "memory").cells("reg", {0, 0x8000'0000, 0, 0x0800'0000}).end();
  tree.begin("reserved-memory").cells("#address-cells", {2}).cells("#size-cells", {2})
      .begin("mmode_resv0@80000000").cells("reg", {0, 0x8000'0000, 0, 0x8'0000}).end().end();
  tree.begin("cpus").cells("#address-cells", {1}).cells("#size-cells", {0}).cells("timebase-frequency", {10'000'000});
  cpu(tree, 1, 11, "okay");
  cpu(tree, 2, 12, "disabled");
  cpu(tree, 4, 14, "okay");
  tree.end();
  tree.begin("soc").cells("#address-cells", {2}).cells("#size-cells", {2});
  tree.begin("serial@10000000").cells("interrupts", {10}).cells("reg", {0, 0x1000'0000, 0, 0x100})
      .text("compatible", "ns16550a").end();
  tree.begin("plic@c000000").cells("interrupts-extended", {11, 11, 11, 9, 12, 11, 12, 9, 14, 11, 14, 9})
      .cells("reg", {0, 0x0c00'0000, 0, 0x60'0000}).text("compatible", std::string_view("sifive,plic-1.0.0\0riscv,plic0", 29)).end();
  tree.begin("test@100000").cells("reg", {0, 0x10'0000, 0, 0x1000})
      .text("compatible", std::string_view("sifive,test1\0sifive,test0\0syscon", 32)).end();
  tree.end().end();
  return tree.finish();
}
// clang-format on

TEST(DeviceTree, gives_the_board) {
  TreeBuilder tree;
  const auto fdt = Fdt::open(virt(tree));
  ASSERT_TRUE(fdt.has_value());
  Board board;
  ASSERT_TRUE(discover(*fdt, board));
  EXPECT_EQ(board.timebase_hz, 10'000'000u);
  EXPECT_TRUE(board.bootargs == "trace=* ring=4K");
  ASSERT_EQ(board.memory.ranges().size(), 1u);
  EXPECT_EQ(board.memory.ranges()[0].low, 0x8000'0000u);
  EXPECT_EQ(board.memory.bytes(), 0x0800'0000u);
  ASSERT_EQ(board.reserved.ranges().size(), 2u);
  EXPECT_EQ(board.reserved.ranges()[0].high, 0x8008'0000u);
  EXPECT_EQ(board.reserved.ranges()[1].low, 0x8800'0000u);
  EXPECT_EQ(board.uart.base, 0x1000'0000u);
  EXPECT_EQ(board.uart.interrupt, 10u);
  EXPECT_EQ(board.plic.base, 0x0c00'0000u);
  EXPECT_EQ(board.finisher.base, 0x10'0000u);
}

// As on QEMU's spike and sifive_u, for the latter including the harts.
TEST(DeviceTree, gives_the_line_of_other_boards) {
  // clang-format off
  TreeBuilder tree;
  tree.begin("").cells("#address-cells", {2}).cells("#size-cells", {2});
  tree.begin("htif").cells("reg", {0, 0x100'0000, 0, 0x1000}).text("compatible", "ucb,htif0").end();
  tree.end();
  Board spike;
  ASSERT_TRUE(discover(*Fdt::open(tree.finish()), spike));
  EXPECT_EQ(spike.uart_kind, Board::UartKind::kHtif);
  EXPECT_EQ(spike.uart.base, 0x100'0000u);
  EXPECT_EQ(spike.uart.interrupt, 0u);
  EXPECT_EQ(spike.htif.base, 0x100'0000u);
  EXPECT_EQ(spike.plic.base, 0u);

  TreeBuilder other;
  other.begin("").cells("#address-cells", {2}).cells("#size-cells", {2});
  other.begin("cpus").cells("#address-cells", {1}).cells("#size-cells", {0});
  cpu(other, 0, 7, "disabled");
  cpu(other, 1, 6, "okay");
  other.end();
  other.begin("soc").cells("#address-cells", {2}).cells("#size-cells", {2});
  other.begin("serial@10010000").cells("interrupts", {4}).cells("reg", {0, 0x1001'0000, 0, 0x1000}).text("compatible", "sifive,uart0").end();
  other.begin("serial@10011000").cells("interrupts", {5}).cells("reg", {0, 0x1001'1000, 0, 0x1000}).text("compatible", "sifive,uart0").end();
  other.begin("plic@c000000").cells("interrupts-extended", {7, 11, 6, 11, 6, 9})
      .cells("reg", {0, 0x0c00'0000, 0, 0x400'0000}).text("compatible", "riscv,plic0").end();
  other.end().end();
  // clang-format on
  Board sifive;
  ASSERT_TRUE(discover(*Fdt::open(other.finish()), sifive));
  EXPECT_EQ(sifive.uart_kind, Board::UartKind::kSifive);
  EXPECT_EQ(sifive.uart.base, 0x1001'0000u) << "the first of two";
  EXPECT_EQ(sifive.uart.interrupt, 4u);
  EXPECT_EQ(sifive.htif.base, 0u);
  ASSERT_EQ(sifive.hart_count, 1u);
  EXPECT_EQ(sifive.harts[0].id, 1u);
  EXPECT_EQ(sifive.harts[0].plic_context, 2u);
}

TEST(DeviceTree, gathers_the_memory_of_several_nodes_and_entries) {
  TreeBuilder tree;
  tree.begin("").cells("#address-cells", {2}).cells("#size-cells", {2});
  // clang-format off
  tree.begin("memory@80000000").text("device_type", "memory").cells("numa-node-id", {0})
      .cells("reg", {0, 0x8000'0000, 0, 0x0400'0000}).end();
  tree.begin("memory@1080000000").text("device_type", "memory").cells("numa-node-id", {1})
      .cells("reg", {0, 0xc000'0000, 0, 0x0100'0000, 0, 0xd000'0000, 0, 0x0020'0000}).end();
  tree.begin("memory@e0000000").text("device_type", "memory").text("status", "disabled")
      .cells("reg", {0, 0xe000'0000, 0, 0x0100'0000}).end();
  tree.begin("memory@f0000000").text("device_type", "memory").cells("reg", {0, 0xf000'0000, 0, 0}).end();
  tree.begin("reserved-memory").cells("#address-cells", {2}).cells("#size-cells", {2})
      .begin("firmware@80000000").cells("reg", {0, 0x8000'0000, 0, 0x8'0000}).end()
      .begin("window@c0800000").cells("reg", {0, 0xc080'0000, 0, 0x1000, 0, 0xd000'0000, 0, 0x1000}).end().end();
  tree.end();
  // clang-format on
  const auto fdt = Fdt::open(tree.finish());
  ASSERT_TRUE(fdt.has_value());
  Board board;
  ASSERT_TRUE(discover(*fdt, board));
  ASSERT_EQ(board.memory.ranges().size(), 3u);
  EXPECT_EQ(board.memory.bytes(), 0x0520'0000u);
  MemoryMap free = board.memory;
  for (const MemoryRange& range : board.reserved.ranges()) EXPECT_TRUE(free.remove(range));
  const MemoryRange expected[] = {
      {0x8008'0000, 0x8400'0000}, {0xc000'0000, 0xc080'0000}, {0xd000'1000, 0xd020'0000}, {0xc080'1000, 0xc100'0000}};
  ASSERT_EQ(free.ranges().size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(free.ranges()[i].low, expected[i].low);
    EXPECT_EQ(free.ranges()[i].high, expected[i].high);
  }
}

TEST(DeviceTree, lists_usable_harts_with_their_plic_context) {
  TreeBuilder tree;
  Board board;
  ASSERT_TRUE(discover(*Fdt::open(virt(tree)), board));
  ASSERT_EQ(board.hart_count, 2u);
  EXPECT_EQ(board.harts[0].id, 1u);
  EXPECT_EQ(board.harts[0].plic_context, 1u);
  EXPECT_EQ(board.harts[1].id, 4u);
  EXPECT_EQ(board.harts[1].plic_context, 5u);
}

TEST(DeviceTree, lists_the_context_of_the_mode_that_asks) {
  TreeBuilder tree;
  Board board;
  constexpr std::uint32_t kMachineExternal = 11;
  ASSERT_TRUE(discover(*Fdt::open(virt(tree)), board, kMachineExternal));
  ASSERT_EQ(board.hart_count, 2u);
  EXPECT_EQ(board.harts[0].plic_context, 0u);
  EXPECT_EQ(board.harts[1].plic_context, 4u);
}

TEST(DeviceTree, leaves_out_and_counts_harts_beyond_the_most) {
  TreeBuilder tree;
  tree.begin("").begin("cpus").cells("#address-cells", {1});
  for (std::uint32_t id = 0; id < Board::kMaxHarts + 3; ++id) cpu(tree, id, id + 1, "okay");
  tree.end().end();
  Board board;
  ASSERT_TRUE(discover(*Fdt::open(tree.finish()), board));
  EXPECT_EQ(board.hart_count, Board::kMaxHarts);
  EXPECT_EQ(board.harts_left_out, 3u);
}

TEST(DeviceTree, counts_what_is_reserved_beyond_the_most) {
  TreeBuilder tree;
  tree.begin("").begin("reserved-memory").cells("#address-cells", {1}).cells("#size-cells", {1});
  for (std::uint32_t i = 0; i < MemoryMap::kMaxRanges + 2; ++i) {
    tree.begin("one").cells("reg", {0x8000'0000 + i * 0x2000, 0x1000}).end();
  }
  tree.end().end();
  Board board;
  ASSERT_TRUE(discover(*Fdt::open(tree.finish()), board));
  EXPECT_EQ(board.reserved.ranges().size(), MemoryMap::kMaxRanges);
  EXPECT_EQ(board.reserved_left_out, 3u) << "the builder's own reservation too";
}

TEST(DeviceTree, passes_over_nodes_nested_too_deep) {
  TreeBuilder tree;
  for (int i = 0; i < 40; ++i) tree.begin("a").cells("reg", {1});
  for (int i = 0; i < 40; ++i) tree.end();
  Board board;
  EXPECT_TRUE(discover(*Fdt::open(tree.finish()), board));
}

TEST(DeviceTree, is_refused_when_it_is_none) {
  TreeBuilder tree;
  const Fdt::Bytes blob = virt(tree);
  EXPECT_EQ(Fdt::declared_bytes(nullptr), 0u);
  EXPECT_EQ(Fdt::declared_bytes(blob.data()), blob.size());
  EXPECT_EQ(Fdt::declared_bytes(blob.data() + 4), 0u);
  EXPECT_FALSE(Fdt::open(blob.first(39)).has_value());
  EXPECT_FALSE(Fdt::open(blob.first(blob.size() - 1)).has_value());
  EXPECT_FALSE(Fdt::open(blob.subspan(4)).has_value());
}

/// Reads @p blob, which ends where its buffer ends, so that a sanitizer detects a read behind it.
void judge_anything(Fdt::Bytes blob) {
  const auto fdt = Fdt::open(blob);
  if (!fdt) return;
  Board board;
  discover(*fdt, board);
  EXPECT_LE(board.hart_count, Board::kMaxHarts);
  if (!board.bootargs.empty()) {
    const auto* const at = reinterpret_cast<const std::byte*>(board.bootargs.data());
    EXPECT_TRUE(at >= blob.data() && at + board.bootargs.size() < blob.data() + blob.size());
  }
}

TEST(DeviceTree, survives_every_truncation) {
  TreeBuilder tree;
  const Fdt::Bytes whole = virt(tree);
  static std::array<std::byte, 8192> buffer;
  for (std::size_t size = 40; size < whole.size(); ++size) {
    // It ends at the buffer's end, and the header has the new size, so only the blocks are cut.
    const auto blob = std::span(buffer).last(size);
    std::memcpy(blob.data(), whole.data(), size);
    for (std::size_t i = 0; i < 4; ++i) blob[4 + i] = static_cast<std::byte>(size >> (24 - 8 * i));
    judge_anything(blob);
  }
}

TEST(DeviceTree, survives_flipped_bytes) {
  TreeBuilder tree;
  const Fdt::Bytes whole = virt(tree);
  static std::array<std::byte, 8192> buffer;
  qm::test::Random random;
  for (int round = 0; round < 3000; ++round) {
    const auto blob = std::span(buffer).last(whole.size());
    std::memcpy(blob.data(), whole.data(), whole.size());
    for (std::uint64_t flips = random.between(1, 8); flips != 0; --flips) {
      blob[random.below(blob.size())] = static_cast<std::byte>(random.next());
    }
    judge_anything(blob);
  }
}

}  // namespace hal_device_tree_test
