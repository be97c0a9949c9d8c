/* Shared declarations of the call sites' tests and their C half. */
#ifndef ALLOC_CALL_SITES_H
#define ALLOC_CALL_SITES_H

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A helper converted by the recipe: its allocations are charged to its caller. */
void* qm_test_converted_at(const qm_call_site* site, size_t size);
#define qm_test_converted(size) QM_AT(qm_test_converted_at, size)

/* A helper with its own hook, and one without a hook. */
void* qm_test_unconverted(size_t size);
void* qm_test_plain(size_t size);

/* Hooks over each allocating function of C; a number of lines of this file become rows. The blocks are freed again. */
int qm_test_hooks_of_c(qm_cache* cache);
/* Three blocks that are not freed. */
void qm_test_take_in_c(void* blocks[3]);

#ifdef __cplusplus
}
#endif
#endif
