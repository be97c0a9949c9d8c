/* Every function of <qm/trace/trace.h>, used as C99. trace_c_interface_in_cpp.cpp compiles it as C++ too. Each test
 * returns 0, or the line of the first check that failed. */

#include <qm/trace/trace.h>

#ifndef QM_C_TEST
#define QM_C_TEST(name) name##_in_c
#endif

#define CHECK(condition)               \
  do {                                 \
    if (!(condition)) return __LINE__; \
  } while (0)

#ifdef __cplusplus
extern "C" {
#endif

int QM_C_TEST(c_trace)(void);
int QM_C_TEST(c_patterns)(void);

static unsigned char ram[2 << 20];

struct seen {
  uintptr_t objects[8];
  size_t count;
  size_t stop_after;
  uint64_t last_sequence;
  int wrong;
};

static bool look(const qm_trace_record* record, void* priv) {
  struct seen* seen = (struct seen*)priv;
  if (record->sequence < seen->last_sequence || record->context == NULL || record->hart != 0) seen->wrong = __LINE__;
  if (record->depth != 0 && record->stack[0] == 0) seen->wrong = __LINE__;
  if (record->requested != 96 || record->stack_id == 0) seen->wrong = __LINE__;
  seen->last_sequence = record->sequence;
  seen->objects[seen->count++] = record->object;
  /* Only one iteration is possible at a time. */
  if (qm_trace_foreach(NULL, look, priv, NULL) != QM_BUSY) seen->wrong = __LINE__;
  return seen->count != seen->stop_after;
}

int QM_C_TEST(c_trace)(void) {
  qm_trace_config config = {0, 65536, 0};
  qm_trace_summary summary;
  struct seen seen = {{0}, 0, 0, 0, 0};
  void *before, *first, *second, *third;
  qm_cache* cache;
  CHECK(qm_init(ram, sizeof ram) == QM_OK);
  CHECK(qm_trace_init(&config) == QM_OK);
  CHECK(qm_trace_init(NULL) == QM_BUSY);
  cache = qm_cache_create("traced", 96, 0, 0, NULL, NULL, NULL, NULL);
  CHECK(cache != NULL);
  CHECK(qm_cache_create("hidden", 96, 0, QM_NO_TRACE, NULL, NULL, NULL, NULL) != NULL);
  CHECK(qm_trace_start("nobody") == QM_NOT_FOUND);
  CHECK(qm_trace_start(NULL) == QM_NOT_FOUND);
  CHECK(qm_trace_start("hidden") == QM_REFUSED);
  CHECK(qm_trace_foreach("nobody", look, &seen, NULL) == QM_NOT_FOUND);
  before = qm_cache_alloc(cache, 0);
  CHECK(qm_trace_start("tra*") == QM_OK);
  first = qm_cache_alloc(cache, 0);
  second = qm_cache_alloc(cache, 0);
  third = qm_cache_alloc(cache, 0);
  CHECK(before != NULL && first != NULL && second != NULL && third != NULL);
  qm_cache_free(cache, second);
  CHECK(qm_trace_foreach("traced", look, &seen, &summary) == QM_OK);
  CHECK(seen.wrong == 0);
  CHECK(seen.count == 2 && seen.objects[0] == (uintptr_t)first && seen.objects[1] == (uintptr_t)third);
  CHECK(summary.shown == 2 && summary.recorded == 3 && summary.dropped == 0 && summary.from_before_start == 1);
  CHECK(qm_trace_stop("traced") == QM_OK);
  second = qm_cache_alloc(cache, 0);
  seen.count = 0;
  seen.stop_after = 1;
  seen.last_sequence = 0;
  CHECK(qm_trace_foreach(NULL, look, &seen, &summary) == QM_ABORTED);
  CHECK(seen.wrong == 0 && seen.count == 1 && summary.shown == 1 && !summary.complete);
  CHECK(qm_trace_reset("traced") == QM_OK);
  seen.count = 0;
  CHECK(qm_trace_foreach("traced", look, &seen, NULL) == QM_OK);
  CHECK(seen.count == 0);
  qm_cache_free(cache, before);
  qm_cache_free(cache, first);
  qm_cache_free(cache, second);
  qm_cache_free(cache, third);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  return 0;
}

/* On a host, the stack walk may not reach the end of the stack. */
static bool truncated;
#define COMPLETE (summary.complete || truncated)

static bool count(const qm_trace_record* record, void* priv) {
  truncated = truncated || record->truncated;
  *(size_t*)priv += record->requested;
  return true;
}

/* A pattern that was started also applies to caches created later, such as the heap's classes. */
/* The first operations of a size class use blocks, and each makes progress towards its cache. */
static void make_class(size_t size) {
  int steps;
  for (steps = 0; steps < 8; ++steps) qm_free(qm_malloc(size));
}

int QM_C_TEST(c_patterns)(void) {
  qm_trace_summary summary;
  size_t bytes = 0;
  void *small, *large, *later, *object;
  qm_cache* cache;
  CHECK(qm_init(ram, sizeof ram) == QM_OK);
  CHECK(qm_trace_init(NULL) == QM_OK);
  /* The heap, of which one class is created. */
  make_class(40);
  CHECK(qm_trace_start("kmalloc") == QM_OK);
  CHECK(qm_trace_start("kmalloc") == QM_OK);
  CHECK(qm_trace_foreach("kmalloc", count, &bytes, &summary) == QM_OK && bytes == 0 && COMPLETE);
  small = qm_malloc(40);
  large = qm_malloc(100000);
  CHECK(small != NULL && large != NULL);
  CHECK(qm_trace_foreach("kmalloc", count, &bytes, &summary) == QM_OK);
  CHECK(bytes == 100040 && summary.shown == 2 && summary.recorded == 2 && COMPLETE);
  CHECK(qm_trace_foreach("kmalloc_*", count, (bytes = 0, &bytes), &summary) == QM_OK && bytes == 40 && COMPLETE);
  CHECK(qm_trace_foreach(NULL, count, (bytes = 0, &bytes), &summary) == QM_OK && bytes == 100040 && COMPLETE);
  CHECK(qm_trace_stop("kmalloc") == QM_OK);
  /* A class that is created after the stop is not traced, and is not reported as traced. */
  make_class(600);
  later = qm_malloc(600);
  CHECK(later != NULL);
  CHECK(qm_trace_foreach("kmalloc_*", count, (bytes = 0, &bytes), &summary) == QM_OK && bytes == 40 &&
        !summary.complete);
  /* A cache that was never traced. */
  cache = qm_cache_create("before", 64, 0, 0, NULL, NULL, NULL, NULL);
  CHECK(qm_trace_foreach("before", count, &bytes, &summary) == QM_OK && summary.shown == 0 && !summary.complete);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  CHECK(qm_trace_foreach("bef*", count, &bytes, NULL) == QM_NOT_FOUND);
  CHECK(qm_trace_stop("bef*") == QM_NOT_FOUND);
  /* All caches, and those created later. */
  CHECK(qm_trace_start("*") == QM_OK);
  CHECK(qm_trace_start("late*") == QM_OK);
  cache = qm_cache_create("later", 64, 0, 0, NULL, NULL, NULL, NULL);
  object = qm_cache_alloc(cache, 0);
  CHECK(object != NULL);
  CHECK(qm_trace_foreach("later", count, (bytes = 0, &bytes), &summary) == QM_OK && bytes == 64 && COMPLETE);
  CHECK(qm_trace_foreach("lat?r", count, (bytes = 0, &bytes), NULL) == QM_OK && bytes == 64);
  CHECK(qm_trace_reset("late*") == QM_OK);
  CHECK(qm_trace_foreach("later", count, (bytes = 0, &bytes), &summary) == QM_OK && bytes == 0);
  /* Stopping all drops both patterns. */
  CHECK(qm_trace_stop("*") == QM_OK);
  qm_cache_free(cache, object);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  CHECK(qm_trace_stop("late*") == QM_NOT_FOUND);
  cache = qm_cache_create("later", 64, 0, 0, NULL, NULL, NULL, NULL);
  CHECK(qm_trace_foreach("later", count, &bytes, &summary) == QM_OK && !summary.complete);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  qm_free(small);
  qm_free(large);
  qm_free(later);
  return 0;
}

#ifdef __cplusplus
}
#endif
