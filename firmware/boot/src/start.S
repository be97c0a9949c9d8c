# Entry of every hart: stack, hart-local block, then C++.
#
# Boot hart:   a0 = hart id, a1 = device tree; becomes hart index 0, whichever hart id it has.
# Other harts: a0 = hart id, a1 = hart index (the opaque value given to SBI hart_start).
#include "layout.h"

  .section .text..start, "ax", @progbits
  .globl _start
_start:
  csrw  sie, zero             # no interrupt source enabled
  csrci sstatus, 2            # and none taken
  mv    s1, a0                # hart id
  mv    s2, a1                # device tree
  lla   t0, __bss_start       # clear .bss, 8 bytes at a time
  lla   t1, __bss_end
1:
  bgeu  t0, t1, 2f
  sd    zero, 0(t0)
  addi  t0, t0, 8
  j     1b
2:
  li    a1, 0                 # hart index 0
  jal   t2, prepare_hart
  mv    a0, s1
  mv    a1, s2
  li    ra, 0                 # no caller: frame walks end here
  lla   t0, qm_boot
  jr    t0

  .globl qm_hart_start
qm_hart_start:
  csrw  sie, zero
  csrci sstatus, 2
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
  csrc  sstatus, t0           # FS = off: a floating point instruction traps
  li    t0, QM_HART_STACKS_BYTES
  mul   t0, t0, a1
  lla   t1, __hart_stacks
  add   t1, t1, t0
  li    t0, QM_BOOT_STACK_BYTES
  add   sp, t1, t0            # the boot stack comes first, the trap stack behind it
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
  lla   t1, __tdata_start     # its initialised part is copied,
  lla   t3, __tdata_end
3:
  bgeu  t1, t3, 4f
  ld    t4, 0(t1)
  sd    t4, 0(t0)
  addi  t1, t1, 8
  addi  t0, t0, 8
  j     3b
4:
  .option push
  .option norelax
  lui   t5, %hi(__tls_stride)
  addi  t5, t5, %lo(__tls_stride)
  .option pop
  add   t5, tp, t5
5:
  bgeu  t0, t5, 6f            # the rest is zero
  sd    zero, 0(t0)
  addi  t0, t0, 8
  j     5b
6:
  jr    t2
