/* The work of the example in a heap of as many bytes as QEMU writes to the first word behind 0x81000000. */
#include <FreeRTOS.h>
#include <task.h>

#include "board.h"
#include "radio.h"

static size_t heap_bytes(void) { return *(volatile uint32_t*)0x81000000; }

void vApplicationMallocFailedHook(void) { board_stop("no memory"); }

static void conduct(void* argument) {
  HeapStats_t stats;
  (void)argument;
  radio_send(100, 0);
  vTaskDelay(2);
  vPortGetHeapStats(&stats);
  board_print("sent in a heap of ");
  board_print_number(heap_bytes());
  board_print(" bytes, ");
  board_print_number(stats.xMinimumEverFreeBytesRemaining);
  board_print(" least free\n");
  board_finish();
}

int main(void) {
#if defined(TEST_REGIONS)
  static uint8_t memory[131072] __attribute__((aligned(16)));
  const HeapRegion_t regions[] = {{memory, heap_bytes()}, {NULL, 0}};
  vPortDefineHeapRegions(regions);
#else
  /* heap_4.c has the last bytes of its array: what is taken first lies before them. */
  if (pvPortMalloc(configTOTAL_HEAP_SIZE - heap_bytes() - 16) == NULL) board_stop("no memory");
#endif
  radio_start();
  if (xTaskCreate(conduct, "conduct", 512, NULL, 1, NULL) != pdPASS) board_stop("no memory");
  vTaskStartScheduler();
  board_stop("the scheduler does not start");
}
