/* The work of the example, in addition to live blocks of 8 to 71 bytes. QEMU writes the bytes of the heap to 0x81000000,
 * followed by the number of blocks. Also counts the instructions of a pair of an allocation and its free. */
#include <FreeRTOS.h>
#include <task.h>

#include "board.h"
#include "radio.h"

static size_t heap_bytes(void) { return ((volatile uint32_t*)0x81000000)[0]; }
static size_t kept_blocks(void) { return ((volatile uint32_t*)0x81000000)[1]; }

void vApplicationMallocFailedHook(void) { board_stop("no memory"); }

/* @returns the instructions of a hot pair, including the loop. */
static size_t count_pair(void) {
  size_t before, after;
  enum { PAIRS = 100 };
  vTaskSuspendAll();
  __asm volatile("csrr %0, minstret" : "=r"(before));
  for (unsigned number = 0; number < PAIRS; ++number) vPortFree(pvPortMalloc(40));
  __asm volatile("csrr %0, minstret" : "=r"(after));
  (void)xTaskResumeAll();
  return (after - before) / PAIRS;
}

static void conduct(void* argument) {
  HeapStats_t stats;
  (void)argument;
  radio_send(100, 0);
  const size_t pair = count_pair();
  vTaskDelay(2);
  vPortGetHeapStats(&stats);
  board_print("sent in a heap of ");
  board_print_number(heap_bytes());
  board_print(" bytes, ");
  board_print_number(stats.xMinimumEverFreeBytesRemaining);
  board_print(" least free, ");
  board_print_number(pair);
  board_print(" instructions a pair\n");
  board_finish();
}

int main(void) {
#if defined(TEST_REGIONS)
  static uint8_t memory[131072] __attribute__((aligned(16)));
  const HeapRegion_t regions[] = {{memory, heap_bytes()}, {NULL, 0}};
  vPortDefineHeapRegions(regions);
#else
  /* heap_4.c uses the last bytes of its array: the first allocation lies before them. */
  if (pvPortMalloc(configTOTAL_HEAP_SIZE - heap_bytes() - 16) == NULL) board_stop("no memory");
#endif
  uint32_t random = 7;
  for (size_t number = 0; number < kept_blocks(); ++number) {
    random = random * 1664525 + 1013904223;
    if (pvPortMalloc(8 + (random >> 26)) == NULL) board_stop("no memory");
  }
  radio_start();
  if (xTaskCreate(conduct, "conduct", 512, NULL, 1, NULL) != pdPASS) board_stop("no memory");
  vTaskStartScheduler();
  board_stop("the scheduler does not start");
}
