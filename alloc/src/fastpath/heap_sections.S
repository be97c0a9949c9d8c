/* The heap's fast path: finds this hart's per-hart cache of a size class, and pops and pushes there as sections.S
 * does.
 *
 *     qm_malloc   size - 1, in class steps -> its tag (a table)       \
 *     qm_free     page of the address     -> the class's tag (a byte)    > qm_heap_hart_caches + tag: pointer to the per-hart cache
 *
 * A tag is an offset into the hart's pointers. At offset 0, which no class has, and for a class that the hart has no
 * magazines of, there is a pointer to the closed per-hart cache. So a block in no slab, a class that was never used
 * and a traced class go to the slow half by the test that the pop and the push have anyway.
 *
 * The instructions that find the tag read nothing that changes meanwhile, so they lie before the section: t4 keeps
 * its value over a restart. The sections have a table of their own, in the form of inline_sections.hpp, which
 * rewind.cpp finds if it is linked.
 *
 * In a build with call sites, qm_malloc_at allocates, and blocks are charged as in sections.S: with their class's
 * amount, and with the part of it that was not requested. That adds 14 instructions to malloc and 17 to free.
 *
 * Instructions, with the return but without the call: malloc 16 (19 with QM_COUNT), free 17, free of a block in
 * another leaf than the latest 25. Tests assert it. */
#include "fastpath/sections.hpp"

  .option norvc
  .option norelax
  .section .text.qm_heap_sections, "ax", @progbits
  .balign 4

#ifdef QM_CALL_SITES
#define MALLOC qm_malloc_at              /* a0 = site, a1 = size -> a0 = block */
#define SIZE a1
#define SLOW qm_heap_allocate_slow_at
#else
#define MALLOC qm_malloc                 /* a0 = size -> a0 = block */
#define SIZE a0
#define SLOW qm_heap_allocate_slow
#endif
  .globl MALLOC
  .type MALLOC, @function
MALLOC:
  addi t5, SIZE, -1                      /* size 0 becomes the largest: for the slow half */
  srli t5, t5, QM_CLASS_STEP_LOG2
  li t4, QM_CLASS_STEPS - 1
  bltu t4, t5, .Lmalloc_slow             /* larger than the largest class */
.Ltags:
  auipc t4, %pcrel_hi(qm_heap_class_tags)
  add t4, t4, t5
  lbu t4, %pcrel_lo(.Ltags)(t4)          /* the class's tag */
.Lpop:
  add t0, t4, tp
  LOAD t0, %tprel_lo(qm_heap_hart_caches)(t0)  /* this hart's per-hart cache */
  LOAD t1, QM_HART_CACHE_TOP(t0)
  LOAD t2, -QM_WORD_BYTES(t1)            /* the newest object; null: empty or closed */
  beqz t2, .Lmalloc_slow
#ifdef QM_COUNT
  LOAD t3, QM_HART_CACHE_ALLOCS(t0)
  addi t1, t1, -QM_WORD_BYTES
  addi t3, t3, 1
.Lpop_commit:
  STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
  STORE t3, QM_HART_CACHE_ALLOCS(t0)           /* interrupted here, the trap entry does this store */
#else
  addi t1, t1, -QM_WORD_BYTES
.Lpop_commit:
  STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
#endif
.Lpop_end:
#ifdef QM_CALL_SITES
  beqz a0, .Luntagged
.Lcharge:
  auipc t5, %pcrel_hi(qm_heap_class_amounts)
  add t5, t5, t4
  LOAD t5, %pcrel_lo(.Lcharge)(t5)
  charge t2, a0, t5
#if __SIZEOF_POINTER__ == 8
  subw t5, t5, a1                        /* the lower half is the class's bytes */
#else
  sub t5, t5, a1
#endif
  sw t5, QM_HEAD_WASTE(t2)
  add_to_waste t5, t4
#endif
  mv a0, t2                              /* only now: the slow half needs the arguments */
  ret
#ifdef QM_CALL_SITES
.Luntagged:
  auipc a0, %pcrel_hi(qm_untagged_site)
  addi a0, a0, %pcrel_lo(.Luntagged)
  j .Lcharge
#endif
  .size MALLOC, . - MALLOC

/* a0 = block */
  .globl qm_free
  .type qm_free, @function
qm_free:
  LOAD t5, %tprel_lo(qm_heap_leaf)(tp)   /* the page-map leaf of this hart's latest free */
  LOAD t4, QM_LEAF_NUMBER(t5)
  srli t3, a0, QM_LEAF_LOG2
  bne t3, t4, .Lfree_other               /* not in it; null is in none */
.Lleaf:
  LOAD t5, QM_LEAF_TAGS(t5)
  srli t4, a0, QM_PAGE_LOG2
  add t5, t5, t4
  lbu t4, 0(t5)                          /* the page's tag */
#ifdef QM_CALL_SITES
  beqz t4, .Lfree_slow                   /* in no slab */
  LOAD_TAG t3, QM_HEAD_TAG(a0)
  LOAD t5, %tprel_lo(qm_site_view + QM_VIEW_LIMIT)(tp)
  andi t3, t3, -8
  bgeu t3, t5, .Lpush                    /* charged to no site */
  LOAD t5, %tprel_lo(qm_site_view + QM_VIEW_WORDS)(tp)
  sw zero, QM_HEAD_TAG(a0)
  add t3, t3, t5
.Ldischarge:
  auipc t5, %pcrel_hi(qm_heap_class_amounts)
  add t5, t5, t4
  LOAD t5, %pcrel_lo(.Ldischarge)(t5)
  neg t5, t5
  add_to_word t5, t3, -1
  lw t5, QM_HEAD_WASTE(a0)
  neg t5, t5
  add_to_waste t5, t3
#endif
.Lpush:
  add t0, t4, tp
  LOAD t0, %tprel_lo(qm_heap_hart_caches)(t0)
  LOAD t1, QM_HART_CACHE_TOP(t0)
  LOAD t2, QM_HART_CACHE_LIMIT(t0)
  bgeu t1, t2, .Lfree_slow               /* full; limit is 0 if watching or closed */
  STORE a0, 0(t1)                        /* above top: invisible until the commit */
  addi t1, t1, QM_WORD_BYTES
.Lpush_commit:
  STORE t1, QM_HART_CACHE_TOP(t0)              /* commit */
.Lpush_end:
  ret
  .size qm_free, . - qm_free

.Lfree_other:                            /* t3 = the number of the leaf: is it the first in its list? */
  auipc t5, %pcrel_hi(qm_page_map)
  andi t4, t3, QM_PAGE_MAP_HEAD_COUNT - 1
  slli t4, t4, QM_WORD_BYTES_LOG2
  add t5, t5, t4
  LOAD t5, %pcrel_lo(.Lfree_other)(t5)
  LOAD t4, QM_LEAF_NUMBER(t5)
  STORE t5, %tprel_lo(qm_heap_leaf)(tp)  /* any leaf will do */
  beq t3, t4, .Lleaf
  j .Lfree_slow

.Lmalloc_slow:
  tail SLOW                              /* ra and s0 are still the caller's */
.Lfree_slow:
  tail qm_heap_free_slow

  .section .rodata.qm_heap_sections, "a", @progbits
  .balign 4
  .globl qm_heap_sections
  .type qm_heap_sections, @object
qm_heap_sections:
  .4byte .Lpop - .
  .2byte .Lpop_commit - .Lpop
  .2byte .Lpop_end - .Lpop
  .4byte .Lpush - .
  .2byte .Lpush_commit - .Lpush
  .2byte .Lpush_end - .Lpush
  .size qm_heap_sections, . - qm_heap_sections
