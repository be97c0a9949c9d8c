#include "board.h"

#include <FreeRTOS.h>
#include <task.h>

static volatile uint8_t* const uart = (volatile uint8_t*)0x10000000;

void board_write(const char* bytes, size_t count) {
  for (; count != 0; --count) {
    while ((uart[5] & 0x20) == 0) continue;
    uart[0] = (uint8_t)*bytes++;
  }
}

size_t board_read(char* bytes, size_t most) {
  size_t count = 0;
  while (count < most && (uart[5] & 1) != 0) bytes[count++] = (char)uart[0];
  return count;
}

void board_print(const char* text) {
  for (; *text != 0; ++text) board_write(text, 1);
}

void board_print_number(size_t number) {
  char digits[20];
  size_t at = sizeof digits;
  do digits[--at] = (char)('0' + number % 10);
  while ((number /= 10) != 0);
  board_write(digits + at, sizeof digits - at);
}

static void end_with(uint32_t word) {
  for (;;) *(volatile uint32_t*)0x100000 = word;
}

void board_finish(void) {
  end_with(0x5555);
  __builtin_unreachable();
}

void board_stop(const char* reason) {
  portDISABLE_INTERRUPTS();
  board_print(reason);
  board_print("\n");
  end_with(0x13333);
  __builtin_unreachable();
}

/* Functions that the kernel and the allocator call. */

void vApplicationStackOverflowHook(TaskHandle_t task, char* name) {
  (void)task;
  board_print(name);
  board_stop(": stack overflow");
}

void qm_freertos_fatal(const char* reason) { board_stop(reason); }

void freertos_risc_v_application_exception_handler(void) {
  uintptr_t cause, at;
  __asm volatile("csrr %0, mcause\n csrr %1, mepc" : "=r"(cause), "=r"(at));
  board_print("exception ");
  board_print_number(cause);
  board_print(" at ");
  board_print_number(at);
  board_stop("");
}
