/* A firmware in C with only the allocator: it allocates, is refused, and gets all memory back. */
#include "board.h"

static size_t free_bytes(void) {
  qm_reclaim();
  return qm_arena_free_bytes(qm_base_arena());
}

static size_t misuses(qm_cache* cache) {
  qm_cache_counts counts;
  qm_cache_stats(cache, &counts);
  return counts.misuses;
}

static void caches(void) {
  const size_t before = free_bytes();
  qm_cache* packets = qm_cache_create("packet", 200, 0, 0, 0, 0, 0, 0);
  qm_cache* others = qm_cache_create("other", 64, 64, 0, 0, 0, 0, 0);
  static char* all[4000];
  unsigned count = 0;
  CHECK(packets != 0 && others != 0);
  while (count < 4000 && (all[count] = qm_cache_alloc(packets, QM_ATOMIC)) != 0) memset(all[count++], 0x5a, 200);
  CHECK(count > 2300 && count < 4000); /* of 512 KiB */
  CHECK(qm_cache_alloc(packets, QM_WAIT) == 0);
  CHECK(qm_cache_alloc(others, 0) == 0 && qm_malloc(5000) == 0);
  for (unsigned i = 0; i < count; ++i) CHECK(all[i][0] == 0x5a && all[i][199] == 0x5a);
  qm_cache_free(packets, all[7] + 8); /* inside an object */
  qm_cache_free(others, all[7]);      /* to another cache */
  qm_cache_free(packets, all[7]);
  qm_cache_free(packets, all[7]); /* a second time */
  qm_cache_free(packets, &count); /* not memory of the allocator */
  CHECK(misuses(packets) == 3 && misuses(others) == 1);
  CHECK(qm_cache_alloc(packets, 0) == all[7]);
  CHECK(qm_cache_destroy(packets) == QM_BUSY);
  for (unsigned i = 0; i < count; ++i) qm_cache_free(packets, all[(i * 7) % count]);
  if (count % 7 == 0) board_stop("the order has to reach all");
  CHECK(misuses(packets) == 3);
  CHECK(qm_cache_destroy(packets) == QM_OK && qm_cache_destroy(others) == QM_OK);
  CHECK(free_bytes() >= before - 8192); /* pages of boundary tags remain */
}

static void heap(void) {
  char* text = qm_malloc(10);
  CHECK(text != 0 && (uintptr_t)text % 16 == 0);
  memcpy(text, "quarter", 8);
  text = qm_realloc(text, 3000);
  text = qm_realloc(text, 60000);
  text = qm_realloc(text, 20);
  CHECK(text[0] == 'q' && text[6] == 'r' && text[7] == 0);
  qm_free(text);
  qm_free(text); /* a second time: refused */
  for (size_t alignment = 1; alignment <= 16384; alignment *= 2) {
    void* block = qm_aligned_alloc(alignment, 700);
    CHECK(block != 0 && (uintptr_t)block % alignment == 0 && qm_usable_size(block) >= 700);
    qm_free(block);
  }
  char* zeroes = qm_calloc(100, 30);
  for (unsigned i = 0; i < 3000; ++i) CHECK(zeroes[i] == 0);
  qm_free_sized(zeroes, 3000);
  CHECK(qm_calloc((size_t)-1 / 4, 5) == 0 && qm_malloc((size_t)-1) == 0 && qm_aligned_alloc(3, 8) == 0);
  qm_free(0);
  qm_free(&zeroes);
}

static void arenas(void) {
  qm_arena* irqs = qm_arena_create("irqs", 32, 16, 1, 0, 0, 0, 0);
  CHECK(irqs != 0);
  for (unsigned i = 0; i < 16; ++i) CHECK(qm_arena_alloc(irqs, 1, QM_BEST_FIT) >= 32);
  CHECK(qm_arena_alloc(irqs, 1, QM_INSTANT_FIT) == 0);
  CHECK(qm_arena_destroy(irqs) == QM_BUSY);
  CHECK(qm_arena_free(irqs, 40, 1) == QM_OK && qm_arena_free(irqs, 40, 1) == QM_NOT_FOUND);
  CHECK(qm_arena_alloc(irqs, 1, QM_NEXT_FIT) == 40);
  for (unsigned i = 32; i < 48; ++i) CHECK(qm_arena_free(irqs, i, 1) == QM_OK);
  CHECK(qm_arena_alloc(irqs, 16, 0) == 32 && qm_arena_free(irqs, 32, 16) == QM_OK);
  CHECK(qm_arena_destroy(irqs) == QM_OK);
}

void board_main(void) {
  CHECK(qm_init(__heap_start, (size_t)(__heap_end - __heap_start)) == QM_OK);
  heap();
  caches();
  heap();
  arenas();
  put("the allocator works\n");
  board_done();
}
