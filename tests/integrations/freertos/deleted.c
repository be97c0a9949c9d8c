/* Tasks are deleted at any instruction while they allocate and are traced: the figures stay right, and the blocks
 * that they held are found by their name. */
#include <FreeRTOS.h>
#include <qm/trace/trace.h>
#include <qm_freertos.h>
#include <string.h>
#include <task.h>

#include "ledger.h"

enum { VICTIMS = 300 };

void vApplicationMallocFailedHook(void) { board_stop("no memory"); }

static void* kept; /* the victim's block, if it holds one */

static void allocate_for_ever(void* argument) {
  uint32_t random = (uint32_t)(uintptr_t)argument * 77 + 1;
  kept = pvPortMalloc(24); /* the victim may be deleted before it has the block */
  for (;;) {
    void* const block = pvPortMalloc(next_random(&random) % 300 + 1);
    vPortFree(block);
  }
}

struct found {
  unsigned of_victims, others, deep;
};
static bool look(const qm_trace_record* record, void* argument) {
  struct found* const found = argument;
  if (strcmp(record->context, "task victim") == 0) ++found->of_victims;
  else ++found->others;
  if (record->depth != 0 && !record->truncated) ++found->deep;
  return true;
}

static void conduct(void* argument) {
  uint32_t random = 5;
  (void)argument;
  CHECK(qm_trace_init(NULL) == QM_OK && qm_trace_start("kmalloc") == QM_OK);
  const size_t before = ledger_blocks();
  for (uintptr_t number = 0; number < VICTIMS; ++number) {
    TaskHandle_t victim;
    CHECK(xTaskCreate(allocate_for_ever, "victim", 512, (void*)number, 1, &victim) == pdPASS);
    kept = NULL;
    while (kept == NULL) vTaskDelay(1 + next_random(&random) % 2);
    /* The tick occurs at any instruction of the victim. */
    for (uint32_t spin = next_random(&random) % 500; spin != 0; --spin) __asm volatile("");
    vTaskDelete(victim);
    ledger_compare();
    CHECK(pvPortMalloc(1) != NULL); /* this task's block */
  }
  vTaskDelay(2);
  struct found found = {0, 0, 0};
  qm_trace_summary summary;
  CHECK(qm_trace_foreach(NULL, look, &found, &summary) == QM_OK);
  CHECK(found.of_victims >= VICTIMS && found.of_victims <= 2 * VICTIMS && summary.dropped == 0);
  /* No block was lost on the way to its task or back. */
  CHECK(found.of_victims + found.others == ledger_blocks() - before);
  CHECK(found.deep == found.of_victims + found.others);
  CHECK(arenas_are_sound());
  board_print("tasks were deleted while they were traced\n");
  board_finish();
}

int main(void) {
  ledger_open();
  CHECK(xTaskCreate(conduct, "conduct", 1024, NULL, 3, NULL) == pdPASS);
  vTaskStartScheduler();
  board_stop("the scheduler does not start");
}
