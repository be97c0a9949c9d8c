/* Every function of <qm/qm.h>, used as C99. alloc_c_interface_in_cpp.cpp compiles it as C++ too. Each test returns
 * 0, or the line of the first check that failed. */

#include <qm/config.h>
#include <qm/qm.h>

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

int QM_C_TEST(c_whole)(void);
int QM_C_TEST(c_source)(void);
int QM_C_TEST(c_arenas)(void);
int QM_C_TEST(c_imports)(void);
int QM_C_TEST(c_caches)(void);
int QM_C_TEST(c_heap)(void);
int QM_C_TEST(c_misuse)(void);
int QM_C_TEST(c_overflow)(void);
int QM_C_TEST(c_port)(void);

static unsigned char ram[1 << 20];
static unsigned char more_ram[1 << 17];

static int starts(void) { return qm_init(ram, sizeof ram) == QM_OK; }

int QM_C_TEST(c_whole)(void) {
  size_t free_bytes;
  CHECK(qm_init(ram, 512) == QM_INVALID);
  CHECK(qm_add_memory(more_ram, sizeof more_ram) == QM_INVALID);
  CHECK(qm_init(ram, sizeof ram) == QM_OK);
  CHECK(qm_init(ram, sizeof ram) == QM_BUSY);
  free_bytes = qm_arena_free_bytes(qm_base_arena());
  CHECK(qm_add_memory(more_ram, sizeof more_ram) == QM_OK);
  CHECK(qm_add_memory(more_ram, sizeof more_ram) == QM_OVERLAP);
  CHECK(qm_arena_free_bytes(qm_base_arena()) > free_bytes + sizeof more_ram / 2);
  CHECK(qm_arena_total_bytes(qm_page_arena()) <= sizeof ram);
  qm_free(qm_malloc(10000));
  qm_detach_hart();
  qm_attach_hart();
  CHECK(qm_reclaim() > 0);
  CHECK(qm_reclaim() == 0);
  return 0;
}

/* The base arena, not the arena of pages. */
int QM_C_TEST(c_source)(void) {
  size_t free_bytes, pages;
  qm_cache* cache;
  void* object;
  CHECK(starts());
  pages = qm_arena_total_bytes(qm_page_arena());
  cache = qm_cache_create("without_source", 1024, 0, 0, NULL, NULL, NULL, NULL);
  CHECK(cache != NULL);
  free_bytes = qm_arena_free_bytes(qm_base_arena());
  object = qm_cache_alloc(cache, 0);
  CHECK(object != NULL);
  CHECK(qm_arena_free_bytes(qm_base_arena()) < free_bytes);
  CHECK(qm_arena_total_bytes(qm_page_arena()) == pages);
  qm_cache_free(cache, object);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  return 0;
}

int QM_C_TEST(c_arenas)(void) {
  uintptr_t a, b;
  qm_arena* ids;
  CHECK(starts());
  CHECK(qm_arena_create("no/name", 0, 0, 1, NULL, NULL, NULL, 0) == NULL);
  CHECK(qm_arena_create("ids", 1, 100, 0, NULL, NULL, NULL, 0) == NULL);
  ids = qm_arena_create("ids", 1, 100, 1, NULL, NULL, NULL, 0);
  CHECK(ids != NULL);
  CHECK(qm_arena_create("ids", 1, 100, 1, NULL, NULL, NULL, 0) == NULL);
  CHECK(qm_arena_total_bytes(ids) == 100);
  CHECK(qm_arena_free_bytes(ids) == 100);
  CHECK(qm_arena_add(ids, 50, 10) == QM_OVERLAP);
  CHECK(qm_arena_add(ids, 200, 50) == QM_OK);
  CHECK(qm_arena_add(ids, 300, 0) == QM_INVALID);
  a = qm_arena_alloc(ids, 60, QM_INSTANT_FIT);
  CHECK(a == 1);
  b = qm_arena_alloc(ids, 40, QM_BEST_FIT);
  CHECK(b == 61);
  CHECK(qm_arena_free(ids, b, 40) == QM_OK);
  b = qm_arena_alloc(ids, 1, QM_NEXT_FIT);
  CHECK(b != 0);
  CHECK(qm_arena_free(ids, b, 2) == QM_MISMATCH);
  CHECK(qm_arena_free(ids, b + 1, 1) == QM_NOT_FOUND);
  CHECK(qm_arena_free(ids, 0, 1) == QM_OK);
  CHECK(qm_arena_free(ids, b, 1) == QM_OK);
  CHECK(qm_arena_alloc(ids, 0, QM_INSTANT_FIT) == 0);
  CHECK(qm_arena_alloc(ids, SIZE_MAX, QM_INSTANT_FIT) == 0);
  CHECK(qm_arena_destroy(ids) == QM_BUSY);
  CHECK(qm_arena_free(ids, a, 60) == QM_OK);

  a = qm_arena_xalloc(ids, 3, 16, 6, 16, 210, 240, QM_BEST_FIT);
  CHECK(a == 214);
  CHECK(qm_arena_xalloc(ids, 3, 16, 6, 0, 210, 230, QM_INSTANT_FIT) == 0);
  b = qm_arena_xalloc(ids, 3, 16, 6, 0, 210, 233, QM_INSTANT_FIT);
  CHECK(b == 230);
  CHECK(qm_arena_xalloc(ids, 3, 12, 0, 0, 0, 0, QM_INSTANT_FIT) == 0);
  CHECK(qm_arena_xfree(ids, a, 4) == QM_MISMATCH);
  CHECK(qm_arena_xfree(ids, a, 3) == QM_OK);
  CHECK(qm_arena_xfree(ids, a, 3) == QM_NOT_FOUND);
  CHECK(qm_arena_xfree(ids, b, 3) == QM_OK);
  CHECK(qm_arena_destroy(ids) == QM_OK);
  CHECK(qm_arena_destroy(NULL) == QM_OK);
  CHECK(qm_arena_destroy(qm_page_arena()) == QM_INVALID);
  return 0;
}

