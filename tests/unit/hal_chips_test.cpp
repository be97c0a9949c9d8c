#include <gtest/gtest.h>

#include <qm/hal/chip/byte_ring.hpp>
#include <qm/hal/chip/finisher.hpp>
#include <qm/hal/chip/htif.hpp>
#include <qm/hal/chip/memory_map.hpp>
#include <qm/hal/chip/plic.hpp>
#include <qm/hal/chip/uart16550.hpp>
#include <qm/hal/chip/uart_sifive.hpp>

#include <array>
#include <string_view>

namespace hal_chips_test {

using namespace qm::hal;

/// A 16550 as its driver sees it: registers with side effects.
struct FakeUart {
  std::array<std::uint8_t, 8> written{};
  char sent[16] = {};
  std::size_t sent_count = 0;
  std::string_view incoming;
  unsigned busy_polls = 0;  // number of LSR reads until THRE is set after each byte
  unsigned busy = 0, lost = 0;
  bool overrun = false;
};
class FakeUartRegisters {
 public:
  explicit FakeUartRegisters(FakeUart& uart) : uart_(&uart) {}
  [[nodiscard]] std::uint8_t read(unsigned index) const {
    if (index == 0) {
      const char byte = uart_->incoming.front();
      uart_->incoming.remove_prefix(1);
      return static_cast<std::uint8_t>(byte);
    }
    if (index != 5) return uart_->written[index];
    std::uint8_t status = uart_->incoming.empty() ? 0 : 1;
    if (uart_->overrun) status |= 2;
    uart_->overrun = false;
    if (uart_->busy == 0) status |= 0x60;
    else --uart_->busy;
    return status;
  }
  void write(unsigned index, std::uint8_t value) const {
    uart_->written[index] = value;
    if (index != 0) return;
    if (uart_->busy != 0) ++uart_->lost;
    else uart_->sent[uart_->sent_count++] = static_cast<char>(value);
    uart_->busy = uart_->busy_polls;
  }

 private:
  FakeUart* uart_;
};

TEST(Uart16550, waits_for_room_before_every_byte) {
  FakeUart fake;
  fake.busy_polls = 3;
  Uart16550(FakeUartRegisters(fake)).write(std::string_view("hello"));
  EXPECT_EQ(fake.lost, 0u);
  EXPECT_TRUE(std::string_view(fake.sent, fake.sent_count) == "hello");
}

TEST(Uart16550, try_put_says_when_there_is_no_room) {
  FakeUart fake;
  fake.busy = 1;
  const Uart16550 uart{FakeUartRegisters(fake)};
  EXPECT_FALSE(uart.try_put('a'));
  EXPECT_TRUE(uart.try_put('b'));
  EXPECT_EQ(fake.sent_count, 1u);
}

TEST(Uart16550, is_initialised_with_fifos_and_the_receive_interrupt) {
  FakeUart fake;
  Uart16550(FakeUartRegisters(fake)).initialise(true);
  EXPECT_EQ(fake.written[1], 1u);
  EXPECT_EQ(fake.written[2], 5u);  // the driver does not clear the receiver
  EXPECT_EQ(fake.written[3], 3u);
}

TEST(Uart16550, takes_all_that_was_received_and_counts_overruns) {
  FakeUart fake;
  fake.incoming = "abc";
  fake.overrun = true;
  char taken[4] = {};
  std::size_t count = 0;
  const unsigned overruns =
      Uart16550(FakeUartRegisters(fake)).receive([&](std::uint8_t byte) { taken[count++] = static_cast<char>(byte); });
  EXPECT_EQ(overruns, 1u);
  EXPECT_TRUE(std::string_view(taken, count) == "abc");
}

struct FakeWords {
  std::uintptr_t index[8] = {};
  std::uint32_t value[8] = {};
  std::size_t writes = 0;
  std::uint32_t answer = 0;
  std::uintptr_t read_at = 0;
};
class FakeWordRegisters {
 public:
  explicit FakeWordRegisters(FakeWords& words) : words_(&words) {}
  [[nodiscard]] std::uint32_t read(std::uintptr_t index) const {
    words_->read_at = index;
    return words_->answer;
  }
  void write(std::uintptr_t index, std::uint32_t value) const {
    words_->index[words_->writes] = index;
    words_->value[words_->writes++] = value;
  }

