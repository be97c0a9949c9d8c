// The results of is_sound() for one damaged tag, and of validate() for all tags.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>

#include <qm/arena.hpp>

#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_arena_damage_test {

class ArenaDamage : public test::ArenaTest {
 protected:
  /// @returns the tag of the span or segment that a walk shows as @p segment.
  static BoundaryTag* tag_of(const Segment& segment) {
    for (BoundaryTag& tag : tags()) {
      if (is_shown(tag, segment)) return &tag;
    }
    return nullptr;
  }
  /// Whether @p tag describes @p segment, and is not an old tag that described it before.
  static bool is_shown(const BoundaryTag& tag, const Segment& segment) {
    if (tag.start != segment.start || tag.size != segment.size || tag.kind != segment.kind) return false;
    return tag.prev != nullptr ? tag.prev->next == &tag : tag.next != nullptr && tag.next->prev == &tag;
  }
};

/// Damages the tag at which @p walk stands, one field at a time, and expects is_sound() to detect each damage.
struct Damage {
  ArenaWalk& walk;
  BoundaryTag& tag;
  unsigned count = 0;

  template <class Field, class Value>
  void set(const char* what, Field& field, Value value) {
    const Field sound = field;
    field = static_cast<Field>(value);
    EXPECT_FALSE(walk.is_sound()) << what << " of the tag at " << tag.start << '+' << tag.size;
    field = sound;
    EXPECT_TRUE(walk.is_sound()) << what;
    ++count;
  }
};

TEST_F(ArenaDamage, a_walk_sees_it_in_the_tag_that_it_stands_on) {
  make(8, 8, 8000);
  ASSERT_EQ(arena_.add(16000, 4000), Status::kOk);
  std::uintptr_t held[20];
  for (std::size_t i = 0; i < 20; ++i) held[i] = arena_.allocate(40 + 8 * (i % 5));
  for (std::size_t i = 0; i < 20; i += 2) ASSERT_EQ(arena_.free(held[i]), Status::kOk);
  ASSERT_EQ(arena_.allocate(100000, Fit::kNext), 0U);  // from now on the arena has an address index
  unsigned damages = 0;
  ArenaWalk walk(arena_);
  EXPECT_TRUE(walk.is_sound());  // before the first step
  Segment segment;
  while (walk.next(segment)) {
    BoundaryTag* const found = tag_of(segment);
    ASSERT_NE(found, nullptr);
    BoundaryTag& tag = *found;
    ASSERT_TRUE(walk.is_sound());
    Damage damage{walk, tag};
    damage.set("prev", tag.prev, tag.prev == nullptr ? &tag : nullptr);
    damage.set("next", tag.next, tag.next == nullptr ? &tag : nullptr);
    if (tag.prev != nullptr) damage.set("the predecessor's next", tag.prev->next, nullptr);
    if (tag.next != nullptr) damage.set("the successor's prev", tag.next->prev, nullptr);
    if (tag.kind == TagKind::kSpan) {
      damage.set("the successor's kind", tag.next->kind, TagKind::kSpan);
      if (tag.below != nullptr) damage.set("start", tag.start, tag.prev->start);
      if (tag.kid[0] != nullptr) damage.set("priority of the kid", tag.kid[0]->priority, UINT32_MAX);
    } else {
      damage.set("start", tag.start, 0);
      damage.set("start", tag.start, tag.start + 8);
      damage.set("size", tag.size, 0);
      damage.set("size", tag.size, tag.size + 1);
      if (tag.prev->kind != TagKind::kSpan) damage.set("the predecessor's size", tag.prev->size, tag.prev->size + 8);
    }
    if (tag.kind == TagKind::kFree) {
      damage.set("bin", tag.bin, tag.bin - 1);
      if (tag.prev->kind == TagKind::kAllocated) damage.set("the predecessor's kind", tag.prev->kind, TagKind::kFree);
      if (tag.next != nullptr && tag.next->kind == TagKind::kAllocated) {
        damage.set("the successor's kind", tag.next->kind, TagKind::kFree);
      }
      if (tag.parent != nullptr) damage.set("parent's kid", tag.parent->kid[tag.parent->kid[1] == &tag], nullptr);
      if (tag.mate != nullptr) {
        damage.set("the size of the mate", tag.mate->size, tag.size + 8);
        damage.set("the way back of the mate", tag.mate->child[0], nullptr);
      }
      if (tag.bin == BoundaryTag::kMate) {
        damage.set("the way back", tag.child[0], &tag);
        damage.set("the size of the mate before", tag.child[0]->size, tag.size + 8);
        damage.set("the way on of the mate before", tag.child[0]->mate, nullptr);
      }
    }
    damages += damage.count;
  }
  EXPECT_GT(damages, 200U);
  for (std::size_t i = 1; i < 20; i += 2) ASSERT_EQ(arena_.free(held[i]), Status::kOk);
}

