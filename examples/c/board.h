/* The board functions of this firmware in C. */
#ifndef BOARD_H
#define BOARD_H

#include "quartermaster.h"

/* board.c */
void board_set_timer(uint32_t ticks); /* the next interrupt, in ticks of a 10 MHz clock from now */
void board_print(const char* text);
void board_stop(const char* reason) __attribute__((noreturn)); /* QEMU ends with status 1 */

/* main.c */
void firmware_main(void); /* called with the allocator set up and interrupts masked */
void on_interrupt(uintptr_t cause);
void on_command(void);

#endif
