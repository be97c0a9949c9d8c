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

/* All functions of a C library that the allocator needs. */
void* memcpy(void* to, const void* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = ((const char*)from)[i];
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
void* memset(void* to, int value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) ((volatile char*)to)[i] = (char)value;
  return to;
}
