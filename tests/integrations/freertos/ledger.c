#include "ledger.h"

#include <FreeRTOS.h>
#include <task.h>

enum { BLOCKS = 4096 };
static struct {
  const void* block;
  size_t bytes;
} out[BLOCKS];
static size_t count; /* entries used, some empty */
static size_t total, used, least, mallocs, frees;

static size_t find(const void* block) {
  size_t at = 0;
  while (at < count && out[at].block != block) ++at;
  return at;
}

/* Called with interrupts masked. */
void trace_malloc(const void* block, size_t bytes) {
  if (block == NULL) return;
  CHECK(bytes != 0 && find(block) == count);
  const size_t at = find(NULL);
  CHECK(at < BLOCKS);
  if (at == count) ++count;
  out[at].block = block;
  out[at].bytes = bytes;
  used += bytes;
  if (total - used < least) least = total - used;
  ++mallocs;
}

void trace_free(const void* block, size_t bytes) {
  const size_t at = find(block);
  CHECK(at < count && out[at].bytes == bytes);
  out[at].block = NULL;
  used -= bytes;
  ++frees;
}

void ledger_open(void) {
  vPortInitialiseBlocks();
  total = least = xPortGetFreeHeapSize();
  CHECK(xPortGetMinimumEverFreeHeapSize() == total);
}

void ledger_compare_in_handler(void) {
  HeapStats_t stats;
  size_t sum = 0;
  for (size_t at = 0; at < count; ++at) sum += out[at].block != NULL ? out[at].bytes : 0;
  CHECK(sum == used);
  CHECK(xPortGetFreeHeapSize() == total - used);
  CHECK(xPortGetMinimumEverFreeHeapSize() == least);
  vPortGetHeapStats(&stats);
  CHECK(stats.xAvailableHeapSpaceInBytes == total - used);
  CHECK(stats.xMinimumEverFreeBytesRemaining == least);
  CHECK(stats.xNumberOfSuccessfulAllocations == mallocs);
  CHECK(stats.xNumberOfSuccessfulFrees == frees);
  if (stats.xNumberOfFreeBlocks == 0) {
    CHECK(stats.xSizeOfLargestFreeBlockInBytes == 0 && stats.xSizeOfSmallestFreeBlockInBytes == SIZE_MAX);
  } else {
    CHECK(stats.xSizeOfSmallestFreeBlockInBytes <= stats.xSizeOfLargestFreeBlockInBytes);
    CHECK(stats.xSizeOfLargestFreeBlockInBytes <= total);
  }
}

size_t ledger_blocks(void) { return mallocs - frees; }

void ledger_compare(void) {
  taskENTER_CRITICAL();
  ledger_compare_in_handler();
  taskEXIT_CRITICAL();
}

void ledger_reset_minimum(void) {
  taskENTER_CRITICAL();
  xPortResetHeapMinimumEverFreeHeapSize();
  least = total - used;
  taskEXIT_CRITICAL();
}