 private:
  FakeWords* words_;
};

TEST(Plic, enables_a_source_beside_those_enabled_already) {
  FakeWords fake;
  fake.answer = 0x8;
  Plic(FakeWordRegisters(fake)).enable(3, 42);
  ASSERT_EQ(fake.writes, 2u);
  EXPECT_EQ(fake.index[0], 4u * 42);
  EXPECT_EQ(fake.value[0], 1u);
  EXPECT_EQ(fake.index[1], 0x2000u + 3 * 0x80 + 4);
  EXPECT_EQ(fake.value[1], 0x8u | 1u << 10);
}

TEST(Plic, claims_and_completes_at_the_contexts_register) {
  FakeWords fake;
  fake.answer = 10;
  const Plic plic{FakeWordRegisters(fake)};
  EXPECT_EQ(plic.claim(5), 10u);
  EXPECT_EQ(fake.read_at, 0x200000u + 5 * 0x1000 + 4);
  plic.complete(5, 10);
  EXPECT_EQ(fake.index[0], 0x200000u + 5 * 0x1000 + 4);
  EXPECT_EQ(fake.value[0], 10u);
}

TEST(UartSifive, is_switched_on_with_the_receive_interrupt) {
  FakeWords fake;
  UartSifive(FakeWordRegisters(fake)).initialise(true);
  ASSERT_EQ(fake.writes, 3u);
  EXPECT_EQ(fake.index[0], 0x08u);
  EXPECT_EQ(fake.value[0], 0x1'0001u) << "on, and pending when nothing waits";
  EXPECT_EQ(fake.index[1], 0x0cu);
  EXPECT_EQ(fake.value[1], 1u);
  EXPECT_EQ(fake.index[2], 0x10u);
  EXPECT_EQ(fake.value[2], 2u);
}

TEST(UartSifive, puts_only_where_there_is_room) {
  FakeWords fake;
  const UartSifive uart{FakeWordRegisters(fake)};
  fake.answer = 1u << 31;
  EXPECT_FALSE(uart.try_put('a'));
  EXPECT_EQ(fake.writes, 0u);
  fake.answer = 0;
  EXPECT_TRUE(uart.try_put('b'));
  EXPECT_EQ(fake.index[0], 0x00u);
  EXPECT_EQ(fake.value[0], static_cast<std::uint32_t>('b'));
}

/// Words, of which the one at offset 0 has an answer for each read.
struct FakeReceiver {
  std::array<std::uint32_t, 4> answers{};
  std::size_t reads = 0;
};
class FakeReceiverRegisters {
 public:
  explicit FakeReceiverRegisters(FakeReceiver& receiver) : receiver_(&receiver) {}
  [[nodiscard]] std::uint32_t read(std::uintptr_t) const { return receiver_->answers[receiver_->reads++]; }
  void write(std::uintptr_t, std::uint32_t) const {}

 private:
  FakeReceiver* receiver_;
};

TEST(UartSifive, takes_what_was_received_until_the_chip_is_empty) {
  FakeReceiver fake{{'h', 'i', 1u << 31}};
  std::array<char, 4> taken{};
  std::size_t count = 0;
  EXPECT_EQ(UartSifive(FakeReceiverRegisters(fake)).receive([&](std::uint8_t byte) {
    taken[count++] = static_cast<char>(byte);
  }),
            0u);
  EXPECT_TRUE(std::string_view(taken.data(), count) == "hi");
}

constexpr std::uint32_t kHtifMark = 1u << 31;

TEST(Htif, puts_a_byte_with_its_lower_half_first_and_marks_that_nothing_waits) {
  FakeWords fake;
  Htif htif{FakeWordRegisters(fake)};
  htif.put('x');
  ASSERT_EQ(fake.writes, 3u);
  EXPECT_EQ(fake.index[0], 8u);
  EXPECT_EQ(fake.value[0], static_cast<std::uint32_t>('x'));
  EXPECT_EQ(fake.index[1], 12u);
  EXPECT_EQ(fake.value[1], 0x0101'0000u);
  EXPECT_EQ(fake.index[2], 0u);
  EXPECT_EQ(fake.value[2], kHtifMark);
}

TEST(Htif, counts_the_bytes_that_it_takes_where_the_sender_looks) {
  FakeWords fake;
  Htif htif{FakeWordRegisters(fake)};
  unsigned taken = 0;
  const auto sink = [&](std::uint8_t byte) { taken += byte; };
  fake.answer = kHtifMark | 0x141;  // a count without a byte
  htif.receive(sink);
  EXPECT_EQ(taken, 0u);
  EXPECT_EQ(fake.writes, 0u);
  fake.answer = 0x100 | 'A';
  htif.receive(sink);
  htif.receive(sink);
  EXPECT_EQ(taken, 2u * 'A');
  EXPECT_EQ(fake.value[0], kHtifMark | 1);
  EXPECT_EQ(fake.value[1], kHtifMark | 2);
}

TEST(Htif, ends_with_the_status) {
  FakeWords fake;
  const Htif htif{FakeWordRegisters(fake)};
  htif.exit(101);
  EXPECT_EQ(fake.index[0], 8u);
  EXPECT_EQ(fake.value[0], 101u << 1 | 1);
  EXPECT_EQ(fake.index[1], 12u);
  EXPECT_EQ(fake.value[1], 0u);
}

TEST(Finisher, passes_for_0_and_fails_with_the_status) {
  FakeWords fake;
  const Finisher finisher{FakeWordRegisters(fake)};
  finisher.exit(0);
  finisher.exit(101);
  finisher.exit(256);  // the emulator keeps 8 bits, which are 0
  EXPECT_EQ(fake.value[0], 0x5555u);
  EXPECT_EQ(fake.value[1], 101u << 16 | 0x3333);
  EXPECT_EQ(fake.value[2], 0x5555u);
}

TEST(ByteRing, keeps_order_and_counts_what_does_not_fit) {
  ByteRing<8> ring;
  char out[8];
  for (int lap = 0; lap < 5; ++lap) {
    for (std::uint8_t i = 0; i < 11; ++i) ring.push(static_cast<std::uint8_t>('a' + i), 3);
    EXPECT_EQ(ring.waiting(), 8u);
    ASSERT_EQ(ring.pop(std::span(out).first(3)), 3u);
    EXPECT_TRUE(std::string_view(out, 3) == "abc");
    ASSERT_EQ(ring.pop(out), 5u);
    EXPECT_TRUE(std::string_view(out, 5) == "defgh");
    EXPECT_EQ(ring.pop(out), 0u);
    EXPECT_EQ(ring.lost(), 3u * static_cast<unsigned>(lap + 1));
  }
}

TEST(ByteRing, knows_of_a_mark_until_it_was_taken) {
  ByteRing<8> ring;
  char out[8];
  EXPECT_FALSE(ring.marked());
  for (const std::uint8_t byte : {1, 3, 2}) ring.push(byte, 3);
  EXPECT_TRUE(ring.marked());
  ring.pop(std::span(out).first(1));
  EXPECT_TRUE(ring.marked());
  ring.pop(std::span(out).first(1));
  EXPECT_FALSE(ring.marked());
  EXPECT_EQ(ring.waiting(), 1u);
}

TEST(ByteRing, knows_of_a_mark_that_did_not_fit) {
  ByteRing<4> ring;
  char out[4];
  for (const std::uint8_t byte : {1, 1, 1, 1, 3}) ring.push(byte, 3);
  EXPECT_TRUE(ring.marked());
  ring.pop(std::span(out).first(3));
  EXPECT_TRUE(ring.marked());
  ring.pop(out);
  EXPECT_FALSE(ring.marked());
}

TEST(ByteRing, drops_to_the_last_mark_only) {
  ByteRing<8> ring;
  char out[8];
  for (const std::uint8_t byte : {1, 3, 2, 3, 7, 8}) ring.push(byte, 3);
  ring.drop_to_mark();
  ASSERT_EQ(ring.pop(out), 2u);
  EXPECT_EQ(out[0], 7);
  ring.push(9, 3);
  ring.drop_to_mark();
  EXPECT_EQ(ring.pop(out), 1u);
}

TEST(MemoryMap, cuts_ends_middles_and_wholes) {
  MemoryMap map;
  map.add({0x1000, 0x9000});
  EXPECT_TRUE(map.remove({0x0, 0x2000}));
  EXPECT_TRUE(map.remove({0x8000, 0xa000}));
  EXPECT_TRUE(map.remove({0x4000, 0x5000}));
  ASSERT_EQ(map.ranges().size(), 2u);
  EXPECT_EQ(map.ranges()[0].low, 0x2000u);
  EXPECT_EQ(map.ranges()[0].high, 0x4000u);
  EXPECT_EQ(map.ranges()[1].low, 0x5000u);
  EXPECT_EQ(map.ranges()[1].high, 0x8000u);
  EXPECT_EQ(map.bytes(), 0x5000u);
  EXPECT_TRUE(map.remove({0x1000, 0x6000}));
  ASSERT_EQ(map.ranges().size(), 1u);
  EXPECT_EQ(map.ranges()[0].low, 0x6000u);
}

TEST(MemoryMap, never_gives_back_what_was_cut_when_it_is_full) {
  MemoryMap map;
  for (std::uintptr_t i = 0; i < MemoryMap::kMaxRanges; ++i) EXPECT_TRUE(map.add({i * 0x100, i * 0x100 + 0x80}));
  EXPECT_FALSE(map.add({0x10000, 0x20000}));
  EXPECT_FALSE(map.remove({0x20, 0x30}));
  EXPECT_EQ(map.ranges()[0].high, 0x20u);
}

TEST(MemoryMap, trims_inwards) {
  MemoryMap map;
  map.add({0x1001, 0x3fff});
  map.add({0x8001, 0x8fff});
  map.trim(0x1000);
  ASSERT_EQ(map.ranges().size(), 1u);
  EXPECT_EQ(map.ranges()[0].low, 0x2000u);
  EXPECT_EQ(map.ranges()[0].high, 0x3000u);
}

}  // namespace hal_chips_test
