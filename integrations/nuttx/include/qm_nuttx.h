#ifndef QM_NUTTX_H
#define QM_NUTTX_H
/* What there is beyond NuttX's own functions. docs/nuttx.md is the guide. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* How the memory manager was set up at the start: QM_OK; QM_INVALID for a heap that is too small, and then every allocation is
 * NULL. Any context. */
qm_status qm_nuttx_status(void) QM_NOEXCEPT;

/* Runs a line of Quartermaster's console, as "slab_trace print kmalloc", which prints to the caller's standard output. One task
 * at a time. Returns 0; 1 if the command failed; -1, with a message on standard output, while another task runs one.
 * Context: a task, which is not cancelled meanwhile. */
int qm_nuttx_run(const char* line) QM_NOEXCEPT;

/* The commands of NSH: runs the command that argv[0] names, or behind "qm" argv[1]. */
int qm_nuttx_main(int argc, char* argv[]) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
