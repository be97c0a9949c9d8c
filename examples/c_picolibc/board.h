/* The board functions of this firmware. */
#ifndef BOARD_H
#define BOARD_H

#include "quartermaster.h"

/* board.c */
void board_put(char byte);
int board_get(void); /* -1: nothing was received */
uint64_t board_ticks(void);
void board_stop(const char* reason) __attribute__((noreturn)); /* QEMU ends with status 1 */

/* allocator.cpp */
void run_console(void) __attribute__((noreturn));

/* main.c */
void on_command(void);

#endif
