/* What the tests of call sites share with their C half. */
#ifndef ALLOC_CALL_SITES_H
#define ALLOC_CALL_SITES_H

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A helper that is converted by the recipe: charged to who calls it. */
void* qm_test_converted_at(const qm_call_site* site, size_t size);
#define qm_test_converted(size) QM_AT(qm_test_converted_at, size)

/* A helper with a hook of its own, and one with none. */
void* qm_test_unconverted(size_t size);
void* qm_test_plain(size_t size);

/* Hooks over each function of C that allocates; a number of lines of this file are rows then. Blocks are freed again. */
int qm_test_hooks_of_c(qm_cache* cache);
/* Three blocks that stay. */
void qm_test_take_in_c(void* blocks[3]);

#ifdef __cplusplus
}
#endif
#endif
