# The entries of harts, traps and threads.

# Offsets of a context's fields (port/include/qm/hal/selected_port.hpp); static_asserts in kernel.cpp check them.
#define AT_X(n) (8 * (n))
#define AT_PC 256
#define AT_STATUS 264
#define AT_STACK_HIGH 280

  .section .text.start, "ax"
  .globl _start
_start:
  la    t0, early_trap
  csrw  mtvec, t0
  csrr  a0, mhartid
  li    t0, HARTS
  bgeu  a0, t0, early_trap      # a hart that the image has no room for
  .option push
  .option norelax
  la    gp, __global_pointer$
  .option pop
  la    sp, __boot_stacks       # the hart's boot stack, later its idle thread's
  addi  t0, a0, 1
  li    t1, BOOT_STACK_BYTES
  mul   t0, t0, t1
  add   sp, sp, t0
  la    tp, __tls_blocks        # its hart-locals: a copy of .tdata; .tbss is zero already
  la    t0, __tls_stride
  mul   t0, t0, a0
  add   tp, tp, t0
  mv    t0, tp
  la    t1, __tdata_start
  la    t2, __tdata_end
1:
  bgeu  t1, t2, 2f
  ld    t3, 0(t1)
  sd    t3, 0(t0)
  addi  t1, t1, 8
  addi  t0, t0, 8
  j     1b
2:
  li    s0, 0
  li    ra, 0
  j     hart_start
  .balign 4
early_trap:
  wfi
  j     early_trap

# A return address in this text ends a recorded stack.
  .section .text.trap, "ax"
  .globl __trap_text_start, __trap_text_end, trap_entry, thread_start
__trap_text_start:
  .balign 4
trap_entry:
  csrrw a0, mscratch, a0        # a0 = the interrupted context
  .irp n, 1,2,3,4,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  sd    x\n, AT_X(\n)(a0)
  .endr
  csrr  t0, mscratch
  sd    t0, AT_X(10)(a0)
  csrr  t0, mepc
  sd    t0, AT_PC(a0)
  csrr  t0, mstatus
  sd    t0, AT_STATUS(a0)
  csrr  a1, mcause
  lui   t0, %tprel_hi(trap_context)
  add   t0, t0, tp, %tprel_add(trap_context)
  addi  t0, t0, %tprel_lo(trap_context)
  csrw  mscratch, t0            # the running context is now this hart's trap handler, on its own stack
  ld    sp, AT_STACK_HIGH(t0)
  li    s0, 0
  call  kernel_trap             # a0 = the context that runs next
  csrw  mscratch, a0
  ld    t0, AT_PC(a0)
  csrw  mepc, t0
  ld    t0, AT_STATUS(a0)
  csrw  mstatus, t0
  # Do not restore gp, which is the same everywhere, or tp, which is the hart's: the thread may come from another hart.
  .irp n, 1,2,5,6,7,8,9,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  ld    x\n, AT_X(\n)(a0)
  .endr
  ld    a0, AT_X(10)(a0)
  mret

# A thread's first instruction: s1 = entry, a0 = argument.
thread_start:
  jalr  s1
  call  thread_end
__trap_text_end:
