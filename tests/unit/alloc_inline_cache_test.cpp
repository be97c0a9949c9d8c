/// Caches known at compile time: the inlined and the out-of-line form use the same cache.

#include <qm/inline_cache.hpp>

#include <array>

#include <support/system_fixture.hpp>

namespace alloc_inline_cache_test {

QM_INLINE_CACHE(Packets);
QM_INLINE_CACHE(Frames);
QM_DEFINE_INLINE_CACHE(Packets);
QM_DEFINE_INLINE_CACHE(Frames);

class InlineCache : public qm::test::SystemTest {
 protected:
  void SetUp() override {
    SystemTest::SetUp();
    ASSERT_EQ(Packets::create({.name = "packets", .object_size = 64}), qm::Status::kOk);
  }
  void TearDown() override {
    EXPECT_EQ(Packets::destroy(), qm::Status::kOk);
    SystemTest::TearDown();
  }
};

TEST_F(InlineCache, allocates_and_frees_as_any_cache) {
  std::array<void*, 100> taken{};
  for (void*& object : taken) {
    object = Packets::allocate();
    ASSERT_NE(object, nullptr);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(object) % 16, 0U);
  }
  EXPECT_EQ(Packets::cache()->stats().in_use, taken.size());
  for (void* object : taken) Packets::free(object);
  EXPECT_EQ(Packets::cache()->stats().in_use, 0U);
  EXPECT_TRUE(Packets::cache()->validate());
}

TEST_F(InlineCache, shares_its_rounds_with_callers_out_of_line) {
  void* inlined = Packets::allocate();
  Packets::free(inlined);
  void* called = Packets::cache()->allocate();
  EXPECT_EQ(called, inlined);  // last in, first out: one magazine
  Packets::free(called);
  void* again = Packets::allocate();
  EXPECT_EQ(again, called);
  Packets::cache()->free(again);
  EXPECT_EQ(Packets::cache()->stats().in_use, 0U);
}

TEST_F(InlineCache, counts_allocations_of_both_forms) {
  for (int i = 0; i < 10; ++i) {
    Packets::free(Packets::allocate());
    Packets::cache()->free(Packets::cache()->allocate());
  }
  if (qm::kCounted) {
    EXPECT_EQ(Packets::cache()->stats().allocations, 20U);
  }
}

TEST_F(InlineCache, has_no_object_before_it_is_created) {
  EXPECT_EQ(Frames::cache(), nullptr);
  EXPECT_EQ(Frames::allocate(), nullptr);
  EXPECT_EQ(Frames::destroy(), qm::Status::kNotFound);
}

TEST_F(InlineCache, is_created_once) {
  EXPECT_EQ(Packets::create({.name = "other", .object_size = 32}), qm::Status::kBusy);
  EXPECT_EQ(Packets::cache()->object_size(), 64U);
}

TEST_F(InlineCache, says_why_it_is_not_created) {
  EXPECT_EQ(Frames::create({.name = "packets", .object_size = 32}), qm::Status::kDuplicate);
  EXPECT_EQ(Frames::cache(), nullptr);
  EXPECT_EQ(Frames::allocate(), nullptr);
}

TEST_F(InlineCache, is_made_anew_after_a_destroy) {
  Packets::free(Packets::allocate());
  ASSERT_EQ(Packets::destroy(), qm::Status::kOk);
  EXPECT_EQ(Packets::allocate(), nullptr);  // no hart still refers to the old per-hart caches
  ASSERT_EQ(Packets::create({.name = "packets", .object_size = 128}), qm::Status::kOk);
  void* object = Packets::allocate();
  ASSERT_NE(object, nullptr);
  Packets::free(object);
  EXPECT_EQ(Packets::cache()->stats().misuses, 0U);
}

TEST_F(InlineCache, refuses_a_destroy_while_objects_are_out) {
  void* object = Packets::allocate();
  EXPECT_EQ(Packets::destroy(), qm::Status::kBusy);
  ASSERT_NE(Packets::cache(), nullptr);
  Packets::free(object);
  Packets::free(Packets::allocate());
}

TEST_F(InlineCache, gives_its_idle_memory_back) {
  Packets::free(Packets::allocate());
  EXPECT_GT(Packets::cache()->stats().in_magazines, 0U);
  qm::reclaim();
  EXPECT_EQ(Packets::cache()->stats().objects, 0U);
  void* object = Packets::allocate();
  EXPECT_NE(object, nullptr);
  Packets::free(object);
}

TEST_F(InlineCache, reports_a_freed_null_and_goes_on) {
  Packets::free(Packets::allocate());
  Packets::free(nullptr);
  std::array<void*, 40> taken{};
  for (void*& object : taken) EXPECT_NE(object = Packets::allocate(), nullptr);
  EXPECT_EQ(Packets::cache()->stats().misuses, 1U);
  for (void* object : taken) Packets::free(object);
}

TEST_F(InlineCache, keeps_two_caches_apart) {
  ASSERT_EQ(Frames::create({.name = "frames", .object_size = 256}), qm::Status::kOk);
  void* packet = Packets::allocate();
  void* frame = Frames::allocate();
  EXPECT_EQ(Packets::cache()->stats().in_use, 1U);
  EXPECT_EQ(Frames::cache()->stats().in_use, 1U);
  Packets::free(packet);
  Frames::free(frame);
  void* frame_again = Frames::allocate();
  EXPECT_EQ(frame_again, frame);
  Frames::free(frame_again);
  EXPECT_EQ(Frames::destroy(), qm::Status::kOk);
}

}  // namespace alloc_inline_cache_test
