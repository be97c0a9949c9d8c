# One hart in M-mode, RV32 or RV64: its start, and the entry of its traps.
#if __riscv_xlen == 64
#define STORE sd
#define LOAD ld
#define WORD 8
#else
#define STORE sw
#define LOAD lw
#define WORD 4
#endif
  .macro for_saved action       # the registers that a C function may change
  .irp n, 1,5,6,7,10,11,12,13,14,15,16,17,28,29,30,31
  \action x\n, WORD * \n(sp)
  .endr
  .endm

  .section .text.start, "ax"
  .globl _start
_start:
  csrr  t0, mhartid
1:
  bnez  t0, 1b
  la    t0, __bss_start
  la    t1, __bss_end
2:
  STORE zero, 0(t0)
  addi  t0, t0, WORD
  bltu  t0, t1, 2b
  la    t0, trap
  csrw  mtvec, t0
  la    sp, __stack_end
  la    tp, __tls_start
  li    s0, 0                   # the outermost frame: a stack walk ends here
  li    ra, 0
  j     board_main

  .text
  .balign 4
trap:
  addi  sp, sp, -32 * WORD
  for_saved STORE
  csrr  a0, mcause
  call  board_trap
  for_saved LOAD
  addi  sp, sp, 32 * WORD
  mret
