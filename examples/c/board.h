/* What this folder has for firmware in C beside the allocator. */
#ifndef BOARD_H
#define BOARD_H

#include "quartermaster.h"

/* board.c */
void board_set_timer(uint32_t ticks); /* the next interrupt, ticks of 10 MHz from now */
void board_print(const char* text);
void board_stop(const char* reason) __attribute__((noreturn)); /* QEMU ends with status 1 */

/* main.c */
void firmware_main(void); /* the allocator is set up, interrupts are masked */
void on_interrupt(uintptr_t cause);
void on_command(void);

#endif
