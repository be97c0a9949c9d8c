/* If tp is not set, the firmware ends with a message. */
#include <FreeRTOS.h>

#include "ledger.h"

void vApplicationMallocFailedHook(void) {}

int main(void) {
  __asm volatile("mv tp, zero");
  CHECK(pvPortMalloc(8) == NULL);
  board_finish();
}
