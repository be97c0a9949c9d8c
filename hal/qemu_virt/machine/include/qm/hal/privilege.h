/* Names of control and status registers in M-mode, for assembly and for QM_CSR_...; hal/qemu_virt/supervisor has S-mode's. */
#ifndef QM_HAL_PRIVILEGE_H
#define QM_HAL_PRIVILEGE_H

#define QM_XSTATUS mstatus
#define QM_XIE mie
#define QM_XTVEC mtvec
#define QM_XSCRATCH mscratch
#define QM_XEPC mepc
#define QM_XCAUSE mcause
#define QM_XTVAL mtval
#define QM_XRET mret
#define QM_XSTATUS_IE 8         /* interrupts enabled */
#define QM_XSTATUS_KEPT 0x20000 /* bits that a trap exit leaves as they are: MPRV, see trap_unit.hpp */
#define QM_SOFTWARE_INTERRUPT 3 /* causes; their bits in QM_XIE and in the register of pending ones */
#define QM_TIMER_INTERRUPT 7
#define QM_EXTERNAL_INTERRUPT 11

#endif
