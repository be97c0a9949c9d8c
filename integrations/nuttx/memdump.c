/* /proc/memdump and mallinfo_task(): blocks with a record in the trace, by the pid in their context; free segments. */
#include <nuttx/config.h>

#include <nuttx/mm/mm.h>
#include <nuttx/sched.h>

#include <stdlib.h>
#include <string.h>
#include <syslog.h>

#include "heap.h"

#if defined(CONFIG_QUARTERMASTER_TRACE)
#include <qm/trace/trace.h>

/* Returns the pid in a context; -1 for the context of a handler or of the start. */
static pid_t pid_of(const char* context) {
  const char* const word = strstr(context, " pid ");
  const char* last = word;
  for (const char* next = word; next != NULL; next = strstr(next + 1, " pid ")) last = next;
  return last != NULL ? (pid_t)atoi(last + 5) : (pid_t)-1;
}

struct search {
  const struct malltask* task;
  struct mallinfo_task found;
  bool prints;
};

static bool is_wanted(const struct malltask* task, pid_t pid) {
  if (task->pid == PID_MM_LEAK) return pid >= 0 && nxsched_get_tcb(pid) == NULL;
  return task->pid == PID_MM_ALLOC || task->pid == PID_MM_BIGGEST || task->pid == pid;
}

static bool visit(const qm_trace_record* record, void* priv) {
  struct search* const search = priv;
  const pid_t pid = pid_of(record->context);
  if (!is_wanted(search->task, pid)) return true;
  ++search->found.aordblks;
  search->found.uordblks += (int)record->requested;
  if (!search->prints) return true;
  char stack[8 * (2 * sizeof(uintptr_t) + 3) + 1] = "";
  size_t length = 0;
  for (unsigned i = 0; i < record->depth && i < 8; ++i)
    length += (size_t)snprintf(stack + length, sizeof stack - length, " %p", (void*)record->stack[i]);
  syslog(LOG_INFO, "%6d%12zu %p%s\n", (int)pid, record->requested, (void*)record->object, stack);
  return true;
}

static struct mallinfo_task look(struct mm_heap_s* heap, const struct malltask* task, bool prints) {
  struct search search = {task, {0, 0}, prints};
  qm_trace_summary summary = {0};
  (void)qm_trace_foreach(qm_nuttx_trace_name(heap), visit, &search, &summary);
  if (prints && summary.recorded == 0) syslog(LOG_INFO, "no record: slab_trace start %s\n", qm_nuttx_trace_name(heap));
  return search.found;
}
#else
static struct mallinfo_task look(struct mm_heap_s* heap, const struct malltask* task, bool prints) {
  const struct mallinfo_task none = {0, 0};
  UNUSED(heap);
  UNUSED(task);
  if (prints) syslog(LOG_INFO, "no record: built without QUARTERMASTER_TRACE\n");
  return none;
}
#endif

struct pieces {
  struct mallinfo_task sum;
  bool prints;
};

static void count_piece(const void* start, size_t size, void* priv) {
  struct pieces* const pieces = priv;
  ++pieces->sum.aordblks;
  pieces->sum.uordblks += (int)size;
  if (pieces->prints) syslog(LOG_INFO, "%6s%12zu %p\n", "free", size, start);
}

static struct mallinfo_task search(struct mm_heap_s* heap, const struct malltask* task, bool prints) {
  struct tls_info_s* const self = qm_nuttx_forbid_deletion();
  struct pieces pieces = {{0, 0}, prints};
  if (task->pid == PID_MM_FREE) {
    qm_nuttx_for_each_free(qm_nuttx_arena(heap), count_piece, &pieces);
  } else {
    pieces.sum = look(heap, task, prints);
  }
  qm_nuttx_permit_deletion(self);
  return pieces.sum;
}

struct mallinfo_task mm_mallinfo_task(struct mm_heap_s* heap, const struct malltask* task) {
  return search(heap, task, false);
}

void mm_memdump(struct mm_heap_s* heap, const struct mm_memdump_s* dump) {
  syslog(LOG_INFO, "%6s%12s %s\n", "PID", "Size", "Address, stack");
  const struct mallinfo_task sum = search(heap, dump, true);
  syslog(LOG_INFO, "%12s%12s\n", "Total Blks", "Total Size");
  syslog(LOG_INFO, "%12d%12d\n", sum.aordblks, sum.uordblks);
}
