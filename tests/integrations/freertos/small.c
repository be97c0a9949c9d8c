/* A heap that is too small: it returns a status, and allocations return NULL. */
#include <FreeRTOS.h>
#include <qm_freertos.h>

#include "ledger.h"

static unsigned hook_calls;
void vApplicationMallocFailedHook(void) { ++hook_calls; }

int main(void) {
  static const qm_freertos_console console = {.write = board_write, .read = board_read, .priority = 1};
  HeapStats_t stats;
  CHECK(qm_freertos_status() == QM_UNSAFE);
  CHECK(pvPortMalloc(1) == NULL && hook_calls == 1);
  CHECK(qm_freertos_status() == QM_INVALID);
  CHECK(pvPortCalloc(1, 1) == NULL && hook_calls == 2);
  CHECK(xPortGetFreeHeapSize() == 0 && xPortGetMinimumEverFreeHeapSize() == 0);
  vPortGetHeapStats(&stats);
  CHECK(stats.xNumberOfFreeBlocks == 0 && stats.xSizeOfLargestFreeBlockInBytes == 0);
  CHECK(qm_freertos_start_console(&console) == QM_INVALID);
  vPortFree(NULL);
  board_print("the heap is too small\n");
  board_finish();
}
