#include <support/system_fixture.hpp>

#include <qm/object_cache.hpp>

namespace alloc_object_cache_test {

using namespace qm;

class ObjectCacheTest : public qm::test::SystemTest {};

struct alignas(64) Session {
  static inline int alive = 0;
  Session(int first, int second) : a(first), b(second) { ++alive; }
  ~Session() { --alive; }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  int a;
  int b;
};

TEST_F(ObjectCacheTest, constructs_what_it_gives_and_destroys_what_it_takes) {
  auto sessions = ObjectCache<Session>::create("session");
  ASSERT_TRUE(static_cast<bool>(sessions));
  Session* session = sessions.make(3, 4);
  ASSERT_NE(session, nullptr);
  EXPECT_EQ(session->a, 3);
  EXPECT_EQ(session->b, 4);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(session) % 64, 0U);
  EXPECT_EQ(Session::alive, 1);
  sessions.destroy(session);
  sessions.destroy(nullptr);
  EXPECT_EQ(Session::alive, 0);
  EXPECT_EQ(sessions.cache().stats().in_use, 0U);
  EXPECT_EQ(sessions.cache().stats().misuses, 0U);
}

TEST_F(ObjectCacheTest, an_owned_object_goes_back_by_itself_also_after_the_cache_has_moved) {
  auto first = ObjectCache<Session>::create("session");
  {
    const auto owned = first.make_unique(1, 2);
    ASSERT_NE(owned, nullptr);
    EXPECT_EQ(Session::alive, 1);
    ObjectCache<Session> second = std::move(first);
    EXPECT_FALSE(static_cast<bool>(first));
    first = std::move(second);
  }
  EXPECT_EQ(Session::alive, 0);
  EXPECT_EQ(first.cache().stats().in_use, 0U);
}

TEST_F(ObjectCacheTest, no_memory_is_a_null_and_nothing_is_constructed) {
  auto sessions = ObjectCache<Session>::create("session", {.limit = 1});
  const auto only = sessions.make_unique(1, 1);
  EXPECT_EQ(sessions.make(2, 2), nullptr);
  EXPECT_EQ(sessions.make_with(WaitPolicy::kQuiet, 2, 2), nullptr);
  EXPECT_EQ(sessions.make_unique(2, 2), nullptr);
  EXPECT_EQ(Session::alive, 1);
}

TEST_F(ObjectCacheTest, is_closed_once_and_not_while_objects_are_out) {
  auto sessions = ObjectCache<Session>::create("session");
  Session* session = sessions.make(1, 2);
  EXPECT_EQ(sessions.close(), Status::kBusy);
  EXPECT_TRUE(static_cast<bool>(sessions));
  sessions.destroy(session);
  EXPECT_EQ(sessions.close(), Status::kOk);
  EXPECT_EQ(sessions.close(), Status::kOk);
  EXPECT_FALSE(static_cast<bool>(sessions));
}

TEST_F(ObjectCacheTest, ends_with_its_scope_and_says_why_it_could_not_begin) {
  const std::size_t before = free_bytes();
  for (int i = 0; i < 2; ++i) {
    const auto sessions = ObjectCache<Session>::create("session");
    EXPECT_TRUE(static_cast<bool>(sessions));
    Status why = Status::kOk;
    EXPECT_FALSE(static_cast<bool>(ObjectCache<int>::create("session", {}, &why)));
    EXPECT_EQ(why, Status::kDuplicate);
  }
  RegistryCursor<Cache> caches;
  EXPECT_EQ(caches.find("session"), nullptr);
  EXPECT_EQ(free_bytes(), before);
}

}  // namespace alloc_object_cache_test
