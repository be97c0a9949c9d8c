#include <gtest/gtest.h>

#include <qm/arena.hpp>
#include <qm/cache.hpp>
#include <qm/hal/broadcast.hpp>
#include <qm/qm.h>
#include <qm/system.hpp>

extern "C" {
int c_whole_in_c();
int c_whole_in_cpp();
int c_source_in_c();
int c_source_in_cpp();
int c_arenas_in_c();
int c_arenas_in_cpp();
int c_imports_in_c();
int c_imports_in_cpp();
int c_caches_in_c();
int c_caches_in_cpp();
int c_heap_in_c();
int c_heap_in_cpp();
int c_misuse_in_c();
int c_misuse_in_cpp();
int c_overflow_in_c();
int c_overflow_in_cpp();
int c_port_in_c();
int c_port_in_cpp();
}

namespace alloc_c_interface_test {

class CInterface : public testing::Test {
 protected:
  void TearDown() override { qm::shutdown(); }
};

// The number in a failure is a line of alloc_c_interface.c.
TEST_F(CInterface, sets_up_and_takes_memory_in_c) { EXPECT_EQ(c_whole_in_c(), 0); }
TEST_F(CInterface, sets_up_and_takes_memory_in_cpp) { EXPECT_EQ(c_whole_in_cpp(), 0); }
TEST_F(CInterface, has_caches_that_draw_from_the_base_arena_in_c) { EXPECT_EQ(c_source_in_c(), 0); }
TEST_F(CInterface, has_caches_that_draw_from_the_base_arena_in_cpp) { EXPECT_EQ(c_source_in_cpp(), 0); }
TEST_F(CInterface, has_arenas_in_c) { EXPECT_EQ(c_arenas_in_c(), 0); }
TEST_F(CInterface, has_arenas_in_cpp) { EXPECT_EQ(c_arenas_in_cpp(), 0); }
TEST_F(CInterface, imports_through_c_functions_in_c) { EXPECT_EQ(c_imports_in_c(), 0); }
TEST_F(CInterface, imports_through_c_functions_in_cpp) { EXPECT_EQ(c_imports_in_cpp(), 0); }
TEST_F(CInterface, has_caches_in_c) { EXPECT_EQ(c_caches_in_c(), 0); }
TEST_F(CInterface, has_caches_in_cpp) { EXPECT_EQ(c_caches_in_cpp(), 0); }
TEST_F(CInterface, has_a_heap_in_c) { EXPECT_EQ(c_heap_in_c(), 0); }
TEST_F(CInterface, has_a_heap_in_cpp) { EXPECT_EQ(c_heap_in_cpp(), 0); }

/// Objects created in C are known in C++, and vice versa.
TEST_F(CInterface, is_the_same_library) {
  alignas(4096) static std::byte memory[1 << 20];
  ASSERT_EQ(qm_init(memory, sizeof memory), QM_OK);
  qm_cache* made_in_c = qm_cache_create("made_in_c", 48, 0, 0, nullptr, nullptr, nullptr, nullptr);
  ASSERT_NE(made_in_c, nullptr);
  qm::RegistryCursor<qm::Cache> caches;
  EXPECT_EQ(caches.find("made_in_c"), made_in_c);
  EXPECT_EQ(caches.next(), nullptr);  // steps off the cache, which is now destroyed
  qm::Arena arena;
  ASSERT_EQ(arena.initialize({.name = "made_in_cpp", .start = 8, .size = 64, .quantum = 8}), qm::Status::kOk);
  EXPECT_EQ(qm_arena_alloc(&arena, 64, QM_BEST_FIT), 8U);
  EXPECT_EQ(qm_arena_free(&arena, 8, 64), QM_OK);
  EXPECT_EQ(qm_arena_destroy(&arena), QM_INVALID);  // its storage is not from the heap
  EXPECT_EQ(arena.destroy(), qm::Status::kOk);
  EXPECT_EQ(qm_cache_destroy(made_in_c), QM_OK);
}

TEST_F(CInterface, tells_of_misuse_in_c) { EXPECT_EQ(c_misuse_in_c(), 0); }
TEST_F(CInterface, tells_of_misuse_in_cpp) { EXPECT_EQ(c_misuse_in_cpp(), 0); }
TEST_F(CInterface, names_the_neighbour_of_an_overflow_in_c) { EXPECT_EQ(c_overflow_in_c(), 0); }
TEST_F(CInterface, names_the_neighbour_of_an_overflow_in_cpp) { EXPECT_EQ(c_overflow_in_cpp(), 0); }
TEST_F(CInterface, knows_of_traps) {
  EXPECT_TRUE(qm::hal::may_wait());
  qm_trap_enter();
  qm_trap_enter();
  qm_trap_leave();
  EXPECT_FALSE(qm::hal::may_wait());
  qm_trap_leave();
  EXPECT_TRUE(qm::hal::may_wait());
}
TEST_F(CInterface, begins_anew_in_c) { EXPECT_EQ(c_port_in_c(), 0); }
TEST_F(CInterface, begins_anew_in_cpp) { EXPECT_EQ(c_port_in_cpp(), 0); }

}  // namespace alloc_c_interface_test
