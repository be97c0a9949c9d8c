/// A table of inlined sections that is not in the order of the text is detected: here are two entries without the flag
/// that makes the linker sort them, with the later section first.

#include <gtest/gtest.h>

#include <qm/rewind.hpp>

asm(R"(
  .pushsection .text.qm_test_order, "ax", @progbits
qm_test_first:
  .skip 16
qm_test_second:
  .skip 16
  .popsection
  .pushsection qm_sections, "aR", @progbits
  .4byte qm_test_second - .
  .2byte 8, 12
  .4byte qm_test_first - .
  .2byte 8, 12
  .popsection
)");

namespace alloc_sections_order_test {

TEST(SectionsOrder, is_verified) { EXPECT_FALSE(qm::inlined_sections_in_order()); }

}  // namespace alloc_sections_order_test
