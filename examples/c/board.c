/* QEMU's virt in M-mode: a 16550, the CLINT's timer, the test finisher; and the functions that a compiler calls. */
#include "board.h"

static volatile unsigned char* const uart = (volatile unsigned char*)0x10000000;

void board_put(char byte) {
  while ((uart[5] & 0x20) == 0) {
  }
  uart[0] = (unsigned char)byte;
}

int board_get(void) { return (uart[5] & 1) != 0 ? uart[0] : -1; }

void board_print(const char* text) {
  while (*text != 0) board_put(*text++);
}

void board_stop(const char* reason) {
  board_print(reason);
  board_put('\n');
  for (;;) *(volatile uint32_t*)0x100000 = 0x13333;
}

uint64_t board_ticks(void) {
  volatile uint32_t* const time = (volatile uint32_t*)0x200bff8;
  for (;;) { /* the halves belong together if the upper one has not changed */
    const uint32_t high = time[1], low = time[0];
    if (time[1] == high) return (uint64_t)high << 32 | low;
  }
}

void board_set_timer(uint32_t ticks) {
  volatile uint32_t* const compare = (volatile uint32_t*)0x2004000;
  const uint64_t due = board_ticks() + ticks;
  compare[1] = 0xffffffff; /* so that no intermediate deadline is earlier than the old and the new one */
  compare[0] = (uint32_t)due;
  compare[1] = (uint32_t)(due >> 32);
  __asm__ volatile("csrs mie, %0" : : "r"(1 << 7));
}

/* Called by start.S for each trap. */
void board_trap(uintptr_t cause) {
  if ((intptr_t)cause >= 0) board_stop("an exception");
  qm_trap_enter();
  on_interrupt(cause);
  qm_trap_leave();
}

void* memcpy(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = ((const char*)from)[i];
  return to;
}
void* memmove(void* to, const void* from, size_t bytes) {
  if (to <= from) return memcpy(to, from, bytes);
  while (bytes-- > 0) ((volatile char*)to)[bytes] = ((const char*)from)[bytes];
  return to;
}
void* memset(void* to, int value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = (char)value;
  return to;
}
int memcmp(const void* left, const void* right, size_t bytes) {
  const unsigned char *one = left, *other = right;
  for (; bytes != 0; --bytes, ++one, ++other) {
    if (*one != *other) return *one < *other ? -1 : 1;
  }
  return 0;
}
size_t strlen(const char* text) {
  const char* end = text;
  while (*(const volatile char*)end != 0) ++end;
  return (size_t)(end - text);
}
