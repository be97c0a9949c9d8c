/* heaps: heaps besides the first one (regions, mm_extend(), figures, dumps), more memory for the first one, bad input, and
 * calls in an interrupt handler. Needs MM_REGIONS = 2. */
#include <nuttx/config.h>

#include <nuttx/arch.h>
#include <nuttx/mm/mm.h>
#include <nuttx/wdog.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
  static char memory[4 * BYTES] __attribute__((aligned(16)));
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
  mm_addregion(heap, memory + BYTES, BYTES); /* memory that it already has */
  CHECK(mm_mallinfo(heap).arena == 2 * BYTES);
  mm_addregion(heap, memory + 2 * BYTES, BYTES);
  CHECK(mm_mallinfo(heap).arena == 3 * BYTES && mm_heapmember(heap, memory + 2 * BYTES));
  mm_addregion(heap, memory + 3 * BYTES, BYTES); /* one region too many */
  CHECK(mm_mallinfo(heap).arena == 3 * BYTES && !mm_heapmember(heap, memory + 3 * BYTES));
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
  CHECK(mm_mallinfo_task(heap, &pieces).uordblks == 3 * BYTES);
  struct mm_heap_s* const same = mm_initialize("Test heap", memory + 3 * BYTES, BYTES);
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
  umm_addregion(region, 8 * 4096); /* memory that the heap already has */
  static char page[4096];
  umm_addregion(page, 100); /* less than a page */
  CHECK(mallinfo().arena == before);
  free(region);
  CHECK(malloc(huge - 100) == NULL && malloc(huge / 4) == NULL);
  char* const block = malloc(0);
  CHECK(block != NULL && umm_heapmember(block));
  free(block);
  CHECK(qm_nuttx_status() == QM_OK);
  return 0;
}

/* Each mistake is told at once, and has no effect. */
static int mistakes(void) {
  /* A traced class looks at each free. The allocations that failed have left all memory idle in kheap. */
  CHECK(qm_nuttx_run("reap; slab_trace start kmalloc") == 0);
  static char outside[64];
  char* volatile wrong = outside + 16;
  free(wrong);
  char* const object = malloc(200);
  CHECK(object != NULL);
  wrong = object + 16;
  free(wrong);
  char* const block = malloc(5 * BYTES);
  CHECK(block != NULL);
  char* volatile end = block + malloc_size(block);
  char behind[16];
  (void)memcpy(behind, end, sizeof behind);
  (void)memset(end, 0x5a, sizeof behind);
  wrong = block;
  free(wrong);
  (void)memcpy(end, behind, sizeof behind);
  free(block);
  free(object);
  CHECK(qm_nuttx_run("verify") == 0);
  return 0;
}

struct visits {
  struct wdog_s timer;
  struct mm_heap_s* heap;
  size_t bytes;
  void* kept; /* by the last visit */
  unsigned failed;
  volatile unsigned left;
};

static void on_timer(wdparm_t argument) {
  struct visits* const visits = (struct visits*)argument;
  const size_t bytes = visits->left % 2 != 0 ? visits->bytes : 4 * visits->bytes;
  void* const block = malloc(bytes);
  void* const other = mm_malloc(visits->heap, bytes);
  if (!up_interrupt_context() || block == NULL || other == NULL) ++visits->failed;
  mm_free(visits->heap, other);
  if (visits->left > 1) {
    free(block);
    (void)wd_start(&visits->timer, 1, on_timer, argument);
  } else {
    visits->kept = block;
  }
  --visits->left;
}

static int in_handler(void) {
  static char memory[BYTES] __attribute__((aligned(16)));
  static struct visits visits;
  visits.heap = mm_initialize("Handlers", memory, BYTES);
  CHECK(visits.heap != NULL);
  visits.bytes = 740;
  visits.left = 20;
  CHECK(wd_start(&visits.timer, 1, on_timer, (wdparm_t)&visits) == 0);
  while (visits.left != 0) {
    free(malloc(visits.bytes));
    free(malloc(4 * visits.bytes));
    mm_free(visits.heap, mm_malloc(visits.heap, visits.bytes));
  }
  CHECK(visits.failed == 0 && mm_mallinfo(visits.heap).uordblks == 0);
  CHECK(qm_nuttx_run("slab_trace print kmalloc_*; slab_trace stop kmalloc") == 0);
  free(visits.kept);

  /* All memory is taken, but for idle objects, which an allocation in a handler does not reclaim. */
  void* idle[64];
  for (unsigned i = 0; i < 64; ++i) idle[i] = malloc(1024);
  void** taken = NULL;
  for (size_t bytes = 1 << 20; bytes >= sizeof(void*); bytes /= 2) {
    for (void** block; (block = malloc(bytes)) != NULL; taken = block) *block = taken;
  }
  for (unsigned i = 0; i < 64; ++i) free(idle[i]);
  visits.bytes = 16384;
  visits.left = 1;
  const int started = wd_start(&visits.timer, 1, on_timer, (wdparm_t)&visits);
  while (started == 0 && visits.left != 0) (void)usleep(1000);
  void* const block = malloc(visits.bytes);
  while (taken != NULL) {
    void** const next = *taken;
    free(taken);
    taken = next;
  }
  free(block);
  CHECK(started == 0 && visits.failed == 1 && visits.kept == NULL && block != NULL);
  mm_uninitialize(visits.heap);
  return 0;
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  if (beside() != 0 || first() != 0 || mistakes() != 0 || in_handler() != 0) return 1;
  printf("heaps: ok\n");
  return 0;
}
