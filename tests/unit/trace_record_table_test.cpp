// Records in slots that never move; the sequence; labels of contexts; patterns for names.

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <string_view>

#include <qm/test/seed.hpp>
#include <qm/trace/context_table.hpp>
#include <qm/trace/record_table.hpp>

namespace trace_record_table_test {

using namespace qm::trace;

constexpr unsigned kChunks = 4;
constexpr unsigned kAll = kChunks * kChunkRecords;
constexpr unsigned kBatch = qm::trace::RecordTable::kBatch;

class RecordTable : public testing::Test {
 protected:
  void SetUp() override { table.initialize(directory, stashes, kAll); }
  static Record make(std::uint32_t object, std::uint64_t sequence, std::uint32_t cache = 1, unsigned hart = 0) {
    Record record;
    record.object = object;
    record.set_place(cache, hart, sequence);
    record.stack_context = 77;
    record.size = 100 + object;
    return record;
  }
  void grow() { ASSERT_TRUE(table.add_chunk(chunks[table.chunks()])); }
  /// Removes on hart 0, as almost all tests do.
  static bool remove(SlotId slot, std::uint32_t object, std::uint32_t cache = 1) {
    return table.remove(0, slot, object, cache, former);
  }

  static inline qm::trace::RecordTable table;
  static inline qm::trace::RecordTable::Chunk directory[kChunks];
  alignas(8) static inline std::byte chunks[kChunks][kChunkBytes];
  static inline qm::trace::RecordTable::Stash stashes[2];
  static inline SlotId slots[kAll];
  static inline std::uint32_t former;
};

TEST_F(RecordTable, a_record_keeps_all_its_fields) {
  Record record;
  record.set_place(65535, 31, Sequence::kMask);
  EXPECT_EQ(record.cache, 65535U);
  EXPECT_EQ(record.hart(), 31U);
  EXPECT_EQ(record.sequence(), Sequence::kMask);
  record.set_place(1, 0, 0x1'2345'6789);
  EXPECT_EQ(record.cache, 1U);
  EXPECT_EQ(record.hart(), 0U);
  EXPECT_EQ(record.sequence(), 0x1'2345'6789U);
  record.stack_context = Record::pack((1U << kStackHandleBits) - 1, 511);
  EXPECT_EQ(record.context(), 511U);
  EXPECT_EQ(record.stack(), (1U << kStackHandleBits) - 1);
}

TEST_F(RecordTable, without_a_chunk_it_takes_nothing) {
  EXPECT_FALSE(table.has_free(0));
  EXPECT_TRUE(table.may_grow());
  EXPECT_EQ(table.insert(0, make(1, 1)), kNoSlot);
  EXPECT_EQ(table.live(), 0U);
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, a_number_from_elsewhere_is_a_slot_only_where_one_begins) {
  EXPECT_FALSE(table.has_slot(1));
  grow();
  grow();
  for (unsigned i = 0; i < 2 * kChunkRecords; ++i) slots[i] = table.insert(0, make(i + 1, i + 1));
  constexpr SlotId kAround = 3 * kChunkBytes / 8;
  unsigned found = 0;
  for (SlotId slot = slots[0] > kAround ? slots[0] - kAround : 0; slot < slots[0] + kAround; ++slot)
    found += table.has_slot(slot) ? 1 : 0;
  EXPECT_EQ(found, 2 * kChunkRecords);
  for (unsigned i = 0; i < 2 * kChunkRecords; ++i) EXPECT_TRUE(table.has_slot(slots[i]));
  EXPECT_FALSE(table.has_slot(kNoSlot));
  EXPECT_FALSE(table.has_slot(0x3fff'ffff));
}

TEST_F(RecordTable, takes_as_many_as_it_has_room_for_and_not_one_more) {
  for (unsigned i = 0; i < kChunks; ++i) grow();
  EXPECT_FALSE(table.may_grow());
  alignas(8) static std::byte more[kChunkBytes];
  EXPECT_FALSE(table.add_chunk(more));
  for (unsigned i = 0; i < kAll; ++i) {
    slots[i] = table.insert(0, make(i, i + 1));
    ASSERT_NE(slots[i], kNoSlot);
  }
  EXPECT_EQ(table.insert(0, make(9999, 9999)), kNoSlot);
  EXPECT_EQ(table.live(), kAll);
  EXPECT_EQ(table.capacity(), kAll);
  EXPECT_TRUE(table.validate());
  EXPECT_TRUE(remove(slots[5], 5));
  EXPECT_EQ(former, 77U);
  EXPECT_NE(table.insert(0, make(9999, 9999)), kNoSlot);
}

TEST_F(RecordTable, uses_the_last_chunk_in_part_if_told_so) {
  constexpr std::uint32_t kMost = kChunkRecords + 5;
  EXPECT_EQ(qm::trace::RecordTable::chunk_count(kMost), 2U);
  table.initialize({directory, 2}, stashes, kMost);
  grow();
  grow();
  for (unsigned i = 0; i < kMost; ++i) {
    slots[i] = table.insert(0, make(i, i + 1));
    ASSERT_NE(slots[i], kNoSlot);
  }
  EXPECT_EQ(table.insert(0, make(9, 9)), kNoSlot);
  EXPECT_TRUE(table.validate());
  for (unsigned i = 0; i < kMost; ++i) EXPECT_TRUE(remove(slots[i], i));
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, removes_only_the_record_that_is_meant) {
  grow();
  const SlotId slot = table.insert(0, make(10, 1));
  Record removed;
  EXPECT_FALSE(remove(slot, 11));
  EXPECT_FALSE(remove(slot, 10, 2));
  EXPECT_FALSE(table.remove_numbered(slot, 2));
  EXPECT_FALSE(table.remove_numbered(slot, std::uint64_t{1} << 32 | 1));
  EXPECT_FALSE(remove(slot + 3, 10));  // the next slot, which is free
  EXPECT_EQ(table.live(), 1U);
  EXPECT_TRUE(table.remove_numbered(slot, 1));
  EXPECT_FALSE(table.remove_numbered(slot, 1));
  EXPECT_FALSE(remove(slot, 10));
  EXPECT_FALSE(table.copy(slot, removed));
  EXPECT_EQ(table.live(), 0U);
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, resizes_and_copies_only_the_record_that_is_meant) {
  grow();
  const SlotId slot = table.insert(0, make(10, 1));
  Record record;
  EXPECT_FALSE(table.resize(slot, 11, 1, 5));
  EXPECT_FALSE(table.resize(slot, 10, 2, 5));
  EXPECT_FALSE(table.copy(kNoSlot, record));
  ASSERT_TRUE(table.copy(slot, record));
  EXPECT_EQ(record.size, 110U);
  EXPECT_TRUE(table.resize(slot, 10, 1, 5));
  ASSERT_TRUE(table.copy(slot, record));
  EXPECT_EQ(record.size, 5U);
}

TEST_F(RecordTable, validate_sees_damage_in_records_and_free_slots) {
  grow();
  const SlotId first = table.insert(0, make(10, 1));
  const SlotId second = table.insert(0, make(11, 2));
  ASSERT_TRUE(remove(second, 11));  // second is on top of the stash
  ASSERT_TRUE(table.validate());
  SlotId* const top = stashes[0].top.load();
  const SlotId free = top[0];
  auto* const chunk = static_cast<RecordSlot*>(static_cast<void*>(chunks[0]));
  RecordSlot* recorded = chunk;
  while (recorded->sequence_low != 1) ++recorded;
  RecordSlot& freed =
      recorded[static_cast<std::int32_t>(free - first) / static_cast<std::int32_t>(sizeof(RecordSlot) / 8)];
  const auto expect_seen = [&](const char* what) { EXPECT_FALSE(table.validate()) << what; };
  freed.sequence_low = 5;
  expect_seen("a free slot with a record");
  freed.sequence_low = 0;
  stashes[0].top = top + 1;
  expect_seen("a lost slot");
  stashes[0].top = stashes[0].end() + 1;
  expect_seen("a top behind the stash");
  stashes[0].top = top;
  top[-1] = top[1];
  stashes[0].top = top - 1;
  expect_seen("a slot that is free more than once");
  stashes[0].top = top;
  RecordSlot& keeper = chunk[(kChunkRecords / kBatch - 1) * kBatch + kBatch / 4 - 1];  // in a full batch on the shelf
  const std::uint32_t kept = keeper.object;
  keeper.object = ~0U;
  expect_seen("a slot that is none");
  keeper.object = first;
  expect_seen("a live one in a batch");
  keeper.object = kept;
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, slots_go_to_the_hart_that_frees_them_and_come_back) {
  grow();
  for (unsigned round = 0; round < 3; ++round) {  // hart 0 allocates, hart 1 frees
    for (unsigned i = 0; i + 2 * qm::trace::RecordTable::kBatch < kChunkRecords; ++i) {
      slots[i] = table.insert(0, make(i, i + 1));
      ASSERT_NE(slots[i], kNoSlot) << "round " << round << ", record " << i;
    }
    EXPECT_TRUE(table.validate());
    for (unsigned i = 0; i + 2 * qm::trace::RecordTable::kBatch < kChunkRecords; ++i) {
      ASSERT_TRUE(table.remove(1, slots[i], i, 1, former));
    }
    EXPECT_TRUE(table.validate());
  }
  EXPECT_TRUE(table.has_free(0));
  EXPECT_TRUE(table.has_free(1));
}

TEST_F(RecordTable, at_most_a_stash_of_each_other_hart_is_out_of_reach) {
  grow();
  for (unsigned i = 0; i < kChunkRecords; ++i) slots[i] = table.insert(0, make(i, i + 1));
  EXPECT_FALSE(table.has_free(0));
  EXPECT_EQ(table.insert(0, make(9, 9)), kNoSlot);
  for (unsigned i = 0; i < kChunkRecords; ++i) ASSERT_TRUE(table.remove(1, slots[i], i, 1, former));
  unsigned had = 0;
  while (table.insert(0, make(had, had + 1)) != kNoSlot) ++had;
  EXPECT_GE(had + qm::trace::RecordTable::Stash::kSlots, kChunkRecords);
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, memory_out_of_reach_is_refused) {
  if (qm::trace::RecordTable::kReach == 0) GTEST_SKIP() << "a slot id reaches everything";
  grow();
  auto* far = reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(chunks[0]) + 2 * qm::trace::RecordTable::kReach);
  EXPECT_FALSE(table.add_chunk(far));
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, records_stay_where_they_are_whatever_else_happens) {
  for (unsigned i = 0; i < kChunks; ++i) grow();
  qm::test::Random random;
  std::uint64_t sequence = 0;
  static std::uint64_t numbers[kAll];
  for (unsigned i = 0; i < kAll; ++i) slots[i] = kNoSlot;
  for (unsigned step = 0; step < 20000; ++step) {
    // A stash of the other hart is not available to this hart.
    const auto object = static_cast<std::uint32_t>(random.below(kAll - qm::trace::RecordTable::Stash::kSlots));
    Record record;
    if (slots[object] == kNoSlot) {
      const unsigned hart = static_cast<unsigned>(random.below(2));
      slots[object] = table.insert(hart, make(object, ++sequence));
      ASSERT_NE(slots[object], kNoSlot);
      numbers[object] = sequence;
    } else if (random.chance(50)) {
      ASSERT_TRUE(table.remove(static_cast<unsigned>(random.below(2)), slots[object], object, 1, former));
      slots[object] = kNoSlot;
    } else {
      ASSERT_TRUE(table.copy(slots[object], record));
      ASSERT_EQ(record.object, object);
      ASSERT_EQ(record.sequence(), numbers[object]);
    }
    if (step % 1000 == 0) {
      ASSERT_TRUE(table.validate());
    }
  }
}

TEST_F(RecordTable, a_scan_finds_each_record_once) {
  for (unsigned i = 0; i < kChunks; ++i) grow();
  for (unsigned i = 0; i < kAll; ++i) slots[i] = table.insert(0, make(i, i + 1));
  for (unsigned i = 0; i < kAll; i += 3) ASSERT_TRUE(remove(slots[i], i));
  static bool seen[kAll];
  Record record;
  unsigned all = 0;
  for (qm::trace::RecordTable::Cursor cursor = 0; table.scan(cursor, record); ++all) {
    EXPECT_EQ(table.slot_before(cursor), slots[record.object]);
    EXPECT_FALSE(seen[record.object]);
    seen[record.object] = true;
  }
  EXPECT_EQ(all, kAll - (kAll + 2) / 3);
  EXPECT_EQ(all, table.live());
}

template <class Counter>
void counts_over_turns() {
  for (const std::uint64_t first : {std::uint64_t{0x7fff'fffe}, std::uint64_t{0xffff'fffe},
                                    std::uint64_t{0x2'7fff'fffe}, std::uint64_t{0x3'ffff'fffe}, std::uint64_t{1}}) {
    BasicSequence<Counter> sequence(first);
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(sequence.next(), first + i);
  }
}
TEST(Sequence, counts_over_the_turns_of_its_words) { counts_over_turns<std::uint32_t>(); }
#if !defined(__riscv) || __riscv_xlen == 64
TEST(Sequence, counts_over_the_turns_of_its_word) { counts_over_turns<std::uint64_t>(); }
#endif

TEST(Sequence, a_records_number_has_a_low_word) {
  BasicSequence<std::uint32_t> sequence(0xffff'ffff);
  EXPECT_EQ(sequence.next_for_record(), 0xffff'ffffU);
  EXPECT_EQ(sequence.next_for_record(), 0x1'0000'0001U);
}

class ContextTable : public testing::Test {
 protected:
  using Table = qm::trace::ContextTable;
  static constexpr unsigned kSlots = 8;
  void SetUp() override {
    std::memset(parts, 0, sizeof parts);
    table.initialize(directory, kSlots, parts[0]);
  }
  static inline Table::Part directory[Table::parts_for(kSlots)];
  alignas(8) static inline std::byte parts[Table::parts_for(kSlots)][Table::kPartBytes];
  static inline qm::trace::ContextTable table;
};

TEST_F(ContextTable, stores_each_label_once) {
  const std::uint32_t boot = table.intern("boot");
  const std::uint32_t task = table.intern("task net-rx");
  EXPECT_NE(boot, 0U);
  EXPECT_NE(boot, task);
  EXPECT_EQ(table.intern("boot"), boot);
  EXPECT_TRUE(table.text(task) == "task net-rx");
  EXPECT_EQ(table.size(), 2U);
  EXPECT_NE(table.intern(""), 0U);
}

TEST_F(ContextTable, copies_the_label) {
  char name[] = "task first";
  const std::uint32_t id = table.intern(name);
  name[5] = 'w';
  EXPECT_TRUE(table.text(id) == "task first");
}

TEST_F(ContextTable, cuts_a_long_label_and_marks_the_cut) {
  const char* fits = "0123456789012345678901234567890123456789012345678901";
  const char* longer = "01234567890123456789012345678901234567890123456789012";
  const std::uint32_t whole = table.intern(fits);
  EXPECT_TRUE(table.text(whole) == fits);
  const std::string_view cut = table.text(table.intern(longer));
  EXPECT_EQ(cut.size(), kContextChars);
  EXPECT_EQ(cut.back(), '~');
  EXPECT_TRUE(cut.substr(0, 51) == std::string_view(longer, 51));
}

TEST_F(ContextTable, takes_its_memory_a_part_at_a_time) {
  char label[] = "task 0";
  for (unsigned i = 1; i < Table::kPartSlots; ++i, ++label[5]) EXPECT_EQ(table.intern(label), i);
  EXPECT_EQ(table.intern(label), 0U);
  EXPECT_EQ(table.failures(), 0U);  // the table is not full
  EXPECT_TRUE(table.text(Table::kPartSlots).empty());
  EXPECT_EQ(table.next_part(), 1U);
  EXPECT_TRUE(table.add_part(1, parts[1]));
  EXPECT_FALSE(table.add_part(1, parts[1]));
  EXPECT_EQ(table.intern(label), Table::kPartSlots);
  EXPECT_TRUE(table.text(Table::kPartSlots) == label);
  EXPECT_EQ(table.intern("task 0"), 1U);
}

TEST_F(ContextTable, full_it_answers_0_and_counts) {
  for (unsigned part = 1; part < table.parts(); ++part) ASSERT_TRUE(table.add_part(part, parts[part]));
  char label[] = "task 0";
  for (unsigned i = 0; i < table.capacity(); ++i, ++label[5]) EXPECT_NE(table.intern(label), 0U);
  EXPECT_EQ(table.capacity(), 7U);
  EXPECT_EQ(table.intern("one more"), 0U);
  EXPECT_EQ(table.failures(), 1U);
  EXPECT_NE(table.intern("task 3"), 0U);
  EXPECT_TRUE(table.text(0) == "?");
}

}  // namespace trace_record_table_test