static size_t drawn;

/* A source that creates numbers; each span has a place of its own. */
static uintptr_t import_span(qm_arena* source, size_t size, qm_policy policy) {
  static uintptr_t next;
  (void)source;
  if (policy > QM_NEXT_FIT) return 0;
  next += size + 0x10000;
  drawn += size;
  return next;
}

static void release_span(qm_arena* source, uintptr_t address, size_t size) {
  (void)source;
  if (address != 0) drawn -= size;
}

/* A source below another one, from which it imports a quarter at a time. */
static uintptr_t import_from_source(qm_arena* source, size_t size, qm_policy policy) {
  return qm_arena_alloc(source, size, policy);
}
static void release_to_source(qm_arena* source, uintptr_t address, size_t size) {
  qm_arena_free(source, address, size);
}

int QM_C_TEST(c_imports)(void) {
  uintptr_t a, b;
  qm_arena *self, *source, *user;
  CHECK(starts());
  drawn = 0;
  self = qm_arena_create("self", 0, 0, 256, import_span, release_span, NULL, 512);
  CHECK(self != NULL);
  a = qm_arena_alloc(self, 10000, QM_INSTANT_FIT);
  b = qm_arena_alloc(self, 300, QM_INSTANT_FIT);
  CHECK(a != 0 && b != 0 && a % 256 == 0 && b % 256 == 0 && drawn >= 10300);
  CHECK(qm_arena_free(self, a, 10000) == QM_OK);
  CHECK(qm_arena_free(self, b, 300) == QM_OK);
  CHECK(qm_arena_destroy(self) == QM_OK);
  CHECK(drawn == 0);

  source = qm_arena_create("source", 4096, 40960, 4096, NULL, NULL, NULL, 0);
  user = qm_arena_create("user", 0, 0, 16, import_from_source, release_to_source, source, 0);
  CHECK(source != NULL && user != NULL);
  a = qm_arena_alloc(user, 5000, QM_BEST_FIT);
  CHECK(a != 0);
  CHECK(qm_arena_free_bytes(source) == 40960 - 8192);
  CHECK(qm_arena_destroy(source) == QM_BUSY);
  CHECK(qm_arena_alloc(user, 40000, QM_BEST_FIT) == 0);
  CHECK(qm_arena_free(user, a, 5000) == QM_OK);
  CHECK(qm_arena_destroy(user) == QM_OK);
  CHECK(qm_arena_free_bytes(source) == 40960);
  user = qm_arena_create("user", 0, 0, 4096, NULL, NULL, source, 8192);
  CHECK(user != NULL);
  CHECK(qm_arena_destroy(user) == QM_OK);
  CHECK(qm_arena_destroy(source) == QM_OK);
  return 0;
}

static int constructed;

static bool construct(void* object, void* priv) {
  *(int*)object = *(int*)priv;
  if (constructed == 30) return false;
  ++constructed;
  return true;
}

static void destruct(void* object, void* priv) {
  if (*(int*)object == *(int*)priv) --constructed;
}

