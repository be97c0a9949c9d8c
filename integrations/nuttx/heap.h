#ifndef QM_NUTTX_HEAP_H
#define QM_NUTTX_HEAP_H
/* What the sources that are compiled with NuttX's flags have of each other. */

#include <nuttx/mm/mm.h>

#include <stdio.h>

#include <qm_nuttx.h>

#include "src/bridge.h"

/* NULL for the first heap. */
qm_arena* qm_nuttx_arena(struct mm_heap_s* heap);
/* What the trace calls the heap. */
const char* qm_nuttx_trace_name(struct mm_heap_s* heap);

#endif
