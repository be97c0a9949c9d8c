# Entry of the only hart at reset: copies initialised data from flash, and clears the rest.
  .section .text.start, "ax"
  .globl _start
_start:
  la    t0, __data_load
  la    t1, __data_start
  la    t2, __data_end
1:
  lw    t3, 0(t0)
  sw    t3, 0(t1)
  addi  t0, t0, 4
  addi  t1, t1, 4
  bltu  t1, t2, 1b
  la    t2, __bss_end
2:
  sw    zero, 0(t1)
  addi  t1, t1, 4
  bltu  t1, t2, 2b
  la    sp, __stack_end
  la    tp, __tls_start
  li    s0, 0                   # the outermost frame: a stack walk ends here
  li    ra, 0
  j     board_main
