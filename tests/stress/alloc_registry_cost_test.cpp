/// The exact number of instructions of operations on thousands of names: see cost.hpp.

#include <gtest/gtest.h>

#include <array>

#include <qm/registry.hpp>

#include "cost.hpp"

namespace {

using qm::Status;
using qm::test::counter_is_exact;
using qm::test::instructions;
using qm::test::put;

class Named : public qm::Registered {
 public:
  Status add(const char* name) {
    const Status status = set_name(*this, name);
    return status == Status::kOk ? registry_add(qm::RegistryKind::kCache, *this) : status;
  }
};

constexpr unsigned kNames = 4000;
std::array<std::array<char, 4>, kNames> names;
std::array<Named, kNames> entries;

void print(const char* what, unsigned long cost, const qm::test::Ticks& ticks) {
  put(what);
  put(cost);
  put(", longest time without a tick ");
  put(ticks.longest_gap());
  put("\n");
}

TEST(RegistryCost, adding_and_removing_among_thousands_lets_interrupts_in_all_the_while) {
  qm::registry_reset();
  for (unsigned i = 0; i < kNames; ++i) {
    names[i] = {static_cast<char>('a' + i / 256), static_cast<char>('a' + i / 16 % 16), static_cast<char>('a' + i % 16),
                0};
    ASSERT_EQ(entries[i].add(names[i].data()), Status::kOk);
  }
  Named last;
  qm::test::Ticks ticks(20);
  unsigned long begun = instructions();
  ASSERT_EQ(last.add("last"), Status::kOk);
  const unsigned long adding = instructions() - begun;
  print("the 4001st name: add ", adding, ticks);
  const unsigned long longest_adding = ticks.longest_gap();
  const unsigned in_adding = ticks.count();
  ASSERT_EQ(registry_hide(last), Status::kOk);
  ticks.restart();
  begun = instructions();
  registry_remove(qm::RegistryKind::kCache, last);
  const unsigned long removing = instructions() - begun;
  ticks.stop();
  print("the 4001st name: remove ", removing, ticks);
  if (counter_is_exact()) {
    // A tick each 2000 instructions; one pass over the list with interrupts masked would take more than 12,000.
    EXPECT_GT(in_adding, 10U);
    EXPECT_GT(ticks.count(), 10U);
    EXPECT_LT(longest_adding, 3'000U);
    EXPECT_LT(ticks.longest_gap(), 3'000U);
  }
  qm::registry_reset();
}

}  // namespace
