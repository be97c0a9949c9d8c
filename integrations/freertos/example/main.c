#include <FreeRTOS.h>
#include <qm_freertos.h>
#include <task.h>

#include "board.h"
#include "radio.h"

void vApplicationMallocFailedHook(void) { board_print("no memory\n"); }

int main(void) {
  static const qm_freertos_console console = {.write = board_write, .read = board_read, .priority = 1};
  if (qm_freertos_start_console(&console) != QM_OK) board_stop("no console");
  radio_start();
  vTaskStartScheduler();
  board_stop("the scheduler does not start");
}
