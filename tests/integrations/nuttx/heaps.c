/* heaps: heaps besides the first one (regions, mm_extend(), figures, dumps), more memory for the first one, bad input. */
#include <nuttx/config.h>

#include <nuttx/mm/mm.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qm_nuttx.h>

#define CHECK(what)                                       \
  do {                                                    \
    if (!(what)) {                                        \
      printf("heaps: FAILED: %d: %s\n", __LINE__, #what); \
      return 1;                                           \
    }                                                     \
  } while (0)
#define BYTES 65536

static volatile size_t huge = SIZE_MAX;

static int beside(void) {
  static char memory[3 * BYTES] __attribute__((aligned(16)));
  struct mm_heap_s* const heap = mm_initialize("Test heap", memory, BYTES);
  CHECK(heap != NULL);
  CHECK(mm_brkaddr(heap, 0) == memory + BYTES);
  CHECK(mm_mallinfo(heap).arena == BYTES && mm_mallinfo(heap).uordblks == 0);
  char* const block = mm_malloc(heap, 100);
  CHECK(block >= memory && block < memory + BYTES);
  CHECK(mm_malloc_size(heap, block) >= 100);
  CHECK(mm_heapmember(heap, block) && !mm_heapmember(heap, memory + BYTES) && !umm_heapmember(block));
  CHECK(mm_mallinfo(heap).aordblks == 1 && mm_mallinfo(heap).uordblks == (int)mm_malloc_size(heap, block));
  CHECK(mm_malloc(heap, 2 * BYTES) == NULL);
  mm_extend(heap, memory + BYTES, BYTES, 0);
  CHECK(mm_brkaddr(heap, 0) == memory + 2 * BYTES && mm_heapfree(heap) > BYTES);
  char* const large = mm_zalloc(heap, BYTES);
  CHECK(large != NULL && large[0] == 0 && large[BYTES - 1] == 0);
  char* const aligned = mm_memalign(heap, 1024, 40);
  CHECK(aligned != NULL && (uintptr_t)aligned % 1024 == 0);
  CHECK(mm_memalign(heap, 24, 40) == NULL && mm_calloc(heap, huge / 2, 3) == NULL);
  (void)strcpy(block, "kept");
  char* const grown = mm_realloc(heap, block, 5000);
  CHECK(grown != NULL && strcmp(grown, "kept") == 0 && mm_heapmember(heap, grown));
  mm_free(heap, grown + 16); /* not a block: reported, without effect */
  mm_free(heap, grown);
  mm_free(heap, large);
  mm_free(heap, aligned);
  CHECK(mm_mallinfo(heap).uordblks == 0 && mm_mallinfo(heap).usmblks > BYTES);
  const struct malltask pieces = {PID_MM_FREE};
  CHECK(mm_mallinfo_task(heap, &pieces).uordblks == 2 * BYTES);
  struct mm_heap_s* const same = mm_initialize("Test heap", memory + 2 * BYTES, BYTES);
  CHECK(same != NULL && mm_malloc(same, 100) != NULL);
  mm_uninitialize(same); /* with a live block, like NuttX's own function */
  mm_uninitialize(heap);
  CHECK(mm_initialize("tiny", memory, 8) == NULL);
  return 0;
}

static int first(void) {
  const int before = mallinfo().arena;
  char* const region = memalign(4096, 8 * 4096);
  CHECK(region != NULL);
  umm_addregion(region, 100); /* memory that the heap already has, and less than a page */
  CHECK(mallinfo().arena == before);
  free(region);
  CHECK(malloc(huge - 100) == NULL && malloc(huge / 4) == NULL);
  char* const block = malloc(0);
  CHECK(block != NULL && umm_heapmember(block));
  free(block);
  CHECK(qm_nuttx_status() == QM_OK);
  return 0;
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  if (beside() != 0 || first() != 0) return 1;
  printf("heaps: ok\n");
  return 0;
}
