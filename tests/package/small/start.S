/* RV32 or RV64 in M-mode, one hart, without SBI firmware: sets up a stack; all memory is zero at reset. */
#if __riscv_xlen == 64
#define STORE sd
#define WORD 8
#else
#define STORE sw
#define WORD 4
#endif
  .section .text.start, "ax"
  .globl _start
_start:
  csrr t0, mhartid
1:
  bnez t0, 1b
  la t0, __bss_start
  la t1, __bss_end
2:
  STORE zero, 0(t0)
  addi t0, t0, WORD
  bltu t0, t1, 2b
  la sp, __stack_end
  la tp, __tls_start
  mv s0, zero                   # the outermost frame: a walk over the stack ends here
  call board_main
