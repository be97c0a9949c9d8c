#ifndef BOARD_H
#define BOARD_H
/* QEMU's virt board: a serial line, and functions that end QEMU. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

void board_write(const char* bytes, size_t count);
size_t board_read(char* bytes, size_t most);
void board_print(const char* text);
void board_print_number(size_t number);
/* Ends QEMU with status 0. */
__attribute__((noreturn)) void board_finish(void);
/* Ends QEMU with status 1. */
__attribute__((noreturn)) void board_stop(const char* reason);

#ifdef __cplusplus
}
#endif
#endif
