# Trap entry and exit, task start and context switch.
#
# A return address in [__trap_text_start, __trap_text_end) ends an allocation's frame walk: the outer frames belong to
# the interrupted code (__trap_return), or there is no caller (__task_return).
#
# sscratch is the top of this hart's trap stack while the hart handles no trap, and 0 while it handles one. The first
# trap switches to the trap stack; a nested trap stays on the current stack. Frame layout: TrapFrame in hart_state.hpp.
#include <qm/hal/privilege.h>

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
  csrrw sp, QM_XSCRATCH, sp   # sp = trap stack or 0, the register = interrupted sp
  beqz  sp, 1f
  addi  sp, sp, -QM_FRAME_BYTES
  STORE t0, QM_FRAME_X(5)(sp)
  addi  t0, sp, QM_FRAME_BYTES
  STORE t0, QM_FRAME_SCRATCH(sp) # sscratch will be restored to the stack's top
  j     2f
1:
  csrr  sp, QM_XSCRATCH       # nested: stay on the interrupted stack
  addi  sp, sp, -QM_FRAME_BYTES
  STORE t0, QM_FRAME_X(5)(sp)
  STORE zero, QM_FRAME_SCRATCH(sp) # sscratch stays 0
2:
  csrrw t0, QM_XSCRATCH, zero # t0 = interrupted sp; sscratch = 0: a trap is handled from here on
  STORE t0, QM_FRAME_X(2)(sp)
  for_saved STORE
  STORE zero, QM_FRAME_X(0)(sp)
  csrr  t0, QM_XEPC
  STORE t0, QM_FRAME_ORIGINAL_PC(sp)
  STORE t0, QM_FRAME_PC(sp)
  STORE t0, QM_FRAME_RECORD_PC(sp) # a frame record: (pc, s0) of the interrupted code
  STORE s0, QM_FRAME_RECORD_S0(sp)
  csrr  t0, QM_XCAUSE
  STORE t0, QM_FRAME_CAUSE(sp)
  csrr  t0, QM_XTVAL
  STORE t0, QM_FRAME_VALUE(sp)
  csrr  t0, QM_XSTATUS
  STORE t0, QM_FRAME_STATUS(sp)
  addi  s0, sp, QM_FRAME_BYTES
  mv    a0, sp
  call  qm_trap
__trap_return:
  csrci QM_XSTATUS, QM_XSTATUS_IE # mask interrupts: the handler may have enabled them
  LOAD t0, QM_FRAME_PC(sp)
  csrw  QM_XEPC, t0
  LOAD t0, QM_FRAME_STATUS(sp) # its enable bit is 0; its previous enable and mode are as at entry
#if QM_XSTATUS_KEPT
  csrr  t1, QM_XSTATUS
  xor   t1, t1, t0
  li    t2, QM_XSTATUS_KEPT
  and   t1, t1, t2
  xor   t0, t0, t1
#endif
  csrw  QM_XSTATUS, t0
  LOAD t0, QM_FRAME_SCRATCH(sp)
  csrw  QM_XSCRATCH, t0
  for_saved LOAD
  LOAD t0, QM_FRAME_X(5)(sp)
  LOAD sp, QM_FRAME_X(2)(sp)
  QM_XRET
  .size qm_trap_entry, . - qm_trap_entry

# A new task's first instruction: s1 = entry, s2 = argument, interrupts masked, s0 = 0.
  .globl qm_task_start, __task_return
  .type qm_task_start, @function
qm_task_start:
  csrsi QM_XSTATUS, QM_XSTATUS_IE # enable interrupts
  mv    a0, s2
  jalr  s1
__task_return:
  call  qm_task_end           # does not return
  .size qm_task_start, . - qm_task_start
__trap_text_end:

# The first instructions on the panic shell's stack: ra = 0 and s0 = 0 end a backtrace.
  .section .text..panic, "ax", @progbits
  .globl qm_panic_start
  .type qm_panic_start, @function
qm_panic_start:
  li    ra, 0
  tail  qm_panic_shell
  .size qm_panic_start, . - qm_panic_start

# void qm_switch(std::uintptr_t* saved_sp, std::uintptr_t next_sp): saves the callee-saved registers on this stack and
# its sp in *saved_sp, then switches to next_sp and restores the registers from there.
  .section .text..switch, "ax", @progbits
  .globl qm_switch
  .type qm_switch, @function
qm_switch:
  addi  sp, sp, -QM_SWITCH_BYTES
  STORE ra, QM_SWITCH_AT(13)(sp)
  STORE s0, QM_SWITCH_AT(12)(sp)
  STORE s1, QM_SWITCH_AT(11)(sp)
  STORE s2, QM_SWITCH_AT(10)(sp)
  STORE s3, QM_SWITCH_AT(9)(sp)
  STORE s4, QM_SWITCH_AT(8)(sp)
  STORE s5, QM_SWITCH_AT(7)(sp)
  STORE s6, QM_SWITCH_AT(6)(sp)
  STORE s7, QM_SWITCH_AT(5)(sp)
  STORE s8, QM_SWITCH_AT(4)(sp)
  STORE s9, QM_SWITCH_AT(3)(sp)
  STORE s10, QM_SWITCH_AT(2)(sp)
  STORE s11, QM_SWITCH_AT(1)(sp)
  STORE sp, 0(a0)
  mv    sp, a1
  LOAD ra, QM_SWITCH_AT(13)(sp)
  LOAD s0, QM_SWITCH_AT(12)(sp)
  LOAD s1, QM_SWITCH_AT(11)(sp)
  LOAD s2, QM_SWITCH_AT(10)(sp)
  LOAD s3, QM_SWITCH_AT(9)(sp)
  LOAD s4, QM_SWITCH_AT(8)(sp)
  LOAD s5, QM_SWITCH_AT(7)(sp)
  LOAD s6, QM_SWITCH_AT(6)(sp)
  LOAD s7, QM_SWITCH_AT(5)(sp)
  LOAD s8, QM_SWITCH_AT(4)(sp)
  LOAD s9, QM_SWITCH_AT(3)(sp)
  LOAD s10, QM_SWITCH_AT(2)(sp)
  LOAD s11, QM_SWITCH_AT(1)(sp)
  addi  sp, sp, QM_SWITCH_BYTES
  ret
  .size qm_switch, . - qm_switch
