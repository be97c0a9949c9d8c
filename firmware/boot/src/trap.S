# Trap entry and exit, task start and context switch.
#
# Return addresses inside [__trap_text_start, __trap_text_end) end an allocation's frame walk: what lies further out belongs
# to the interrupted code (__trap_return) or is no caller (__task_return).
#
# sscratch: the top of this hart's trap stack while no trap is handled, 0 while one is. A trap from outside switches to the
# trap stack; a nested one goes on where it is. Frame layout: TrapFrame in hart_state.hpp.
#include "layout.h"

  .macro for_saved action     # x1, x3, x4, x6 to x31: all but sp and t0
  .irp n, 1,3,4,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
  \action x\n, QM_FRAME_X(\n)(sp)
  .endr
  .endm

  .section .text..trap, "ax", @progbits
  .globl __trap_text_start, __trap_text_end, __trap_return, qm_trap_entry
  .balign 64
__trap_text_start:
  .type qm_trap_entry, @function
qm_trap_entry:
  csrrw sp, sscratch, sp      # sp = trap stack or 0, sscratch = interrupted sp
  beqz  sp, 1f
  addi  sp, sp, -QM_FRAME_BYTES
  sd    t0, QM_FRAME_X(5)(sp)
  addi  t0, sp, QM_FRAME_BYTES
  sd    t0, QM_FRAME_SCRATCH(sp)    # sscratch goes back to the stack's top
  j     2f
1:
  csrr  sp, sscratch          # nested: stay on the interrupted stack
  addi  sp, sp, -QM_FRAME_BYTES
  sd    t0, QM_FRAME_X(5)(sp)
  sd    zero, QM_FRAME_SCRATCH(sp)  # sscratch stays 0
2:
  csrrw t0, sscratch, zero    # inside a trap from here on
  sd    t0, QM_FRAME_X(2)(sp)
  for_saved sd
  sd    zero, QM_FRAME_X(0)(sp)
  csrr  t0, sepc
  sd    t0, QM_FRAME_ORIGINAL_PC(sp)
  sd    t0, QM_FRAME_PC(sp)
  sd    t0, QM_FRAME_RECORD_PC(sp)  # a frame record: (pc, s0) of the interrupted code
  sd    s0, QM_FRAME_RECORD_S0(sp)
  csrr  t0, scause
  sd    t0, QM_FRAME_CAUSE(sp)
  csrr  t0, stval
  sd    t0, QM_FRAME_VALUE(sp)
  csrr  t0, sstatus
  sd    t0, QM_FRAME_STATUS(sp)
  addi  s0, sp, QM_FRAME_BYTES
  mv    a0, sp
  call  qm_trap
__trap_return:
  csrci sstatus, 2            # the handler may have let interrupts in
  ld    t0, QM_FRAME_PC(sp)
  csrw  sepc, t0
  ld    t0, QM_FRAME_STATUS(sp)     # SIE is 0 in it, SPIE and SPP are as at entry
  csrw  sstatus, t0
  ld    t0, QM_FRAME_SCRATCH(sp)
  csrw  sscratch, t0
  for_saved ld
  ld    t0, QM_FRAME_X(5)(sp)
  ld    sp, QM_FRAME_X(2)(sp)
  sret
  .size qm_trap_entry, . - qm_trap_entry

# A new task's first instruction: s1 = entry, s2 = argument, interrupts masked, s0 = 0.
  .globl qm_task_start, __task_return
  .type qm_task_start, @function
qm_task_start:
  csrsi sstatus, 2            # interrupts on
  mv    a0, s2
  jalr  s1
__task_return:
  call  qm_task_end           # does not return
  .size qm_task_start, . - qm_task_start
__trap_text_end:

# void qm_switch(std::uintptr_t* saved_sp, std::uintptr_t next_sp): callee-saved registers to this stack, then from that.
  .section .text..switch, "ax", @progbits
  .globl qm_switch
  .type qm_switch, @function
qm_switch:
  addi  sp, sp, -QM_SWITCH_BYTES
  sd    ra, 104(sp)
  sd    s0, 96(sp)
  sd    s1, 88(sp)
  sd    s2, 80(sp)
  sd    s3, 72(sp)
  sd    s4, 64(sp)
  sd    s5, 56(sp)
  sd    s6, 48(sp)
  sd    s7, 40(sp)
  sd    s8, 32(sp)
  sd    s9, 24(sp)
  sd    s10, 16(sp)
  sd    s11, 8(sp)
  sd    sp, 0(a0)
  mv    sp, a1
  ld    ra, 104(sp)
  ld    s0, 96(sp)
  ld    s1, 88(sp)
  ld    s2, 80(sp)
  ld    s3, 72(sp)
  ld    s4, 64(sp)
  ld    s5, 56(sp)
  ld    s6, 48(sp)
  ld    s7, 40(sp)
  ld    s8, 32(sp)
  ld    s9, 24(sp)
  ld    s10, 16(sp)
  ld    s11, 8(sp)
  addi  sp, sp, QM_SWITCH_BYTES
  ret
  .size qm_switch, . - qm_switch
