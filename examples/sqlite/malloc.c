/* The C library's malloc, for SQLite. */

#include <qm/qm.h>

void *malloc(size_t size) { return qm_malloc(size); }
void *realloc(void *block, size_t size) { return qm_realloc(block, size); }
void free(void *block) { qm_free(block); }
