// Records in slots that never move; the sequence; context labels; name patterns.

#include <gtest/gtest.h>

#include <cstdint>
#include <string_view>

#include <qm/test/seed.hpp>
#include <qm/trace/context_table.hpp>
#include <qm/trace/glob.hpp>
#include <qm/trace/record_table.hpp>

namespace {

using namespace qm::trace;

constexpr unsigned kChunks = 4;
constexpr unsigned kAll = kChunks * kChunkRecords;

class RecordTable : public testing::Test {
 protected:
  void SetUp() override { table.initialize(directory, kAll); }
  static Record make(std::uint32_t object, std::uint64_t sequence, std::uint32_t cache = 1, unsigned hart = 0) {
    Record record;
    record.object = object;
    record.set_place(cache, hart, sequence);
    record.stack_context = 77;
    record.size = 100 + object;
    return record;
  }
  void grow(unsigned hart = 0) { ASSERT_TRUE(table.add_chunk(hart, chunks[table.chunks()])); }

  static inline qm::trace::RecordTable table;
  static inline qm::trace::RecordTable::Chunk directory[kChunks];
  alignas(8) static inline std::byte chunks[kChunks][kChunkBytes];
  static inline SlotId slots[kAll];
};

TEST_F(RecordTable, a_record_keeps_all_its_fields) {
  Record record;
  record.set_place(65535, 31, Sequence::kMask);
  EXPECT_EQ(record.cache(), 65535U);
  EXPECT_EQ(record.hart(), 31U);
  EXPECT_EQ(record.sequence(), Sequence::kMask);
  record.set_place(1, 0, 0x1'2345'6789);
  EXPECT_EQ(record.cache(), 1U);
  EXPECT_EQ(record.hart(), 0U);
  EXPECT_EQ(record.sequence(), 0x1'2345'6789U);
  record.stack_context = 1023U << kStackHandleBits | ((1U << kStackHandleBits) - 1);
  EXPECT_EQ(record.context(), 1023U);
  EXPECT_EQ(record.stack(), (1U << kStackHandleBits) - 1);
}

TEST_F(RecordTable, without_a_chunk_it_takes_nothing) {
  EXPECT_FALSE(table.has_free(0));
  EXPECT_TRUE(table.may_grow());
  EXPECT_EQ(table.insert(0, make(1, 1)), kNoSlot);
  EXPECT_EQ(table.live(), 0U);
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, takes_as_many_as_it_has_room_for_and_not_one_more) {
  for (unsigned i = 0; i < kChunks; ++i) grow();
  EXPECT_FALSE(table.may_grow());
  alignas(8) static std::byte more[kChunkBytes];
  EXPECT_FALSE(table.add_chunk(0, more));
  for (unsigned i = 0; i < kAll; ++i) {
    slots[i] = table.insert(0, make(i, i + 1));
    ASSERT_NE(slots[i], kNoSlot);
  }
  EXPECT_EQ(table.insert(0, make(9999, 9999)), kNoSlot);
  EXPECT_EQ(table.live(), kAll);
  EXPECT_EQ(table.capacity(), kAll);
  EXPECT_TRUE(table.validate());
  Record removed;
  EXPECT_TRUE(table.remove(slots[5], 5, 1, removed));
  EXPECT_EQ(removed.size, 105U);
  EXPECT_NE(table.insert(0, make(9999, 9999)), kNoSlot);
}

TEST_F(RecordTable, uses_the_last_chunk_in_part_if_told_so) {
  constexpr std::uint32_t kMost = kChunkRecords + 5;
  EXPECT_EQ(qm::trace::RecordTable::chunk_count(kMost), 2U);
  table.initialize({directory, 2}, kMost);
  grow();
  grow();
  for (unsigned i = 0; i < kMost; ++i) {
    slots[i] = table.insert(0, make(i, i + 1));
    ASSERT_NE(slots[i], kNoSlot);
  }
  EXPECT_EQ(table.insert(0, make(9, 9)), kNoSlot);
  EXPECT_TRUE(table.validate());
  Record removed;
  for (unsigned i = 0; i < kMost; ++i) EXPECT_TRUE(table.remove(slots[i], i, 1, removed));
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, removes_only_the_record_that_is_meant) {
  grow();
  const SlotId slot = table.insert(0, make(10, 1));
  Record removed;
  EXPECT_FALSE(table.remove(slot, 11, 1, removed));
  EXPECT_FALSE(table.remove(slot, 10, 2, removed));
  EXPECT_FALSE(table.remove_numbered(slot, 2, removed));
  EXPECT_FALSE(table.remove(slot + 1, 10, 1, removed));
  EXPECT_FALSE(table.remove(kNoSlot, 10, 1, removed));
  EXPECT_FALSE(table.remove(~0U, 10, 1, removed));
  EXPECT_FALSE(table.remove(1U + 168, 10, 1, removed));  // behind a chunk's last record
  EXPECT_EQ(table.live(), 1U);
  EXPECT_TRUE(table.remove_numbered(slot, 1, removed));
  EXPECT_FALSE(table.remove_numbered(slot, 1, removed));
  EXPECT_FALSE(table.remove(slot, 10, 1, removed));
  EXPECT_FALSE(table.copy(slot, removed));
  EXPECT_EQ(table.live(), 0U);
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, resizes_and_copies_only_the_record_that_is_meant) {
  grow();
  const SlotId slot = table.insert(0, make(10, 1));
  Record record;
  EXPECT_FALSE(table.resize(kNoSlot, 10, 1, 5, record));
  EXPECT_FALSE(table.resize(slot, 11, 1, 5, record));
  EXPECT_FALSE(table.resize(slot, 10, 2, 5, record));
  EXPECT_FALSE(table.copy(kNoSlot, record));
  EXPECT_FALSE(table.remove_numbered(kNoSlot, 1, record));
  ASSERT_TRUE(table.copy(slot, record));
  EXPECT_EQ(record.size, 110U);
  EXPECT_TRUE(table.resize(slot, 10, 1, 5, record));
  EXPECT_EQ(record.size, 110U) << "what it was";
  ASSERT_TRUE(table.copy(slot, record));
  EXPECT_EQ(record.size, 5U);
}

TEST_F(RecordTable, validate_sees_damage_in_counts_records_and_free_slots) {
  grow();
  const SlotId first = table.insert(0, make(10, 1));
  const SlotId second = table.insert(0, make(11, 2));
  Record removed;
  ASSERT_TRUE(table.remove(second, 11, 1, removed));  // second is the first free slot
  ASSERT_TRUE(table.validate());
  auto* records = static_cast<Record*>(static_cast<void*>(chunks[0]));
  Record& live = records[(first - 1) & 0xff];
  Record& free = records[(second - 1) & 0xff];
  ASSERT_EQ(live.object, 10U);
  const auto expect_seen = [&](const char* what) {
    EXPECT_FALSE(table.validate()) << what;
  };
  directory[0].used.fetch_add(1);
  expect_seen("a record too many");
  directory[0].used.fetch_sub(1);
  directory[0].hart = 1;
  expect_seen("another hart's chunk");
  directory[0].hart = 0;
  const Record sound_live = live;
  live.set_place(0, 0, 1);
  expect_seen("a record of no cache");
  live = sound_live;
  const Record sound_free = free;
  free.set_place(1, 0, 1);
  directory[0].used.fetch_add(1);
  expect_seen("a free slot with a record");
  directory[0].used.fetch_sub(1);
  free = sound_free;
  free.object = ~0U;
  expect_seen("a slot that is none");
  free.object = second;
  expect_seen("a loop");
  free.object = kNoSlot;
  expect_seen("lost slots");
  free = sound_free;
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, pools_are_apart_and_slots_go_home) {
  grow(0);
  grow(1);
  EXPECT_TRUE(table.has_free(0));
  EXPECT_TRUE(table.has_free(1));
  for (unsigned i = 0; i < kChunkRecords; ++i) slots[i] = table.insert(0, make(i, i + 1));
  EXPECT_FALSE(table.has_free(0));
  EXPECT_EQ(table.insert(0, make(9, 9)), kNoSlot);
  EXPECT_TRUE(table.has_free(1));
  Record removed;
  EXPECT_TRUE(table.remove(slots[0], 0, 1, removed));
  EXPECT_TRUE(table.has_free(0));
  EXPECT_TRUE(table.validate());
}

TEST_F(RecordTable, records_stay_where_they_are_whatever_else_happens) {
  for (unsigned i = 0; i < kChunks; ++i) grow(i % 2);
  qm::test::Random random;
  std::uint64_t sequence = 0;
  static std::uint64_t numbers[kAll];
  for (unsigned i = 0; i < kAll; ++i) slots[i] = kNoSlot;
  for (unsigned step = 0; step < 20000; ++step) {
    const auto object = static_cast<std::uint32_t>(random.below(kAll));
    Record record;
    if (slots[object] == kNoSlot) {
      const unsigned hart = static_cast<unsigned>(random.below(2));
      slots[object] = table.insert(hart, make(object, ++sequence));
      numbers[object] = sequence;
    } else if (random.chance(50)) {
      ASSERT_TRUE(table.remove(slots[object], object, 1, record));
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

TEST_F(RecordTable, a_scan_finds_each_record_once_in_small_steps) {
  for (unsigned i = 0; i < kChunks; ++i) grow();
  for (unsigned i = 0; i < kAll; ++i) slots[i] = table.insert(0, make(i, i + 1));
  Record removed;
  for (unsigned i = 0; i < kAll; i += 3) ASSERT_TRUE(table.remove(slots[i], i, 1, removed));
  static bool seen[kAll];
  qm::trace::RecordTable::Cursor cursor;
  SlotId found[qm::trace::RecordTable::kScanSlots];
  Record records[qm::trace::RecordTable::kScanSlots];
  unsigned count = 0;
  unsigned all = 0;
  while (table.scan(cursor, found, records, count)) {
    ASSERT_LE(count, qm::trace::RecordTable::kScanSlots);
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_EQ(found[i], slots[records[i].object]);
      EXPECT_FALSE(seen[records[i].object]);
      seen[records[i].object] = true;
    }
    all += count;
  }
  EXPECT_EQ(count, 0U);
  EXPECT_EQ(all, table.live());
}

TEST(Sequence, counts_over_the_turns_of_its_words) {
  for (const std::uint64_t first : {std::uint64_t{0x7fff'fffe}, std::uint64_t{0xffff'fffe}, std::uint64_t{0x2'7fff'fffe},
                                    std::uint64_t{0x3'ffff'fffe}, std::uint64_t{1}}) {
    Sequence sequence(first);
    for (unsigned i = 0; i < 5; ++i) EXPECT_EQ(sequence.next(), first + i);
  }
}

class ContextTable : public testing::Test {
 protected:
  void SetUp() override { table.initialize(slots); }
  static inline ContextSlot slots[8];
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

TEST_F(ContextTable, full_it_answers_0_and_counts) {
  char label[] = "task 0";
  for (unsigned i = 0; i < table.capacity(); ++i, ++label[5]) EXPECT_NE(table.intern(label), 0U);
  EXPECT_EQ(table.capacity(), 7U);
  EXPECT_EQ(table.intern("one more"), 0U);
  EXPECT_EQ(table.failures(), 1U);
  EXPECT_NE(table.intern("task 3"), 0U);
  EXPECT_TRUE(table.text(0) == "?");
}

TEST(Glob, matches_as_a_shell_does) {
  EXPECT_TRUE(glob_matches("packet", "packet"));
  EXPECT_FALSE(glob_matches("packet", "packets"));
  EXPECT_FALSE(glob_matches("packet", "packe"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", "anything"));
  EXPECT_TRUE(glob_matches("k*_1?", "kmalloc_16"));
  EXPECT_FALSE(glob_matches("k*_1?", "kmalloc_128"));
  EXPECT_TRUE(glob_matches("*a*b", "aabab"));
  EXPECT_FALSE(glob_matches("*a*b", "aaba"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_FALSE(glob_matches("", "x"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(is_glob("a?"));
  EXPECT_FALSE(is_glob("a"));
}

}  // namespace
