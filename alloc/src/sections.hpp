#pragma once
/// Layout of the restartable sections, shared by sections.S, rewind.cpp and the structures they read. Plain #defines: the
/// assembler reads this file too.

#define QM_SECTION_BLOCK 64 /* each section lies in one aligned block, and restarts at the block's start */

#if __riscv_xlen == 64
#define QM_CELL_TOP 0
#define QM_CELL_LIMIT 8
#define QM_CELL_ALLOCS 40
#define QM_WORD_BYTES 8
#else
#define QM_CELL_TOP 0
#define QM_CELL_LIMIT 4
#define QM_CELL_ALLOCS 20
#define QM_WORD_BYTES 4
#endif

/* Offset of the committing store in every block: at or before it, an interrupted section starts again. */
#ifdef QM_COUNT
#define QM_SECTION_COMMIT 36
#else
#define QM_SECTION_COMMIT 28
#endif
