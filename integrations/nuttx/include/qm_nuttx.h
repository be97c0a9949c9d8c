#ifndef QM_NUTTX_H
#define QM_NUTTX_H
/* Functions beyond NuttX's own. Guide: docs/nuttx.md. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The status of the memory manager's initialization: QM_OK; QM_INVALID for a heap that is too small, and then every
 * allocation returns NULL. Context: any. */
qm_status qm_nuttx_status(void) QM_NOEXCEPT;

/* Runs a line of Quartermaster's console, such as "slab_trace print kmalloc"; prints to the caller's standard output.
 * Returns 0; 1 if the command failed; -1, with a message on standard output, while another task runs a line.
 * Context: a task, which cannot be cancelled during the call. One task at a time. */
int qm_nuttx_run(const char* line) QM_NOEXCEPT;

/* The entry of the NSH commands: runs the command that argv[0] names or, if that is "qm", the one named by argv[1]. */
int qm_nuttx_main(int argc, char* argv[]) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
