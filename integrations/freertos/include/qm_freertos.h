#ifndef QM_FREERTOS_H
#define QM_FREERTOS_H
/* Functions of heap_qm.c and of quartermaster::freertos beyond the kernel's heap API. The guide is docs/freertos.md. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The status of the heap's initialization, which the first allocation or vPortInitialiseBlocks() does: QM_OK; QM_UNSAFE
 * before it; QM_INVALID for a region that is too small, and then every allocation returns NULL; else as qm_init() and
 * qm_add_memory(). Context: any. */
qm_status qm_freertos_status(void) QM_NOEXCEPT;

/* The number of calls of the heap from an interrupt above the kernel's mask level during a masked section of the
 * allocator: pvPortMalloc() has returned NULL, vPortFree() has not freed. Context: any. */
size_t qm_freertos_refused(void) QM_NOEXCEPT;

/* Whether the kernel is compiled with frame pointers. Without them recorded stacks end in the kernel. Context: any. */
bool qm_freertos_has_frames(void) QM_NOEXCEPT;

/* Called if the allocator found corrupt data or no hart-locals; does not return. The firmware may define it to report
 * the reason. The default masks interrupts for ever, and `qm_freertos_reason` has the reason for a debugger. */
__attribute__((noreturn)) void qm_freertos_fatal(const char* reason) QM_NOEXCEPT;

/* The console: a task that uses the firmware's functions to send and receive bytes. Needs quartermaster::freertos. */
typedef struct qm_freertos_console {
  void (*write)(const char* bytes, size_t count); /* sends all bytes before it returns, or queues them */
  size_t (*read)(char* bytes, size_t most);       /* reads received bytes without waiting; returns their number */
  size_t stack_bytes;                             /* of the task; 0: 6 KiB (RV32), 8 KiB (RV64) */
  unsigned priority;                              /* of the task; 0 is the idle task's */
  size_t trace_stack_bytes;  /* memory for distinct call stacks; 0: a 32nd of the heap, at least 4 KiB */
  size_t trace_record_bytes; /* largest memory for records; 0: a quarter of the heap */
  /* Returns the name of the function that contains an address and sets *offset, or returns NULL. If this pointer is
   * NULL, addresses have no names. */
  const char* (*name_of)(uintptr_t address, size_t* offset);
} qm_freertos_console;

/* Sets up the heap, initializes the trace and creates the task "console". @console lives as long as the task.
 * Returns as qm_freertos_status() and qm_trace_init(); QM_NO_MEMORY if there is no memory for the task; QM_BUSY if it
 * was called before. Context: main() or a task, once. */
qm_status qm_freertos_start_console(const qm_freertos_console* console) QM_NOEXCEPT;

/* Wakes the console's task because bytes have arrived. Without this call the task polls every 20 ms.
 * Context: any except an interrupt above the kernel's mask level. */
void qm_freertos_console_input(void) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
