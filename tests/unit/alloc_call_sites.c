/* The hooks of <qm/call_site.h>, used as C99. */

#define QM_MODULE "ctest"
#include "alloc_call_sites.h"

void *qm_test_converted_at(const qm_call_site *site, size_t size) { return qm_malloc_at(site, size); }

void *qm_test_unconverted(size_t size) { return QM_ALLOC(qm_malloc, size); }
void *qm_test_plain(size_t size) { return qm_malloc(size); }

int qm_test_hooks_of_c(qm_cache *cache) {
  void *objects[4];
  void *block = QM_ALLOC(qm_calloc, 3, 40);
  if (block == NULL) return __LINE__;
  block = QM_ALLOC(qm_realloc, block, 3000);
  if (block == NULL) return __LINE__;
  qm_free(block);
  block = QM_ALLOC(qm_aligned_alloc, 256, 100);
  if (block == NULL) return __LINE__;
  qm_free_sized(block, 0);
  qm_free(block);
  objects[0] = QM_ALLOC(qm_cache_alloc, cache, 0);
  if (objects[0] == NULL) return __LINE__;
  qm_cache_free(cache, objects[0]);
  if (QM_ALLOC(qm_cache_alloc_bulk, cache, objects, 4, 0) != 4) return __LINE__;
  qm_cache_free_bulk(cache, objects, 4);
  return 0;
}

void qm_test_take_in_c(void *blocks[3]) {
  blocks[0] = QM_ALLOC(qm_malloc, 100);
  blocks[1] = qm_test_converted(200);
  blocks[2] = qm_test_unconverted(300);
}
