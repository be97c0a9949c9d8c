/// qm/detail/glob.hpp: patterns for names.

#include <gtest/gtest.h>

#include <qm/detail/glob.hpp>

namespace alloc_glob_test {

using namespace qm;

TEST(Glob, matches_as_a_shell_does) {
  EXPECT_TRUE(glob_matches("packet", "packet"));
  EXPECT_FALSE(glob_matches("packet", "packets"));
  EXPECT_FALSE(glob_matches("packet", "packe"));
  EXPECT_TRUE(glob_matches("*", ""));
  EXPECT_TRUE(glob_matches("*", "anything"));
  EXPECT_TRUE(glob_matches("p*t", "packet"));
  EXPECT_TRUE(glob_matches("p?cket", "packet"));
  EXPECT_FALSE(glob_matches("p?cket", "pcket"));
  EXPECT_TRUE(glob_matches("k*_1?", "kmalloc_16"));
  EXPECT_FALSE(glob_matches("k*_1?", "kmalloc_128"));
  EXPECT_TRUE(glob_matches("*a*b", "aabab"));
  EXPECT_FALSE(glob_matches("*a*b", "aaba"));
  EXPECT_TRUE(glob_matches("*a*b*", "xxaxxbxx"));
  EXPECT_FALSE(glob_matches("*a*a*a*a*a*a*a*a*b", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"));
  EXPECT_FALSE(glob_matches("?", ""));
  EXPECT_FALSE(glob_matches("", "x"));
  EXPECT_TRUE(glob_matches("", ""));
  EXPECT_TRUE(is_glob("a?"));
  EXPECT_FALSE(is_glob("a"));
}

TEST(Glob, names_what_a_plain_name_a_pattern_or_kmalloc_means) {
  EXPECT_TRUE(names("packet", "packet"));
  EXPECT_FALSE(names("packet", "packets"));
  EXPECT_TRUE(names("p*", "packets"));
  EXPECT_TRUE(names("kmalloc", "kmalloc_16"));
  EXPECT_TRUE(names("kmalloc", "kheap"));
  EXPECT_FALSE(names("kmalloc", "kmem_cache"));
  EXPECT_TRUE(names_many("kmalloc"));
  EXPECT_TRUE(names_many("p*"));
  EXPECT_FALSE(names_many("packet"));
}

}  // namespace alloc_glob_test
