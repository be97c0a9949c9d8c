/* The C library's names for the heap, for programs that link quartermaster::malloc: malloc() and its like, and
 * newlib's reentrant forms. Each is a jump, so a recorded stack begins at its caller. None sets errno.
 *
 * All are in one object file, so that a program that takes one of them from here takes none from a C library linked
 * later. */
#include "fastpath/sections.hpp"

/* name(arguments) is function(arguments). */
  .macro same name, function
  .section .text.\name, "ax", @progbits
  .globl \name
  .type \name, @function
\name:
  tail \function
  .size \name, . - \name
  .endm

/* name(reent, ...) is function(...), with @count arguments. */
  .macro reentrant name, function, count
  .section .text.\name, "ax", @progbits
  .globl \name
  .type \name, @function
\name:
  mv a0, a1
  .if \count > 1
  mv a1, a2
  .endif
  tail \function
  .size \name, . - \name
  .endm

  same malloc, qm_malloc
  same free, qm_free
  same cfree, qm_free
  same calloc, qm_calloc
  same realloc, qm_realloc
  same aligned_alloc, qm_aligned_alloc
  same memalign, qm_aligned_alloc
  same malloc_usable_size, qm_usable_size

  reentrant _malloc_r, qm_malloc, 1
  reentrant _free_r, qm_free, 1
  reentrant _calloc_r, qm_calloc, 2
  reentrant _realloc_r, qm_realloc, 2
  reentrant _memalign_r, qm_aligned_alloc, 2
  reentrant _malloc_usable_size_r, qm_usable_size, 1

/* a0 = where the block's address goes, a1 = alignment, a2 = size -> a0 = 0, EINVAL or ENOMEM */
  .section .text.posix_memalign, "ax", @progbits
  .globl posix_memalign
  .type posix_memalign, @function
posix_memalign:
  addi t0, a1, -1
  and t0, t0, a1
  sltiu t1, a1, QM_WORD_BYTES
  or t0, t0, t1                /* not a power of two, or less than a word */
  bnez t0, 1f
  addi sp, sp, -4 * QM_WORD_BYTES
  STORE ra, 3 * QM_WORD_BYTES(sp)
  STORE s0, 2 * QM_WORD_BYTES(sp)
  STORE a0, 1 * QM_WORD_BYTES(sp)
  addi s0, sp, 4 * QM_WORD_BYTES        /* a frame, for the stack walk */
  mv a0, a1
  mv a1, a2
  call qm_aligned_alloc
  LOAD t0, 1 * QM_WORD_BYTES(sp)
  LOAD ra, 3 * QM_WORD_BYTES(sp)
  LOAD s0, 2 * QM_WORD_BYTES(sp)
  addi sp, sp, 4 * QM_WORD_BYTES
  beqz a0, 2f
  STORE a0, 0(t0)
  li a0, 0
  ret
1:
  li a0, 22
  ret
2:
  li a0, 12
  ret
  .size posix_memalign, . - posix_memalign
