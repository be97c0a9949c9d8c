#ifndef QM_TRACE_TRACE_H
#define QM_TRACE_TRACE_H
/* Tracing for C (C99) and C++: which objects of which caches are out, and who drew them. Beside <qm/qm.h>, which knows nothing
 * of it; statuses are the same.
 *
 *     qm_trace_init(NULL);
 *     qm_trace_start("packet");
 *     ...
 *     qm_trace_foreach("packet", print, NULL);
 *
 * Caches are named by their names or by patterns with * and ?, and the heap by "kmalloc": the caches kmalloc_* of its size
 * classes, and kheap, the arena of its large blocks. What may name several - a pattern, "kmalloc" - leaves caches out that
 * cannot be traced; the plain name of such a cache is QM_REFUSED. An arena is named and traced as a cache is: its segments are the
 * objects.
 *
 * Context: where the caller may wait for other harts, qm_trace_foreach() anywhere outside handlers. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What the books may take; a member of 0 stands for the default. */
typedef struct qm_trace_config {
  size_t stack_bytes;    /* for distinct call stacks: 256 KiB */
  size_t record_bytes;   /* for records, 28 bytes an object: 1 MiB, taken as it is needed */
  uintptr_t object_base; /* traced objects lie in the 32 GiB from here: where the memory begins */
} qm_trace_config;

/* Opens the books. @config may be NULL. Context: one hart, after qm_init().
 * Returns QM_INVALID, QM_BUSY (open already), QM_NO_MEMORY, QM_UNSAFE before qm_init(). */
qm_status qm_trace_init(const qm_trace_config* config) QM_NOEXCEPT;

/* Forgets everything, for a test that sets up anew; qm_shutdown() follows. Context: no cache in use. */
void qm_trace_shutdown(void) QM_NOEXCEPT;

/* Records every allocation of these caches from when this returns; what was recorded before is kept. A pattern is kept until it,
 * or one that matches it, is stopped - eight at a time, then QM_NO_MEMORY -: caches that are made meanwhile, as the heap's classes
 * when a size is first asked for, are traced from the beginning. So a pattern is found though nothing has such a name yet.
 * Returns QM_NOT_FOUND, QM_REFUSED, QM_TIMED_OUT (a hart did not answer), QM_NO_MEMORY, QM_UNSAFE, QM_BUSY (another command). */
qm_status qm_trace_start(const char* caches) QM_NOEXCEPT;

/* Records no allocation any more; frees go on removing records. Returns as qm_trace_start(). */
qm_status qm_trace_stop(const char* caches) QM_NOEXCEPT;

/* Drops all records and counts; recording goes on if it was on. Returns as qm_trace_start(). */
qm_status qm_trace_reset(const char* caches) QM_NOEXCEPT;

/* One object that is out. Valid during the visit. */
typedef struct qm_trace_record {
  uintptr_t object;
  size_t requested;       /* bytes asked for */
  uint64_t sequence;      /* rises from record to record */
  uint64_t age_ticks;     /* ticks of the port */
  unsigned hart;          /* where it was allocated, in ... */
  const char* context;    /* ... "task net-rx", "irq 10 from boot" */
  uint32_t stack_id;      /* the same for the same stack in every boot of an image */
  bool truncated;         /* the stack goes on */
  unsigned depth;         /* return addresses, ... */
  const uintptr_t* stack; /* ... innermost first; the calls lie before them */
} qm_trace_record;

/* Returns false to end the iteration. May allocate and free. */
typedef bool (*qm_trace_visit)(const qm_trace_record* record, void* priv);

/* What an iteration came to. */
typedef struct qm_trace_summary {
  size_t shown;
  uint64_t recorded;        /* since the start or the last reset */
  uint64_t dropped;         /* of the allocations since then, not recorded for want of memory */
  size_t from_before_start; /* out when tracing started, without a record, and still out */
  bool complete;            /* each cache was traced, all that was out and recorded was shown with its whole stack, and
                             * nothing was dropped; false for a cache that was never traced */
} qm_trace_summary;

/* Visits the objects of caches (named as above; NULL: all that were ever traced, as one) that are out and recorded, oldest first,
 * for a pattern one cache after the other: those that stay out from
 * beginning to end once each, none that is younger than the call. Nothing is allocated, and the system goes on.
 * @summary may be NULL.
 * Returns QM_OK; QM_NOT_FOUND; QM_ABORTED if the visit ended it; QM_BUSY while another iteration is under way. */
qm_status qm_trace_foreach(const char* cache, qm_trace_visit visit, void* priv, qm_trace_summary* summary) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
