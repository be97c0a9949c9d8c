/* The parts of this folder's firmware besides the allocator. */
#ifndef BOARD_H
#define BOARD_H

#include "quartermaster.h"

extern char __heap_start[], __heap_end[];

void put(const char* text);
void board_stop(const char* reason); /* QEMU ends with status 1 */
void board_done(void);               /* QEMU ends with status 0 */
void* memcpy(void* to, const void* from, size_t bytes);
int memcmp(const void* left, const void* right, size_t bytes);
size_t strlen(const char* text);
void* memset(void* to, int value, size_t bytes);

#define TEXT(x) #x
#define LINE(x) TEXT(x)
#define CHECK(condition) ((condition) ? (void)0 : board_stop("FAILED line " LINE(__LINE__) ": " #condition))

#endif
