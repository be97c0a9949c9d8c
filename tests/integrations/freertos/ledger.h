#ifndef LEDGER_H
#define LEDGER_H
/* A slow model of the heap's figures: a table of the live blocks, filled by traceMALLOC() and traceFREE(). */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "board.h"

#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)
#define CHECK(condition) ((condition) ? (void)0 : board_stop("FAILED " __FILE__ ":" TEXT(__LINE__) ": " #condition))

#ifdef __cplusplus
extern "C" {
#endif

/* Call it before the first allocation. */
void ledger_open(void);
/* Compares all figures, with interrupts masked. */
void ledger_compare(void);
void ledger_compare_in_handler(void);
/* Like xPortResetHeapMinimumEverFreeHeapSize(). */
void ledger_reset_minimum(void);
/* The number of live blocks. */
size_t ledger_blocks(void);
/* Whether each arena's data structures are consistent. */
bool arenas_are_sound(void);

static inline uint32_t next_random(uint32_t* state) {
  *state ^= *state << 13;
  *state ^= *state >> 17;
  *state ^= *state << 5;
  return *state;
}

#ifdef __cplusplus
}
#endif
#endif
