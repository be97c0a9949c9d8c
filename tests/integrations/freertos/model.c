/* 100,000 random operations of four tasks and the timer's interrupt: all figures of the heap must be the ledger's. */
#include <FreeRTOS.h>
#include <qm_freertos.h>
#include <semphr.h>
#include <string.h>
#include <task.h>

#include "ledger.h"

enum { OPERATIONS = 100000, TASKS = 4, SLOTS = 100, AT_ONCE = 4 };

struct worker {
  uint32_t random;
  uint8_t fill;
  unsigned operations;
  bool in_handler;
  struct {
    uint8_t* block;
    size_t size;
  } slots[SLOTS];
};
static struct worker workers[TASKS + 1];
static volatile unsigned operations, failures, hook_calls;
static volatile bool handler_ends, handler_has_ended;
static SemaphoreHandle_t ended;

void vApplicationMallocFailedHook(void) {
  taskENTER_CRITICAL();
  ++hook_calls;
  taskEXIT_CRITICAL();
}

static size_t random_size(struct worker* worker) {
  const uint32_t kind = next_random(&worker->random) % 100, value = next_random(&worker->random);
  if (kind == 0) return 0;
  if (kind == 1) return 300000 + value % 100; /* more than the heap has */
  if (kind < 60) return 1 + value % 100;
  if (kind < 90) return 1 + value % 1500;
  return 1 + value % 6000;
}

static void give_back(struct worker* worker, unsigned slot) {
  uint8_t* const block = worker->slots[slot].block;
  for (size_t at = 0; block != NULL && at < worker->slots[slot].size; ++at) CHECK(block[at] == worker->fill);
  worker->slots[slot].block = NULL;
  vPortFree(block); /* also with NULL */
}

static void count_failure(void) {
  taskENTER_CRITICAL();
  ++failures;
  taskEXIT_CRITICAL();
}

static void operate(struct worker* worker) {
  const unsigned slot = next_random(&worker->random) % SLOTS;
  const bool filled = worker->slots[slot].block != NULL, zeroed = next_random(&worker->random) % 4 == 0;
  const size_t size = random_size(worker);
  give_back(worker, slot);
  if (filled) return;
  uint8_t* const block = zeroed ? pvPortCalloc(size % 7 + 1, size / (size % 7 + 1)) : pvPortMalloc(size);
  const size_t got = zeroed ? (size % 7 + 1) * (size / (size % 7 + 1)) : size;
  if (block == NULL) {
    if (!worker->in_handler) count_failure();
    return;
  }
  CHECK((uintptr_t)block % portBYTE_ALIGNMENT == 0);
  for (size_t at = 0; zeroed && at < got; ++at) CHECK(block[at] == 0);
  memset(block, worker->fill, got);
  worker->slots[slot].size = got;
  worker->slots[slot].block = block;
}

static void count_operation(struct worker* worker) {
  taskENTER_CRITICAL();
  ++operations;
  taskEXIT_CRITICAL();
  ++worker->operations;
}

static void work(void* argument) {
  struct worker* const worker = argument;
  while (operations < OPERATIONS) {
    operate(worker);
    count_operation(worker);
    if (worker->operations % 16 == 0) ledger_compare();
    if (worker->operations % 1000 == 0) ledger_reset_minimum();
    /* Tasks of the higher priority leave time to the others, and preempt them at a tick. */
    if (worker->operations % 40 == 0 && (worker - workers) % 2 == 1) vTaskDelay(1);
  }
  for (unsigned slot = 0; slot < SLOTS; ++slot) give_back(worker, slot);
  xSemaphoreGive(ended);
  vTaskDelete(NULL);
}

void vApplicationTickHook(void) {
  struct worker* const worker = &workers[TASKS];
  if (handler_has_ended) return;
  if (handler_ends) {
    for (unsigned slot = 0; slot < SLOTS; ++slot) give_back(worker, slot);
    handler_has_ended = true;
    return;
  }
  for (unsigned number = 0; number < AT_ONCE; ++number) {
    operate(worker);
    ++operations;
    ++worker->operations;
  }
  if (worker->operations % 16 == 0) ledger_compare_in_handler();
}

/* Checks the figures of free blocks at a time when nothing changes. */
static void check_free_blocks(void) {
  HeapStats_t stats;
  qm_reclaim();
  vPortGetHeapStats(&stats);
  CHECK(stats.xNumberOfFreeBlocks >= 1);
  const size_t largest = stats.xSizeOfLargestFreeBlockInBytes;
  void* const block = pvPortMalloc(largest - 64);
  CHECK(block != NULL);
  vPortFree(block);
  const unsigned before = hook_calls;
  /* Free memory at the ends of blocks' spans may add less than a page at either side. */
  CHECK(pvPortMalloc(largest + 2 * 4096) == NULL && hook_calls == before + 1);
  CHECK(pvPortCalloc(SIZE_MAX / 2, 3) == NULL);
  ledger_compare();
}

static void conduct(void* argument) {
  (void)argument;
  for (unsigned number = 0; number < TASKS; ++number) {
    CHECK(xTaskCreate(work, "worker", 512, &workers[number], 1 + number % 2, NULL) == pdPASS);
  }
  for (unsigned number = 0; number < TASKS; ++number) xSemaphoreTake(ended, portMAX_DELAY);
  handler_ends = true;
  while (!handler_has_ended) vTaskDelay(1);
  vTaskDelay(5); /* the idle task frees the tasks */
  CHECK(failures == hook_calls && failures > 100);
  for (unsigned number = 0; number <= TASKS; ++number) CHECK(workers[number].operations > OPERATIONS / 100);
  CHECK(qm_freertos_refused() == 0);
  ledger_compare();
  check_free_blocks();
  CHECK(arenas_are_sound());
  board_print("the figures are the model's: ");
  board_print_number(operations);
  board_print(" operations, of the tasks ");
  for (unsigned number = 0; number < TASKS; ++number) board_print_number(workers[number].operations), board_print(", ");
  board_print_number(workers[TASKS].operations);
  board_print(" of the timer's interrupt, ");
  board_print_number(failures);
  board_print(" failures\n");
  board_finish();
}

int main(void) {
  ledger_open();
  CHECK(qm_freertos_status() == QM_OK);
  for (unsigned number = 0; number <= TASKS; ++number) {
    workers[number].random = 1000 + number;
    workers[number].fill = (uint8_t)(0x11 * (number + 1));
  }
  workers[TASKS].in_handler = true;
  ended = xSemaphoreCreateCounting(TASKS, 0);
  CHECK(ended != NULL && xTaskCreate(conduct, "conduct", 512, NULL, 3, NULL) == pdPASS);
  vTaskStartScheduler();
  board_stop("the scheduler does not start");
}
