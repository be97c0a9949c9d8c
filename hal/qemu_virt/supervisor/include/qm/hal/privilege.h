/* Names of control and status registers in S-mode, for assembly and for QM_CSR_...; hal/qemu_virt/machine has M-mode's. */
#ifndef QM_HAL_PRIVILEGE_H
#define QM_HAL_PRIVILEGE_H

#define QM_XSTATUS sstatus
#define QM_XIE sie
#define QM_XTVEC stvec
#define QM_XSCRATCH sscratch
#define QM_XEPC sepc
#define QM_XCAUSE scause
#define QM_XTVAL stval
#define QM_XRET sret
#define QM_XSTATUS_IE 2         /* interrupts enabled */
#define QM_XSTATUS_KEPT 0       /* bits that a trap exit leaves as they are */
#define QM_SOFTWARE_INTERRUPT 1 /* causes; their bits in QM_XIE and in the register of pending ones */
#define QM_TIMER_INTERRUPT 5
#define QM_EXTERNAL_INTERRUPT 9

#endif
