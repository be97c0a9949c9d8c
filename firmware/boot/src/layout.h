/* Sizes and offsets shared by assembly and C++; static_asserts in hart_state.hpp check them. */
#ifndef QM_FIRMWARE_LAYOUT_H
#define QM_FIRMWARE_LAYOUT_H

#include <qm/config.h>

#if !defined(QM_MAX_HARTS) /* the build's option */
#define QM_MAX_HARTS 8
#endif
#define QM_BOOT_STACK_BYTES 16384 /* boot, then the idle loop */
#define QM_TRAP_STACK_BYTES 16384 /* trap handlers, nested ones included */
#define QM_TASK_STACK_BYTES 32768
#define QM_HART_STACKS_BYTES (QM_BOOT_STACK_BYTES + QM_TRAP_STACK_BYTES)

#if __riscv_xlen == 64
#define QM_WORD_BYTES 8
#else
#define QM_WORD_BYTES 4
#endif

#define QM_FRAME_X(n) (QM_WORD_BYTES * (n))
#define QM_FRAME_ORIGINAL_PC QM_FRAME_X(32)
#define QM_FRAME_PC QM_FRAME_X(33)
#define QM_FRAME_CAUSE QM_FRAME_X(34)
#define QM_FRAME_VALUE QM_FRAME_X(35)
#define QM_FRAME_STATUS QM_FRAME_X(36)
#define QM_FRAME_SCRATCH QM_FRAME_X(37)
#define QM_FRAME_RECORD_S0 QM_FRAME_X(42)
#define QM_FRAME_RECORD_PC QM_FRAME_X(43)
#define QM_FRAME_BYTES QM_FRAME_X(44)

/* The frame of qm_switch on a stack: word 13 is ra, words 12 to 1 are s0 to s11, the rest is padding. */
#define QM_SWITCH_AT(n) (QM_WORD_BYTES * (n))
#define QM_SWITCH_BYTES QM_SWITCH_AT(16)

#ifdef __ASSEMBLER__
#if __riscv_xlen == 64
#define LOAD ld
#define STORE sd
#else
#define LOAD lw
#define STORE sw
#endif
#endif

#endif
