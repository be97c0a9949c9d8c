/* QEMU's virt in M-mode: a 16550, which is also stdout, the CLINT's clock, and the test finisher. */
#include "board.h"

#include <stdio.h>

static volatile unsigned char* const uart = (volatile unsigned char*)0x10000000;

void board_put(char byte) {
  while ((uart[5] & 0x20) == 0) {
  }
  uart[0] = (unsigned char)byte;
}

int board_get(void) { return (uart[5] & 1) != 0 ? uart[0] : -1; }

static int put(char byte, FILE* file) {
  (void)file;
  board_put(byte);
  return byte;
}
static FILE line = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);
FILE* const stdout = &line;

void board_stop(const char* reason) {
  puts(reason);
  for (;;) *(volatile uint32_t*)0x100000 = 0x13333;
}

uint64_t board_ticks(void) {
  volatile uint32_t* const time = (volatile uint32_t*)0x200bff8;
  for (;;) { /* the halves belong together if the upper one has not changed */
    const uint32_t high = time[1], low = time[0];
    if (time[1] == high) return (uint64_t)high << 32 | low;
  }
}