int QM_C_TEST(c_caches)(void) {
  int value = 4711;
  size_t i, count;
  void *object, *objects[40];
  qm_cache_counts counts;
  qm_cache *cache, *numbers;
  qm_arena* range;
  CHECK(starts());
  constructed = 0;
  CHECK(qm_cache_create("nothing", 0, 0, 0, NULL, NULL, NULL, NULL) == NULL);
  CHECK(qm_cache_create("flags", 64, 0, 256, NULL, NULL, NULL, NULL) == NULL);
  cache = qm_cache_create("things", 96, 32, QM_NO_TRACE, NULL, construct, destruct, &value);
  CHECK(cache != NULL);
  CHECK(qm_cache_create("things", 96, 32, 0, NULL, NULL, NULL, NULL) == NULL);
  object = qm_cache_alloc(cache, 0);
  CHECK(object != NULL && (uintptr_t)object % 32 == 0 && *(int*)object == value);
  CHECK(qm_cache_destroy(cache) == QM_BUSY);
  qm_cache_free(cache, object);
  object = qm_cache_alloc(cache, QM_ATOMIC);
  CHECK(object != NULL);
  qm_cache_free(cache, object);
  count = qm_cache_alloc_bulk(cache, objects, 40, QM_QUIET);
  CHECK(count == 30);
  for (i = 0; i < count; ++i) CHECK(*(int*)objects[i] == value);
  CHECK(qm_cache_alloc(cache, QM_RECLAIM) == NULL);
  CHECK(qm_cache_alloc(cache, QM_WAIT_MS(1)) == NULL);
  qm_cache_stats(cache, &counts);
  CHECK(counts.object_size == 96 && counts.in_use == 30 && counts.failures >= 2 && counts.misuses == 0);
  CHECK(counts.objects == counts.in_use + counts.in_magazines + counts.in_depot + counts.reserved + counts.in_slabs);
  CHECK(counts.high_water >= 30 && counts.slabs * counts.slab_bytes >= 30 * 96);
  qm_cache_free_bulk(cache, objects, count);
#if defined(QM_MAGAZINES)
  CHECK(qm_cache_quarantine(cache, 960) == QM_REFUSED);
  CHECK(qm_cache_reserve(cache, 5) == QM_OK);
  qm_cache_stats(cache, &counts);
  CHECK(counts.reserved == 5 && counts.in_use == 0);
  CHECK(qm_cache_reserve(cache, 0) == QM_OK);
#else
  CHECK(qm_cache_reserve(cache, 5) == QM_REFUSED);
#endif
  object = qm_cache_alloc(cache, QM_WAIT);
  CHECK(object != NULL);
  qm_cache_free(cache, object);
  qm_cache_reap(cache);
  CHECK(constructed == 0);
  qm_cache_stats(cache, &counts);
  CHECK(counts.objects == 0);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  CHECK(qm_cache_destroy(NULL) == QM_OK);

  /* Numbers, in units of three. */
  range = qm_arena_create("range", 1000, 60, 3, NULL, NULL, NULL, 0);
  CHECK(range != NULL);
  numbers = qm_cache_create("numbers", 3, 0, QM_NO_TOUCH, range, NULL, NULL, NULL);
  CHECK(numbers != NULL);
  object = qm_cache_alloc(numbers, QM_ATOMIC);
  CHECK((uintptr_t)object >= 1000 && (uintptr_t)object < 1060);
  CHECK(qm_arena_destroy(range) == QM_BUSY);
  qm_cache_free(numbers, object);
  CHECK(qm_cache_destroy(numbers) == QM_OK);
  CHECK(qm_arena_destroy(range) == QM_OK);
  return 0;
}

int QM_C_TEST(c_heap)(void) {
  unsigned char *block, *moved;
  size_t i;
  CHECK(starts());
  block = (unsigned char*)qm_malloc(100);
  CHECK(block != NULL && (uintptr_t)block % QM_ALIGNMENT == 0 && qm_usable_size(block) >= 100 && qm_usable_size(block) <= 131);
  for (i = 0; i < 100; ++i) block[i] = (unsigned char)i;
  moved = (unsigned char*)qm_realloc(block, 5000);
  CHECK(moved != NULL);
  for (i = 0; i < 100; ++i) CHECK(moved[i] == i);
  CHECK(qm_realloc(moved, SIZE_MAX - 10) == NULL);
  CHECK(moved[99] == 99);
  qm_free_sized(moved, 5000);
  CHECK(qm_usable_size(moved) == 0);
  block = (unsigned char*)qm_calloc(30, 7);
  CHECK(block != NULL);
  for (i = 0; i < 210; ++i) CHECK(block[i] == 0);
  qm_free(block);
  CHECK(qm_calloc(SIZE_MAX / 2, 3) == NULL);
  CHECK(qm_malloc(SIZE_MAX) == NULL);
  block = (unsigned char*)qm_aligned_alloc(1024, 10);
  CHECK(block != NULL && (uintptr_t)block % 1024 == 0);
  qm_free(block);
  CHECK(qm_aligned_alloc(48, 10) == NULL);
  block = (unsigned char*)qm_realloc(NULL, 0);
  CHECK(block != NULL);
  qm_free(block);
  qm_free(NULL);
  CHECK(qm_usable_size(NULL) == 0);
  return 0;
}

