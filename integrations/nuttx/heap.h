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

#endif
