/* The board functions of the firmware in this folder. */
#ifndef BOARD_H
#define BOARD_H

#include <qm/qm.h>
#include <qm/trace/trace.h>

extern char __heap_start[], __heap_end[];

void put(const char* text);
void board_stop(const char* reason); /* QEMU ends with status 1 */
void board_end(unsigned status);

#define TEXT(x) #x
#define LINE(x) TEXT(x)
#define CHECK(condition) ((condition) ? (void)0 : board_stop("FAILED line " LINE(__LINE__) ": " #condition))

#endif
