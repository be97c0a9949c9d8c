/* The fast path: pop and push as restartable sections.
 *
 * A section reads what it needs, and ends in one store to `top` of the per-hart cache, which commits it. An
 * interrupt at or before that store resumes the section at its block's start (qm_rewind), so that it reads
 * everything again: a section masks no interrupt and has no atomic instruction. a0 and a1 keep the arguments until the
 * commit. The nops at a block's start place the commit at the same offset in all blocks; they run only after a
 * restart.
 *
 * Instructions, with the return but without the call: pop 9 (12 with QM_COUNT), push 9. Tests assert it.
 *
 * In a build with call sites, the object is charged behind the pop, and discharged before the push: both lie outside
 * the section, so each happens once. call_sites.hpp has what they read of the object's head and of the hart's table.
 * They add 8 and 15 instructions. One of each, on RV32 two, is an `amoadd` on words of the hart, so that no interrupt
 * comes between its load and its store. */
#include "fastpath/sections.hpp"

  .option norvc
  .option norelax
  .section .text.qm_sections, "ax", @progbits
  .balign QM_SECTION_BLOCK
  .globl qm_sections_start
  .globl qm_sections_end
qm_sections_start:

/* A nop. It tells the linker that the sections need a trap entry that calls qm_rewind() (<qm/rewind.hpp>): the
 * symbol, which is 0, is defined there. */
.macro needs_rewind
  addi zero, zero, %lo(qm_rewind_is_called)
.endm

/* a0 = cache [, a1 = site] -> a0 = object. The caller's a1 to a3 are kept for the slow half. */
.macro pop name, slow
  .balign QM_SECTION_BLOCK
  needs_rewind
  .globl \name
  .type \name, @function
\name:
  LOAD t0, %tprel_lo(qm_hart_cache_offset)(tp) /* offset of the per-hart cache in any cache ... */
  add t0, t0, a0                         /* ... its address in this one */
  LOAD t1, QM_HART_CACHE_TOP(t0)
  LOAD t2, -QM_WORD_BYTES(t1)            /* the newest object; null: empty or closed */
  beqz t2, \slow
#ifdef QM_COUNT
  LOAD t3, QM_HART_CACHE_ALLOCS(t0)
  addi t1, t1, -QM_WORD_BYTES
  addi t3, t3, 1
  STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
  STORE t3, QM_HART_CACHE_ALLOCS(t0)           /* interrupted here, the trap entry does this store */
#else
  addi t1, t1, -QM_WORD_BYTES
  STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
#endif
#ifdef QM_CALL_SITES
  LOAD t5, QM_CACHE_AMOUNT(a0)
  mv a0, t2
  beqz t5, 1f                            /* amount 0: not charged */
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
#define PUSH qm_cache_push               /* jumped to from below */
#else
#define PUSH qm_cache_free
#endif
  .globl PUSH
  .type PUSH, @function
PUSH:
  LOAD t0, %tprel_lo(qm_hart_cache_offset)(tp)
  add t0, t0, a0
  LOAD t1, QM_HART_CACHE_TOP(t0)
  LOAD t2, QM_HART_CACHE_LIMIT(t0)
  bgeu t1, t2, .Lfree_slow               /* full; limit is 0 if watching or closed */
  STORE a1, 0(t1)                        /* above top: invisible until the commit */
  addi t1, t1, QM_WORD_BYTES
  STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
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
  bltu a1, t3, PUSH                      /* outside the slabs: maybe not memory, or a number */
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
  li a3, 0                               /* WaitPolicy::kAuto */
.Lallocate_at_slow:
  tail qm_cache_allocate_slow            /* ra and s0 are still the caller's */
.Lfree_slow:
  tail qm_cache_free_slow