static qm_misuse_report told;
static unsigned told_count;
static void tell(const qm_misuse_report* report) {
  told = *report;
  ++told_count;
}

int QM_C_TEST(c_misuse)(void) {
  qm_cache* cache;
  qm_cache_counts counts;
  char* object;
  CHECK(starts());
  cache = qm_cache_create("wronged", 64, 0, 0, NULL, NULL, NULL, NULL);
  object = (char*)qm_cache_alloc(cache, 0);
  told_count = 0;
  qm_set_misuse_handler(tell);
  qm_cache_free(cache, object + 8);
  CHECK(told_count == 1 && told.kind == QM_MISUSE_INTERIOR && told.cache == cache);
  CHECK(told.object == object && told.offset == 8 && told.what != NULL && told.what[0] != 0);
  qm_set_misuse_handler(NULL);
  qm_cache_free(cache, object + 8);
  CHECK(told_count == 1);
  qm_cache_free(cache, object);
  CHECK(qm_cache_quarantine(cache, 63) == QM_INVALID);
  CHECK(qm_cache_quarantine(cache, 640) == QM_OK);
  object = (char*)qm_cache_alloc(cache, 0);
  qm_cache_free(cache, object);
  qm_cache_stats(cache, &counts);
  CHECK(counts.quarantined == 1 && counts.in_use == 0);
  qm_set_misuse_handler(tell);
  qm_cache_free(cache, object);
  CHECK(told_count == 2 && told.kind == QM_MISUSE_DOUBLE_FREE && told.object == object);
  object[5] ^= 1;
  CHECK(qm_cache_quarantine(cache, 0) == QM_OK);
  CHECK(told_count == 3 && told.kind == QM_MISUSE_WRITE_AFTER_FREE && told.object == object && told.offset == 5);
  qm_set_misuse_handler(NULL);
  CHECK(qm_cache_destroy(cache) == QM_OK);
  CHECK(qm_status_name(QM_OK)[3] == 'O' && qm_status_name(QM_ABORTED)[3] == 'A' &&
        qm_status_name(QM_REFUSED)[3] == 'R');
  CHECK(qm_status_name((qm_status)7)[0] == 'u' && qm_status_name((qm_status)-12)[0] == 'u');
  return 0;
}

int QM_C_TEST(c_overflow)(void) {
  unsigned char *blocks[8], *block = NULL, *next = NULL;
  int i, j;
  CHECK(starts());
  for (i = 0; i < 8; ++i) CHECK((blocks[i] = (unsigned char*)qm_malloc(20000)) != NULL);
  /* Blocks, since no size class is as large. Two neighbours: no other two are as near to each other. */
  for (i = 0; i < 8; ++i) {
    for (j = 0; j < 8; ++j) {
      if (blocks[j] <= blocks[i] || (block != NULL && blocks[j] - blocks[i] >= next - block)) continue;
      block = blocks[i];
      next = blocks[j];
    }
  }
  told_count = 0;
  qm_set_misuse_handler(tell);
  block[qm_usable_size(block)] ^= 0xff;
  qm_free(block);
  CHECK(told_count == 1 && told.kind == QM_MISUSE_OVERFLOW && told.cache == NULL && told.arena != NULL);
  CHECK(told.object == block && told.neighbour == next);
  qm_set_misuse_handler(NULL);
  return 0;
}

/* All of this can be repeated. */
int QM_C_TEST(c_port)(void) {
  CHECK(starts());
  qm_on_ipi(); /* nothing is pending */
  qm_trap_enter();
  qm_free(qm_malloc(10));
  qm_trap_leave();
  qm_shutdown();
  CHECK(qm_malloc(10) == NULL && starts() && qm_malloc(10) != NULL);
  return 0;
}

#ifdef __cplusplus
}
#endif
