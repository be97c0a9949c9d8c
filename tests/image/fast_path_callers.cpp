#include "fast_path_callers.hpp"

QM_DEFINE_INLINE_CACHE(Looked);

void qm_image_pair_called(qm::Cache* cache, unsigned long left) noexcept {
  do {
    cache->free(cache->allocate());
  } while (--left != 0);
}

void qm_image_pair_inlined(unsigned long left) noexcept {
  do {
    Looked::free(Looked::allocate());
  } while (--left != 0);
}

void qm_image_pair_of_heap(unsigned long left) noexcept {
  do {
    qm::heap::free(qm::heap::allocate(50));
  } while (--left != 0);
}

void qm_image_unused_inlined(unsigned long left) noexcept {
  do {
    Looked::free(Looked::allocate());
  } while (--left != 0);
}
