#ifndef QM_TRACE_TRACE_H
#define QM_TRACE_TRACE_H
/* Tracing for C (C99) and C++: which objects of which caches are in use, and which code allocated them. Use it together
 * with <qm/qm.h>, which does not depend on it; the statuses are the same.
 *
 *     qm_trace_init(NULL);
 *     qm_trace_start("packet");
 *     ...
 *     qm_trace_foreach("packet", print, NULL, NULL);
 *
 * A call names caches by name or by a pattern with * and ?. It names the heap by "kmalloc": the caches kmalloc_* of its
 * size classes, and kheap, the arena of its large blocks. A pattern and "kmalloc" leave out caches that cannot be
 * traced; the plain name of such a cache fails with QM_REFUSED. An arena is named and traced like a cache: its segments
 * are the objects.
 *
 * Context: where the caller may wait for other harts; qm_trace_foreach() anywhere outside interrupt handlers. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Memory limits of the trace; 0 in a member stands for the default. */
typedef struct qm_trace_config {
  size_t stack_bytes;    /* for distinct call stacks: 256 KiB */
  size_t record_bytes;   /* for records, 28 bytes an object: 1 MiB, allocated when needed */
  uintptr_t object_base; /* traced objects lie in the 32 GiB from here; default: where the memory begins */
} qm_trace_config;

/* Sets the trace up. @config may be NULL. Context: one hart, after qm_init().
 * Returns QM_OK, QM_INVALID, QM_BUSY (set up already), QM_NO_MEMORY, QM_UNSAFE before qm_init(). */
qm_status qm_trace_init(const qm_trace_config* config) QM_NOEXCEPT;

/* Returns to the state before qm_trace_init(), for a test that sets up again; qm_shutdown() follows. Context: no cache
 * in use. */
void qm_trace_shutdown(void) QM_NOEXCEPT;

/* Records every allocation of these caches from the return of this call on. Older records are kept. A pattern stays in
 * force until it, or a pattern that matches it, is stopped: caches that are created later, such as the heap's classes
 * at the first allocation of a size, are traced from their first allocation. So a pattern that matches no existing
 * cache is no error. At most eight patterns are in force; one more fails with QM_NO_MEMORY.
 * Returns QM_OK; QM_NOT_FOUND; QM_REFUSED; QM_INVALID for a pattern of 32 characters or more; QM_MISMATCH if the
 * console has set a cache to counts or samples; QM_TIMED_OUT if a hart does not answer; QM_NO_MEMORY; QM_UNSAFE
 * before qm_trace_init() and in a panic; QM_BUSY while another command runs. */
qm_status qm_trace_start(const char* caches) QM_NOEXCEPT;

/* Ends recording; frees still remove records. Returns as qm_trace_start(). After QM_TIMED_OUT nothing new is recorded;
 * call it again. */
qm_status qm_trace_stop(const char* caches) QM_NOEXCEPT;

/* Drops all records and counts; recording continues if it was on. Returns as qm_trace_start(). */
qm_status qm_trace_reset(const char* caches) QM_NOEXCEPT;

/* One object in use. Valid during the visit. */
typedef struct qm_trace_record {
  uintptr_t object;
  size_t requested;       /* in bytes */
  uint64_t sequence;      /* rises from record to record */
  uint64_t age_ticks;     /* in ticks of the port */
  unsigned hart;          /* that allocated it */
  const char* context;    /* that allocated it: "task net-rx", "irq 10 from boot" */
  uint32_t stack_id;      /* the same for the same stack in every boot of an image */
  bool truncated;         /* the stack has more frames */
  unsigned depth;         /* number of return addresses */
  const uintptr_t* stack; /* return addresses, innermost first; the calls lie before them */
} qm_trace_record;

/* Returns false to end the iteration. It may allocate and free. */
typedef bool (*qm_trace_visit)(const qm_trace_record* record, void* priv);

/* The result of an iteration. */
typedef struct qm_trace_summary {
  size_t shown;
  uint64_t recorded;        /* since the start or the last reset */
  uint64_t dropped;         /* allocations since then that were not recorded because memory was lacking */
  size_t from_before_start; /* objects without a record that were in use when tracing started and still are */
  bool complete;            /* each cache was traced, every recorded object in use was shown with its whole stack, and
                             * nothing was dropped; false for a cache that was never traced */
} qm_trace_summary;

/* Visits the objects of caches (named as above; NULL: all that were ever traced, as one) that are in use and have a
 * record, oldest first; for a pattern, one cache after the other. Each object that stays in use from beginning to end
 * is visited once; no object younger than the call is visited. Nothing is allocated, and the system continues to run.
 * @summary may be NULL.
 * Returns QM_OK; QM_INVALID if @visit is NULL; QM_UNSAFE before qm_trace_init(); QM_NOT_FOUND; QM_ABORTED if a visit
 * returned false; QM_BUSY while another iteration runs, as in a visit. */

qm_status qm_trace_foreach(const char* cache, qm_trace_visit visit, void* priv, qm_trace_summary* summary) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
