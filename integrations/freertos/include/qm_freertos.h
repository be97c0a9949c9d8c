#ifndef QM_FREERTOS_H
#define QM_FREERTOS_H
/* What heap_qm.c and the library quartermaster::freertos have beyond the kernel's heap API. docs/freertos.md is the guide. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the heap was set up, by the first allocation or vPortInitialiseBlocks(): QM_OK; QM_UNSAFE before that; QM_INVALID for a
 * region that is too small, and then every allocation is NULL; as qm_init() and qm_add_memory() else. Any context. */
qm_status qm_freertos_status(void) QM_NOEXCEPT;

/* Calls of the heap from an interrupt above the kernel's mask level that came while the allocator had masked the others:
 * pvPortMalloc() has returned NULL, vPortFree() has not freed. Any context. */
size_t qm_freertos_refused(void) QM_NOEXCEPT;

/* Whether the kernel's objects have frame pointers, without which recorded stacks end at its functions. Any context. */
bool qm_freertos_has_frames(void) QM_NOEXCEPT;

/* Reports what the allocator found corrupt, or the hart-locals missing, and does not return. The firmware may define it; else
 * interrupts are masked for ever, and `qm_freertos_reason` shows a debugger what there was to say. */
__attribute__((noreturn)) void qm_freertos_fatal(const char* reason) QM_NOEXCEPT;

/* The console: a task over bytes that the firmware sends and receives. Needs quartermaster::freertos. */
typedef struct qm_freertos_console {
  void (*write)(const char* bytes, size_t count); /* sends all of them before it returns, or queues them */
  size_t (*read)(char* bytes, size_t most);       /* takes what has come, without waiting; returns how many */
  size_t stack_bytes;                             /* of the task; 0: 6 KiB (RV32), 8 KiB (RV64) */
  unsigned priority;                              /* of the task; 0 is the idle task's */
  size_t trace_stack_bytes;  /* memory for distinct call stacks; 0: a 32nd of the heap, at least 4 KiB */
  size_t trace_record_bytes; /* memory for records at most; 0: a quarter of the heap */
  /* Finds the function around an address: NULL, or sets *offset. NULL: addresses have no names. */
  const char* (*name_of)(uintptr_t address, size_t* offset);
} qm_freertos_console;

/* Sets the heap up, opens the trace and makes the task "console". @console lives as long as the task. Once, in main() or a task.
 * Returns as qm_freertos_status() and qm_trace_init(); QM_NO_MEMORY if there is none for the task; QM_BUSY the second time. */
qm_status qm_freertos_start_console(const qm_freertos_console* console) QM_NOEXCEPT;

/* Bytes have come: the console's task looks at them now. Without it, it looks every 20 ms. Any context but an interrupt above the
 * kernel's mask level. */
void qm_freertos_console_input(void) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
