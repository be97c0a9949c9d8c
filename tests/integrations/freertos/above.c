/* An interrupt above the kernel's mask level allocates and frees at any instruction: calls in the middle of the
 * allocator are refused and counted, all others are served, and nothing is corrupted. */
#include <FreeRTOS.h>
#include <qm_freertos.h>
#include <string.h>
#include <task.h>

#include "ledger.h"

enum { REFUSALS = 200, SERVED = 2000, SLOTS = 16, BYTES = 40 };

extern volatile uint8_t test_masks_to_level;
static volatile unsigned served, not_served;

void vApplicationMallocFailedHook(void) { board_stop("no memory"); }

static void check_and_free(uint8_t* block, uint8_t fill) {
  for (unsigned at = 0; at < BYTES; ++at) CHECK(block[at] == fill);
  vPortFree(block);
}

void freertos_risc_v_application_interrupt_handler(void) {
  static uint8_t* held;
  *(volatile uint32_t*)0x2000000 = 0; /* msip */
  const size_t refused = qm_freertos_refused();
  if (held == NULL) {
    held = pvPortMalloc(BYTES);
    if (held != NULL) memset(held, 0xa5, BYTES), ++served;
    else CHECK(qm_freertos_refused() == refused + 1), ++not_served;
  } else {
    vPortFree(held);
    if (qm_freertos_refused() == refused) held = NULL, ++served;
    else ++not_served; /* tried again the next time */
  }
}

static void work(void* argument) {
  const uint8_t fill = (uint8_t)(uintptr_t)argument;
  uint8_t* slots[SLOTS] = {0};
  for (unsigned number = 0; served < SERVED || not_served < REFUSALS; ++number) {
    uint8_t** const slot = &slots[number % SLOTS];
    if (*slot != NULL) check_and_free(*slot, fill);
    *slot = pvPortMalloc(BYTES);
    memset(*slot, fill, BYTES);
  }
  for (unsigned slot = 0; slot < SLOTS; ++slot) {
    if (slots[slot] != NULL) check_and_free(slots[slot], fill);
  }
  if (fill == 1) {
    __asm volatile("csrc mie, %0" : : "r"(8));
    CHECK(qm_freertos_refused() == not_served);
    ledger_compare();
    CHECK(arenas_are_sound());
    board_print("calls above the mask level were served or refused\n");
    board_finish();
  }
  vTaskDelete(NULL);
}

int main(void) {
  ledger_open();
  CHECK(xTaskCreate(work, "one", 512, (void*)1, 1, NULL) == pdPASS);
  CHECK(xTaskCreate(work, "two", 512, (void*)2, 1, NULL) == pdPASS);
  test_masks_to_level = 1;
  __asm volatile("csrs mie, %0" : : "r"(8)); /* the software interrupt */
  vTaskStartScheduler();
  board_stop("the scheduler does not start");
}
