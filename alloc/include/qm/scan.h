#ifndef QM_SCAN_H
#define QM_SCAN_H
/* Roots of a leak scan, for C (C99) and C++: memory in which a pointer keeps an object. The platform supplies data,
 * bss, stacks and registers. Declare here any other memory that may hold the only pointer to an object: memory
 * outside the image, a ring of descriptors that a device reads. */

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A root. It lies in the caller's storage, which must stay until the root is removed. */
typedef struct qm_scan_root {
  const void* start; /* the scan reads it word by word, from the first aligned word to the last whole one */
  size_t bytes;
  const char* name;          /* for messages; not copied */
  struct qm_scan_root* next; /* used by the allocator while the root is declared */
} qm_scan_root;

/* Declares a root. Returns a qm_status (qm.h): QM_OK; QM_BUSY if the root is already declared; QM_INVALID for a range
 * that is empty, wraps, begins at address 0, or lies neither in one memory region of the allocator nor in the
 * platform's readable memory (scan::Platform of scan.hpp). Context: any but a handler. */
int qm_scan_add_root(qm_scan_root* root);
/* Removes a root. Returns 0, or QM_NOT_FOUND. */
int qm_scan_remove_root(qm_scan_root* root);

#ifdef __cplusplus
}
#endif
#endif
