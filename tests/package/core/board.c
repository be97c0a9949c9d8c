#include "board.h"

void put(const char* text) {
  while (*text != 0) *(volatile unsigned char*)0x10000000 = (unsigned char)*text++;
}

void board_stop(const char* reason) {
  put(reason);
  put("\n");
  for (;;) *(volatile uint32_t*)0x100000 = 0x13333;
}

void board_done(void) {
  for (;;) *(volatile uint32_t*)0x100000 = 0x5555;
}

/* All that the core needs of a C library. */
void* memcpy(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = ((const char*)from)[i];
  return to;
}
void* memset(void* to, int value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = (char)value;
  return to;
}
