/* RV32 or RV64 in M-mode, one hart, without SBI firmware. RAM is zero at reset, as in an emulator. */
  .section .text.start, "ax"
  .globl _start
_start:
  csrr t0, mhartid
1:
  bnez t0, 1b
  .option push
  .option norelax
  la gp, __global_pointer$
  .option pop
  la sp, __freertos_irq_stack_top
  la tp, __tls_start            /* the allocator's hart-locals; the kernel leaves tp alone */
  la t0, freertos_risc_v_trap_handler
  csrw mtvec, t0
  mv s0, zero                   /* the outermost frame: a stack walk ends here */
  mv ra, zero
  j main
