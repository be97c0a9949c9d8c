#pragma once
/// Layout of the restartable sections, shared by sections.S, rewind.cpp and the structures they read. Plain #defines: the
/// assembler reads this file too.

#define QM_SECTION_BLOCK 64 /* each section lies in one aligned block, and restarts at the block's start */

#if __SIZEOF_POINTER__ == 8
#define QM_CELL_TOP 0
#define QM_CELL_LIMIT 8
#define QM_CELL_ALLOCS 40
#define QM_WORD_BYTES 8
#define QM_WORD_BYTES_LOG2 3
#else
#define QM_CELL_TOP 0
#define QM_CELL_LIMIT 4
#define QM_CELL_ALLOCS 20
#define QM_WORD_BYTES 4
#define QM_WORD_BYTES_LOG2 2
#endif

/* The heap's: the page map, a leaf of it, and the sizes of the size classes. */
#define QM_PAGE_MAP_HEADS QM_WORD_BYTES
#define QM_PAGE_MAP_HEAD_COUNT 32
#define QM_LEAF_NUMBER 0
#define QM_LEAF_TAGS QM_WORD_BYTES
#define QM_LEAF_LOG2 24
#define QM_PAGE_LOG2 12
#define QM_CLASS_STEP_LOG2 4
#define QM_CLASS_STEPS 68 /* the largest class has so many steps */
#define QM_CLASSES 29 /* those of no size counted */

/* Offset of the committing store in every block: at or before it, an interrupted section starts again. */
#ifdef QM_COUNT
#define QM_SECTION_COMMIT 36
#else
#define QM_SECTION_COMMIT 28
#endif

#if defined(__ASSEMBLER__)
#ifdef QM_CALL_SITES
#define QM_CACHE_PUSH qm_cache_free_plain /* cache.hpp says why */
#else
#define QM_CACHE_PUSH qm_cache_free
#endif
#if __SIZEOF_POINTER__ == 8
#define LOAD ld
#define STORE sd
#else
#define LOAD lw
#define STORE sw
#endif
#endif
