# Entry of every hart: it sets up the stack and the hart-local block, then calls C++. In M-mode all harts start here at
# reset, and all but the first wait for an IPI. In S-mode the SBI starts them.
#
# a0 = hart id, a1 = device tree. The first hart that arrives is the boot hart, hart index 0, whatever its hart id. It
# starts the others at this same address. They find their index by hart id and ignore a1. The reason is that OpenSBI
# announces a start before it stores the new address and argument: a hart that reads them in between arrives at the
# image's entry with the old or the new argument. (Source: the order in OpenSBI's code; in 160 boots with OpenSBI 1.1,
# two harts arrived at the entry once.)
#include <qm/hal/privilege.h>

#include "layout.h"

  .globl qm_max_harts           # the linker script checks that it leaves room for so many harts
  .set qm_max_harts, QM_MAX_HARTS

  .section .data.qm_start, "aw", @progbits
  .balign 8
  .globl qm_start_ids, qm_start_ids_ready
qm_start_ids:                 # hart id of each hart index; -1: none. Written by the boot hart before qm_start_ids_ready.
  .rept QM_MAX_HARTS * QM_WORD_BYTES / 4
  .4byte -1
  .endr
qm_start_ids_ready:
  .4byte 0
claimed:                      # not in .bss, which the boot hart clears
  .4byte 0

  .section .text..start, "ax", @progbits
  .globl _start
_start:
  csrw  QM_XIE, zero          # no interrupt source enabled
  csrci QM_XSTATUS, QM_XSTATUS_IE # and none taken
  lla   t0, park              # until there is a trap handler, a trap parks the hart
  csrw  QM_XTVEC, t0
  lla   t0, claimed
  li    t1, 1
  amoswap.w.aq t1, t1, (t0)
  bnez  t1, other_hart
  mv    s1, a0                # hart id
  mv    s2, a1                # device tree
  lla   t0, __bss_start       # clear .bss, a word at a time
  lla   t1, __bss_end
1:
  bgeu  t0, t1, 2f
  STORE zero, 0(t0)
  addi  t0, t0, QM_WORD_BYTES
  j     1b
2:
  li    a1, 0                 # hart index 0
  jal   t2, prepare_hart
  mv    a0, s1
  mv    a1, s2
  li    ra, 0                 # no caller: frame walks end here
  lla   t0, qm_boot
  jr    t0

other_hart:
  li    t1, 1 << QM_SOFTWARE_INTERRUPT
  csrw  QM_XIE, t1            # an IPI ends the wait below; it is served when the hart is set up
  lla   t0, qm_start_ids_ready
  j     2f
1:
  wfi
2:
  lw    t1, 0(t0)
  beqz  t1, 1b
  fence r, rw                 # pairs with the boot hart's release of the flag
  lla   t0, qm_start_ids
  li    a1, 0
  li    t2, QM_MAX_HARTS
1:
  LOAD t1, 0(t0)
  beq   t1, a0, 3f
  addi  t0, t0, QM_WORD_BYTES
  addi  a1, a1, 1
  bne   a1, t2, 1b
  .balign 4
park:                         # for a hart without an index, and for a trap before there is a handler
  wfi
  j     park
3:
  mv    s1, a1                # hart index
  jal   t2, prepare_hart
  mv    a0, s1
  li    ra, 0
  lla   t0, qm_hart_boot
  jr    t0

# Sets gp, sp, tp and s0 for hart index a1 and turns floating point off; returns through t2. Uses t0, t1, t3, t4, t5.
prepare_hart:
  .option push
  .option norelax
  lla   gp, __global_pointer$
  .option pop
  li    t0, 3 << 13
  csrc  QM_XSTATUS, t0        # FS = off: a floating point instruction traps
  li    t0, QM_HART_STACKS_BYTES
  mul   t0, t0, a1
  lla   t1, __hart_stacks
  add   t1, t1, t0
  li    t0, QM_BOOT_STACK_BYTES
  add   sp, t1, t0            # the boot stack is below the trap stack
  li    s0, 0                 # the outermost frame
  .option push
  .option norelax
  lui   t0, %hi(__tls_stride) # an absolute symbol: below 2 GiB
  addi  t0, t0, %lo(__tls_stride)
  .option pop
  mul   t0, t0, a1
  lla   tp, __tls_blocks
  add   tp, tp, t0            # this hart's block: tp-relative offsets start at it
  mv    t0, tp
  lla   t1, __tdata_start     # copy the initialised part of the block
  lla   t3, __tdata_end
3:
  bgeu  t1, t3, 4f
  LOAD t4, 0(t1)
  STORE t4, 0(t0)
  addi  t1, t1, QM_WORD_BYTES
  addi  t0, t0, QM_WORD_BYTES
  j     3b
4:
  .option push
  .option norelax
  lui   t5, %hi(__tls_stride)
  addi  t5, t5, %lo(__tls_stride)
  .option pop
  add   t5, tp, t5
5:
  bgeu  t0, t5, 6f            # clear the rest
  STORE zero, 0(t0)
  addi  t0, t0, QM_WORD_BYTES
  j     5b
6:
  jr    t2
