#ifndef QM_FREERTOS_BRIDGE_H
#define QM_FREERTOS_BRIDGE_H
/* Functions of the allocator beyond <qm/qm.h> that heap_qm.c calls; not for firmware. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

void* qm_freertos_allocate(size_t size, qm_flags wait_policy) QM_NOEXCEPT;
/* Called before and after each call of the heap from an interrupt handler. */
void qm_freertos_enter_handler(void) QM_NOEXCEPT;
void qm_freertos_leave_handler(void) QM_NOEXCEPT;
/* Mask and restore interrupts as the port does; they nest. */
uintptr_t qm_freertos_mask(void) QM_NOEXCEPT;
void qm_freertos_unmask(uintptr_t before) QM_NOEXCEPT;
/* Calls qm_freertos_fatal() unless tp points at a copy of the image's TLS segment. */
void qm_freertos_check_hart_locals(void) QM_NOEXCEPT;
void qm_freertos_shutdown(void) QM_NOEXCEPT;

/* Free memory of the arenas base and kheap. */
size_t qm_freertos_free_bytes(void) QM_NOEXCEPT;
typedef struct qm_freertos_free_memory {
  size_t largest, smallest, count; /* segments, in bytes */
} qm_freertos_free_memory;
void qm_freertos_look_at_free_memory(qm_freertos_free_memory* memory) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
