/* RV32 or RV64 in M-mode, one hart, nothing below. RAM is zero, as an emulator's is at reset. */
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
  mv s0, zero                   /* the outermost frame: a walk over the stack ends here */
  mv ra, zero
  j main
