#ifndef QM_NUTTX_HEAP_H
#define QM_NUTTX_HEAP_H
/* Declarations shared by the sources that are compiled with NuttX's flags. */

#include <nuttx/mm/mm.h>

#include <stdio.h>

#include <qm_nuttx.h>

#include "src/bridge.h"

/* Returns the heap's arena; NULL for the first heap. */
qm_arena* qm_nuttx_arena(struct mm_heap_s* heap);
/* Returns the heap's name in the trace. */
const char* qm_nuttx_trace_name(struct mm_heap_s* heap);

/* Until qm_nuttx_permit_deletion() nobody deletes the running task: while it allocates or looks at the heap, a list of
 * the allocator may lead to its stack. Returns the argument of qm_nuttx_permit_deletion(). */
struct tls_info_s* qm_nuttx_forbid_deletion(void);
/* Ends the task if it was deleted meanwhile. */
void qm_nuttx_permit_deletion(struct tls_info_s* tls);

#endif
