// Names, and the entries found by them.

#include <gtest/gtest.h>

#include <qm/arena.hpp>
#include <qm/misuse.hpp>
#include <qm/registry.hpp>

#include "support/arena_fixture.hpp"

namespace qm {
namespace alloc_registry_test {

class Registry : public test::ArenaTest {};

TEST_F(Registry, a_name_has_letters_digits_and_three_signs) {
  const char* const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-";
  for (int value = 1; value < 256; ++value) {
    const char name[] = {static_cast<char>(value), 0};
    bool is_allowed = false;
    for (const char* c = allowed; *c != 0; ++c) is_allowed = is_allowed || *c == name[0];
    EXPECT_EQ(is_valid_name(name), is_allowed) << value;
  }
  EXPECT_FALSE(is_valid_name(""));
  EXPECT_FALSE(is_valid_name(nullptr));
  EXPECT_TRUE(is_valid_name("a_name_of_thirty-one.characters"));
  EXPECT_FALSE(is_valid_name("a_name_of_thirty-two..characters"));
  EXPECT_TRUE(is_valid_name("kmalloc_of_my_own"));
}

TEST_F(Registry, finds_by_the_whole_name_only_and_not_what_is_hidden) {
  ASSERT_EQ(arena_.initialize({.name = "ports", .start = 1, .size = 10, .quantum = 1}), Status::kOk);
  const auto find = [](const char* name) {
    RegistryCursor<Arena> arenas;
    return arenas.find(name);
  };
  EXPECT_EQ(find("ports"), &arena_);
  EXPECT_EQ(find("port"), nullptr);
  EXPECT_EQ(find("portss"), nullptr);
  EXPECT_EQ(find("po rts"), nullptr);
  EXPECT_EQ(registry_hide(arena_), Status::kOk);
  EXPECT_EQ(find("ports"), nullptr);
  registry_show(arena_);
  EXPECT_EQ(find("ports"), &arena_);
}

TEST_F(Registry, each_kind_of_misuse_has_words_of_its_own) {
  const char* words[13];
  for (unsigned i = 0; i < 13; ++i) {
    words[i] = describe(static_cast<Misuse>(i));
    EXPECT_NE(words[i][0], 0) << i;
    for (unsigned j = 0; j < i; ++j) EXPECT_STRNE(words[i], words[j]) << i << " and " << j;
  }
  EXPECT_EQ(describe(static_cast<Misuse>(13))[0], 0);
}

}  // namespace alloc_registry_test
}  // namespace qm
