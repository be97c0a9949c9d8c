/* The fast path: pop and push as restartable sections.
 *
 * A section reads what it needs, and ends in one committing store to the cell's `top`. Whoever interrupts it at or before
 * that store resumes it at its block's start (qm_rewind), so that it reads everything anew: no interrupt is masked and no
 * atomic is used. a0 and a1 keep the arguments until the commit. The nops at a block's start place the commit at the same
 * offset in all of them; they run only after a restart.
 *
 * Instructions, call and return not counted: pop 9 (12 with QM_COUNT), push 9. tests assert it.
 *
 * In a build with call sites the object is charged behind the pop, and the charge taken back before the push: both lie outside of
 * the section, so each happens once. What the two read of the object's head and of the hart's table is in call_sites.hpp. They add
 * 8 and 15 instructions.
 */
#include "sections.hpp"

  .option norvc
  .option norelax
  .section .text.qm_sections, "ax", @progbits
  .balign QM_SECTION_BLOCK
  .globl qm_sections_start
  .globl qm_sections_end
qm_sections_start:

/* A nop. The linker is told that the sections need a trap entry that calls qm_rewind() (<qm/rewind.hpp>): the symbol, which is 0,
 * is defined there. */
.macro needs_rewind
  addi zero, zero, %lo(qm_rewind_is_called)
.endm

/* a0 = cache [, a1 = site] -> a0 = object. Everything a caller passed in a1 to a3 is kept for the slow half. */
.macro pop name, slow
  .balign QM_SECTION_BLOCK
  needs_rewind
  .globl \name
  .type \name, @function
\name:
  LOAD t0, %tprel_lo(qm_cell_offset)(tp) /* this hart's cell in any cache ... */
  add t0, t0, a0                         /* ... and in this one */
  LOAD t1, QM_CELL_TOP(t0)
  LOAD t2, -QM_WORD_BYTES(t1)            /* the youngest round; null: empty or closed */
  beqz t2, \slow
#ifdef QM_COUNT
  LOAD t3, QM_CELL_ALLOCS(t0)
  addi t1, t1, -QM_WORD_BYTES
  addi t3, t3, 1
  STORE t1, QM_CELL_TOP(t0)              /* commit */
  STORE t3, QM_CELL_ALLOCS(t0)           /* interrupted here, the trap entry does this store */
#else
  addi t1, t1, -QM_WORD_BYTES
  STORE t1, QM_CELL_TOP(t0)              /* commit */
#endif
#ifdef QM_CALL_SITES
  LOAD t5, QM_CACHE_AMOUNT(a0)
  mv a0, t2
  beqz t5, 1f                            /* numbers are not charged */
  charge a0, a1, t5
1:
#else
  mv a0, t2                              /* only now: a restart needs a0 */
#endif
  ret
  .size \name, . - \name
.endm

  pop qm_cache_allocate, .Lallocate_slow
  pop qm_cache_allocate_at, .Lallocate_at_slow

/* a0 = cache, a1 = object */
  .balign QM_SECTION_BLOCK
#ifdef QM_COUNT
  nop
  nop
#endif
#ifdef QM_CALL_SITES
#define PUSH qm_cache_push               /* entered below */
#else
#define PUSH qm_cache_free
#endif
  .globl PUSH
  .type PUSH, @function
PUSH:
  LOAD t0, %tprel_lo(qm_cell_offset)(tp)
  add t0, t0, a0
  LOAD t1, QM_CELL_TOP(t0)
  LOAD t2, QM_CELL_LIMIT(t0)
  bgeu t1, t2, .Lfree_slow               /* full; watching and closed cells have limit 0 */
  STORE a1, 0(t1)                        /* above top: invisible until the commit */
  addi t1, t1, QM_WORD_BYTES
  STORE t1, QM_CELL_TOP(t0)              /* commit */
  ret
  .size PUSH, . - PUSH
  .balign QM_SECTION_BLOCK
qm_sections_end:

#ifdef QM_CALL_SITES
/* a0 = cache, a1 = object */
  .globl qm_cache_free
  .type qm_cache_free, @function
qm_cache_free:
  LOAD t3, QM_CACHE_LOW(a0)
  LOAD t4, QM_CACHE_HIGH(a0)
  bltu a1, t3, PUSH                      /* no object: there may be no memory; a number */
  bgeu a1, t4, PUSH
  LOAD_TAG t3, QM_HEAD_TAG(a1)
  LOAD t4, %tprel_lo(qm_site_view + QM_VIEW_LIMIT)(tp)
  andi t3, t3, -8
  bgeu t3, t4, PUSH                      /* no tag */
  LOAD t4, %tprel_lo(qm_site_view + QM_VIEW_WORDS)(tp)
  LOAD t5, QM_CACHE_AMOUNT(a0)
  sw zero, QM_HEAD_TAG(a1)
  add t4, t4, t3
  neg t5, t5
  add_to_word t5, t4, -1
  j PUSH
  .size qm_cache_free, . - qm_cache_free
#endif

.Lallocate_slow:
#ifndef QM_CALL_SITES
  li a1, 0                               /* no site */
#endif
  li a2, 0                               /* the object's size */
  li a3, 0                               /* Effort::kAuto */
.Lallocate_at_slow:
  tail qm_cache_allocate_slow            /* ra and s0 are still the caller's */
.Lfree_slow:
  tail qm_cache_free_slow