TEST_F(ArenaDamage, validate_sees_it_in_spans_that_were_imported) {
  make(1, 1, 1000);
  Arena importer;
  ASSERT_EQ(importer.initialize({.name = "importer", .quantum = 1, .source = &arena_}), Status::kOk);
  const std::uintptr_t kept = importer.allocate(10);
  const std::uintptr_t freed = importer.allocate(20);
  ASSERT_EQ(importer.free(freed, 20), Status::kOk);  // its span stays, empty
  ASSERT_EQ(importer.stats().idle, 20U);
  ASSERT_TRUE(importer.validate());
  unsigned damages = 0;
  {
    ArenaWalk walk(importer);
    Segment segment;
    while (walk.next(segment)) {
      BoundaryTag* tag = nullptr;  // that of the importer, not of its source
      for (BoundaryTag& one : tags()) {
        const BoundaryTag* span = one.kind == TagKind::kSpan ? &one : one.prev;
        const bool imported = span != nullptr && span->kind == TagKind::kSpan && span->origin != SpanOrigin::kAdded;
        if (is_shown(one, segment) && imported) tag = &one;
      }
      ASSERT_NE(tag, nullptr);
      const BoundaryTag sound = *tag;
      if (tag->kind == TagKind::kSpan) {
        tag->origin = SpanOrigin::kAdded;
      } else {
        tag->kind = tag->kind == TagKind::kFree ? TagKind::kAllocated : TagKind::kFree;
      }
      EXPECT_FALSE(importer.validate()) << segment.start << '+' << segment.size;
      *tag = sound;
      EXPECT_TRUE(importer.validate());
      ++damages;
    }
  }
  EXPECT_EQ(damages, 4U);
  EXPECT_EQ(importer.free(kept, 10), Status::kOk);
  EXPECT_EQ(importer.destroy(), Status::kOk);
}

/// The random tests rely on validate(): it must report any damage in a tag.
TEST_F(ArenaDamage, validate_sees_damage_in_every_tag) {
  make(1, 1, 1000);
  ASSERT_EQ(arena_.add(2000, 500), Status::kOk);
  std::uintptr_t held[20];
  for (std::size_t i = 0; i < 20; ++i) held[i] = arena_.allocate(5 + i % 7);
  for (std::size_t i = 0; i < 20; i += 2) ASSERT_EQ(arena_.free(held[i]), Status::kOk);
  ASSERT_EQ(arena_.allocate(100000, Fit::kNext), 0U);  // from now on the arena has an address index
  ASSERT_TRUE(arena_.validate());
  unsigned damages = 0;
  for (BoundaryTag& tag : tags()) {
    Segment segment;
    const bool used = arena_.locate(tag.start, segment) == Status::kOk && tag.start != 0 &&
                      (tag.kind == TagKind::kSpan || (segment.start == tag.start && segment.kind == tag.kind));
    if (!used) continue;
    const BoundaryTag sound = tag;
    const auto expect_seen = [&](const char* what) {
      EXPECT_FALSE(arena_.validate()) << what << " of tag at " << sound.start << '+' << sound.size;
      tag = sound;
      EXPECT_TRUE(arena_.validate());
      ++damages;
    };
    tag.start += 1;
    expect_seen("start");
    tag.size += 1;
    expect_seen("size");
    tag.kind = tag.kind == TagKind::kFree ? TagKind::kAllocated : TagKind::kFree;
    expect_seen("kind");
    tag.prev = tag.prev == nullptr ? &tag : nullptr;
    expect_seen("prev");
    if (tag.next != nullptr) {
      tag.next = nullptr;
      expect_seen("next");
    }
    if (tag.kind == TagKind::kSpan) {
      tag.origin = SpanOrigin::kImported;
      expect_seen("origin");
    }
    if (tag.kind == TagKind::kAllocated) {
      tag.owner = SegmentOwner::kQuantumCache;
      expect_seen("owner");
    }
    if (tag.kind == TagKind::kFree) {
      tag.bin = static_cast<std::uint8_t>(tag.bin - 1);
      expect_seen("bin");
      if (tag.mate != nullptr) {
        tag.mate = nullptr;
        expect_seen("mate");
      }
      if (tag.bin == BoundaryTag::kMate) {
        tag.child[0] = tag.prev;
        expect_seen("the mate before");
      }
    }
    if (tag.kind == TagKind::kSpan) {
      tag.below = &tag;
      expect_seen("below");
      for (BoundaryTag*& kid : tag.kid) {
        if (kid == nullptr) continue;
        kid = nullptr;
        expect_seen("kid");
      }
    }
    if (tag.kind == TagKind::kFree) {
      tag.largest += 1;
      expect_seen("largest");
      for (BoundaryTag*& kid : tag.kid) {
        if (kid == nullptr) continue;
        kid = nullptr;
        expect_seen("kid");
      }
      if (tag.parent != nullptr) {
        tag.parent = nullptr;
        expect_seen("parent");
        if (sound.parent->priority != UINT32_MAX) {
          tag.priority = UINT32_MAX;
          expect_seen("priority");
        }
      }
    }
    for (BoundaryTag*& child : tag.child) {
      const bool in_trie =
          tag.kind == TagKind::kAllocated || (tag.kind == TagKind::kFree && sound.bin != BoundaryTag::kMate);
      if (!in_trie || child == nullptr) continue;
      child = nullptr;
      expect_seen("child");
    }
  }
  EXPECT_GT(damages, 200U);
  for (std::size_t i = 1; i < 20; i += 2) ASSERT_EQ(arena_.free(held[i]), Status::kOk);
}

}  // namespace alloc_arena_damage_test
}  // namespace qm
