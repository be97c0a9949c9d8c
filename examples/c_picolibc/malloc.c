/* The allocation functions of the C library, which its own functions such as strdup() call too. */
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

#include "board.h"

static void* or_no_memory(void* block) {
  if (block == NULL) errno = ENOMEM;
  return block;
}

void* malloc(size_t size) { return or_no_memory(qm_malloc(size)); }
void* calloc(size_t count, size_t size) { return or_no_memory(qm_calloc(count, size)); }
void* realloc(void* block, size_t size) { return or_no_memory(qm_realloc(block, size)); }
void* aligned_alloc(size_t alignment, size_t size) { return or_no_memory(qm_aligned_alloc(alignment, size)); }
void* memalign(size_t alignment, size_t size) { return aligned_alloc(alignment, size); }
void free(void* block) { qm_free(block); }
size_t malloc_usable_size(void* block) { return qm_usable_size(block); }
