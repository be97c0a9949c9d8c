/// malloc and free.

#include <qm/heap.hpp>

#include "entry.hpp"

void qm::size::use_malloc() {
  anything = heap::allocate(number);
  heap::free(some<void>());
}
