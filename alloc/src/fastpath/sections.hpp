#pragma once
/// Layout of the restartable sections, shared by sections.S, rewind.cpp and the structures they read. Plain #defines:
/// the assembler reads this file too.

#include <qm/config.h>

/* Each section lies in one aligned block, and restarts at the block's start. With call sites, the charge follows the
 * pop there. */
#ifdef QM_CALL_SITES
#define QM_SECTION_BLOCK 128
#else
#define QM_SECTION_BLOCK 64
#endif

#if __SIZEOF_POINTER__ == 8
#define QM_HART_CACHE_TOP 0
#define QM_HART_CACHE_LIMIT 8
#define QM_HART_CACHE_ALLOCS 40
#define QM_WORD_BYTES 8
#define QM_WORD_BYTES_LOG2 3
#else
#define QM_HART_CACHE_TOP 0
#define QM_HART_CACHE_LIMIT 4
#define QM_HART_CACHE_ALLOCS 20
#define QM_WORD_BYTES 4
#define QM_WORD_BYTES_LOG2 2
#endif

/* For the heap: the page map, a page-map leaf, and the sizes of the size classes. */
#define QM_PAGE_MAP_HEAD_COUNT 32
#define QM_LEAF_NUMBER 0
#define QM_LEAF_TAGS QM_WORD_BYTES
#define QM_LEAF_LOG2 (2 * QM_PAGE_LOG2)
#if QM_ALIGNMENT == 16
#define QM_CLASS_STEP_LOG2 4
#else
#define QM_CLASS_STEP_LOG2 3
#endif
#define QM_CLASS_STEPS (1088 >> QM_CLASS_STEP_LOG2) /* to the largest class that the section knows */
#define QM_CLASSES 32                               /* counting number 0, of sizes without a class */

/* Offset of the committing store in every block: a section that is interrupted at or before it starts again. */
#ifdef QM_COUNT
#define QM_SECTION_COMMIT 36
#else
#define QM_SECTION_COMMIT 28
#endif

/* For a build with call sites: a cache's amount, the range of its slabs, the head before an object, a hart's view. */
#if __SIZEOF_POINTER__ == 8
#define QM_CACHE_AMOUNT 56
#define QM_CACHE_LOW 136
#define QM_CACHE_HIGH 144
#else
#define QM_CACHE_AMOUNT 40
#define QM_CACHE_LOW 88
#define QM_CACHE_HIGH 92
#endif
#define QM_HEAD_WASTE (-8)
#define QM_HEAD_TAG (-4)
#define QM_VIEW_WORDS QM_WORD_BYTES
#define QM_VIEW_LIMIT (2 * QM_WORD_BYTES)
#define QM_WASTE_BEHIND_WORD 16

#if defined(__ASSEMBLER__)
#if __SIZEOF_POINTER__ == 8
#define LOAD ld
#define LOAD_TAG lwu
#define STORE sd
#else
#define LOAD lw
#define LOAD_TAG lw
#define STORE sw
#endif

/* Adds \amount to the word at \word, and \calls, 1 or -1 like the sign of \amount, to its calls. Keeps both; RV32:
 * t6 is lost. */
.macro add_to_word amount, word, calls
#if __SIZEOF_POINTER__ == 8
  amoadd.d zero, \amount, (\word)
#else
  li t6, \calls
  amoadd.w zero, t6, (\word)
  addi t6, \word, 4
  amoadd.w zero, \amount, (t6)
#endif
.endm

/* Charges \object to \site: tags the object, and adds \amount to the site's word, whose address is in t4 then. t3 is
 * lost. */
.macro charge object, site, amount
  LOAD t3, %tprel_lo(qm_site_view)(tp)
  LOAD t4, %tprel_lo(qm_site_view + QM_VIEW_WORDS)(tp)
  sub t3, \site, t3
  sw t3, QM_HEAD_TAG(\object)
  add t4, t4, t3
  add_to_word \amount, t4, 1
.endm

.macro add_to_waste amount, word /* \word is lost */
  addi \word, \word, QM_WASTE_BEHIND_WORD
#if __SIZEOF_POINTER__ == 8
  amoadd.d zero, \amount, (\word)
#else
  amoadd.w zero, \amount, (\word)
#endif
.endm
#endif
