/* Sizes and offsets that assembly, C++ and each other must agree on; static_asserts in hart_state.hpp pin them. */
#ifndef QM_FIRMWARE_LAYOUT_H
#define QM_FIRMWARE_LAYOUT_H

#define QM_MAX_HARTS 8
#define QM_BOOT_STACK_BYTES 16384 /* boot, then the idle loop */
#define QM_TRAP_STACK_BYTES 16384 /* trap handlers, nested ones included */
#define QM_TASK_STACK_BYTES 32768
#define QM_HART_STACKS_BYTES (QM_BOOT_STACK_BYTES + QM_TRAP_STACK_BYTES)

#define QM_FRAME_X(n) (8 * (n))
#define QM_FRAME_ORIGINAL_PC 256
#define QM_FRAME_PC 264
#define QM_FRAME_CAUSE 272
#define QM_FRAME_VALUE 280
#define QM_FRAME_STATUS 288
#define QM_FRAME_SCRATCH 296
#define QM_FRAME_RECORD_S0 320
#define QM_FRAME_RECORD_PC 328
#define QM_FRAME_BYTES 336

#define QM_SWITCH_BYTES 112 /* ra, s0 to s11, padding */

#endif
