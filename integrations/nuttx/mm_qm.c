/* NuttX's memory manager over Quartermaster, for CONFIG_MM_CUSTOMIZE_MANAGER: the functions of <nuttx/mm/mm.h> that
 * NuttX's malloc() and kmm_malloc() call. The guide is docs/nuttx.md. This file also has NuttX's side of the
 * allocator's port: the running task's name, pid and stack, time, waits, and interrupts between harts.
 *
 *     the first heap (Umem)      the allocator's heap: its memory, size classes, and blocks
 *     any other (Kmem, ...)      an arena of that name over the heap's memory; its boundary tags lie in the first heap
 *
 * Any context may allocate and free. An allocation in an interrupt handler fails without reclaiming idle memory. A
 * block that is freed while the running task gives up its processor may be the stack on which that task still runs, so
 * it must not be allocated again yet. It waits in a list of the processor until the next call. */
#include <nuttx/config.h>

#include <nuttx/arch.h>
#include <nuttx/cancelpt.h>
#include <nuttx/clock.h>
#include <nuttx/fs/procfs.h>
#include <nuttx/init.h>
#include <nuttx/irq.h>
#include <nuttx/mm/mm.h>
#include <nuttx/sched.h>
#include <nuttx/signal.h>
#include <nuttx/tls.h>

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <syslog.h>

#include "heap.h"

#if !defined(CONFIG_BUILD_FLAT)
#error "Quartermaster is for flat builds (BUILD_FLAT)"
#endif
#if defined(CONFIG_MM_KASAN)
#error "Quartermaster has no memory of KASan's: MM_KASAN is to be off"
#endif
#if CONFIG_MM_BACKTRACE >= 0
#error \
    "MM_BACKTRACE is to be -1: Quartermaster's trace has pid and stack of each block, and is switched on while NuttX runs"
#endif
#define LEAST_STACK 4096
#if CONFIG_DEFAULT_TASK_STACKSIZE < LEAST_STACK || CONFIG_PTHREAD_STACK_DEFAULT < LEAST_STACK
#error \
    "DEFAULT_TASK_STACKSIZE and PTHREAD_STACK_DEFAULT are to be 4096 at least: an allocation may take 2 KiB of its caller's stack"
#endif
#if defined(CONFIG_BOARD_INITTHREAD_STACKSIZE) && CONFIG_BOARD_INITTHREAD_STACKSIZE < LEAST_STACK
#error "BOARD_INITTHREAD_STACKSIZE is to be 4096 at least: an allocation may take 2 KiB of its caller's stack"
#endif

#if CONFIG_ARCH_INTERRUPTSTACK > 15 && CONFIG_ARCH_INTERRUPTSTACK < LEAST_STACK
#error "ARCH_INTERRUPTSTACK is to be 4096 at least: an allocation in an interrupt handler may take 2 KiB of its stack"
#endif

#if defined(CONFIG_SMP)
#define HARTS CONFIG_SMP_NCPUS
#else
#define HARTS 1
#endif
#if defined(CONFIG_FS_PROCFS) && !defined(CONFIG_FS_PROCFS_EXCLUDE_MEMINFO)
#define HAVE_PROCFS 1
#endif
#define NAME_BYTES 32
/* Functions in this section are left out at the start of a recorded stack, like those of the allocator. */
#define BOOKS __attribute__((section("qm_trace")))
/* The number of flags for threads that reclaim memory at the same time; further threads share flags. */
#define THREAD_FLAGS 256

struct delayed {
  struct delayed* next;
};

struct mm_heap_s {
  qm_arena* arena; /* NULL: the first heap */
  char name[NAME_BYTES];
#if defined(HAVE_PROCFS)
  struct procfs_meminfo_entry_s procfs;
#endif
  struct {
    uintptr_t start, end;
  } regions[CONFIG_MM_REGIONS];
  int region_count;
  struct delayed* delayed[HARTS];
};

static struct mm_heap_s first_heap;
static qm_status status = QM_UNSAFE;

/* ---- the running context ----------------------------------------------------------------------------------------- */

unsigned qm_nuttx_hart(void) { return (unsigned)up_this_cpu(); }

bool* qm_nuttx_thread_flag(void) {
  static bool of_threads[THREAD_FLAGS];
  static bool of_harts[HARTS];
  const irqstate_t before = up_irq_save();
  const struct tcb_s* const self = nxsched_self();
  bool* const flag = up_interrupt_context() || self == NULL ? &of_harts[up_this_cpu()]
                                                            : &of_threads[(unsigned)self->pid % THREAD_FLAGS];
  up_irq_restore(before);
  return flag;
}

/* A pid is not reused before 2^31 tasks have been created. */
uint32_t qm_nuttx_context_key(void) {
  const irqstate_t before = up_irq_save();
  const struct tcb_s* const self = nxsched_self();
  const uint32_t key = up_interrupt_context() || self == NULL ? 0 : (uint32_t)self->pid + 1;
  up_irq_restore(before);
  return key;
}

static size_t put(char* to, size_t most, size_t at, const char* text) {
  for (; *text != 0 && at < most; ++text) to[at++] = *text;
  return at;
}

static size_t put_number(char* to, size_t most, size_t at, unsigned number) {
  char digits[12];
  char* first = digits + sizeof digits;
  *--first = 0;
  do {
    *--first = (char)('0' + number % 10);
    number /= 10;
  } while (number != 0);
  return put(to, most, at, first);
}

size_t qm_nuttx_context_label(char* label, size_t most) {
  const struct tcb_s* const self = nxsched_self(); /* masked */
  if (up_interrupt_context()) return put(label, most, 0, "isr");
  if (self == NULL || !OSINIT_OS_READY()) return put(label, most, 0, "boot");
  size_t at = put(label, most, 0, "task ");
#if CONFIG_TASK_NAME_SIZE > 0
  at = put(label, most, at, self->name);
  at = put(label, most, at, " ");
#endif
  return put_number(label, most, put(label, most, at, "pid "), (unsigned)self->pid);
}

uintptr_t qm_nuttx_stack_bounds(uintptr_t frame, uintptr_t* low) {
  uintptr_t high = 0;
  const irqstate_t before = up_irq_save();
  const struct tcb_s* const self = nxsched_self();
#if CONFIG_ARCH_INTERRUPTSTACK > 15
  if (up_interrupt_context()) {
    *low = up_get_intstackbase(up_this_cpu());
    high = *low + (CONFIG_ARCH_INTERRUPTSTACK & ~15);
  } else
#endif
      if (self != NULL && self->stack_base_ptr != NULL) {
    *low = (uintptr_t)self->stack_base_ptr;
    high = *low + self->adj_stack_size;
  }
  up_irq_restore(before);
  return frame >= *low && frame <= high ? high : 0;
}

/* ---- time, waits, harts -------------------------------------------------------------------------------------------- */

uint64_t qm_nuttx_microseconds(void) {
  struct timespec now = {0, 0};
  clock_systime_timespec(&now);
  return (uint64_t)now.tv_sec * 1000000 + (unsigned)now.tv_nsec / 1000;
}

/* Called in a loop while the allocator waits for another hart or a preempted task. Another hart is mostly done at once.
 * A preempted task may have a lower priority than this one, so every 64th call sleeps for a tick. */
void qm_nuttx_wait(void) {
  static volatile unsigned calls;
  if (++calls % 64 != 0) return;
  const struct tcb_s* const self = nxsched_self();
  if (up_interrupt_context() || self == NULL || self->pid < HARTS || !OSINIT_IDLELOOP()) return;
  (void)nxsched_ticksleep(1);
}

void qm_nuttx_send_ipi(unsigned hart) {
#if defined(CONFIG_SMP)
  (void)up_send_smp_sched((int)hart);
#else
  UNUSED(hart);
#endif
}

#if defined(CONFIG_SMP)
/* A function of the kernel: it makes the calls that are queued for this hart, clears the pending bit, then serves the
 * scheduler. */
int riscv_smp_call_handler(int irq, void* context, void* arg);

static int on_ipi(int irq, void* context, void* arg) {
  const int result = riscv_smp_call_handler(irq, context, arg);
  __asm volatile("fence" : : : "memory");            /* clear the bit before the requests are read */
  (void)nxsched_smp_call_handler(irq, context, arg); /* calls that were queued just before the bit was cleared */
  qm_nuttx_enter_handler();
  qm_nuttx_on_ipi((unsigned)up_this_cpu());
  qm_nuttx_leave_handler();
  return result;
}

/* Makes this hart take part in broadcasts from its first call on. NuttX starts harts with the interrupt that the
 * allocator also sends, and clears it at the end of their start; an interrupt sent to a hart before that is lost.
 * Returns with interrupts as they were. */
static void bring_online(void) {
  static volatile bool is_online[HARTS];
  if (is_online[up_this_cpu()] || !OSINIT_OS_READY()) return; /* may be outdated if the task moves */
  const irqstate_t before = up_irq_save();
  const int hart = up_this_cpu();
  if (!is_online[hart]) {
    is_online[hart] = true;
    (void)irq_attach(RISCV_IRQ_SOFT, on_ipi, NULL); /* every hart attaches the same handler */
    qm_nuttx_bring_online((unsigned)hart);
  }
  up_irq_restore(before);
}
#else
static void bring_online(void) {}
#endif

/* NuttX deletes a task that forbids its cancellation when it permits it again. */
struct tls_info_s* qm_nuttx_forbid_deletion(void) {
  const struct tcb_s* const self = nxsched_self();
  if (up_interrupt_context() || self == NULL || !OSINIT_OS_READY() || (self->flags & TCB_FLAG_EXIT_PROCESSING) != 0)
    return NULL;
  struct tls_info_s* const tls = self->stack_alloc_ptr;
  const irqstate_t before = enter_critical_section();
  const bool is_forbidden = (tls->tl_cpstate & CANCEL_FLAG_NONCANCELABLE) != 0;
  tls->tl_cpstate |= CANCEL_FLAG_NONCANCELABLE;
  leave_critical_section(before);
  return is_forbidden ? NULL : tls;
}

void qm_nuttx_permit_deletion(struct tls_info_s* tls) {
  if (tls == NULL) return;
  const irqstate_t before = enter_critical_section();
  tls->tl_cpstate &= (uint8_t)~CANCEL_FLAG_NONCANCELABLE;
  const bool is_deleted = (tls->tl_cpstate & CANCEL_FLAG_CANCEL_PENDING) != 0;
  leave_critical_section(before);
  if (is_deleted) (void)task_setcancelstate(TASK_CANCEL_ENABLE, NULL);
}

void qm_nuttx_fatal(const char* reason) {
  syslog(LOG_EMERG, "Quartermaster: %s\n", reason);
  PANIC();
  for (;;) {
  }
}

void qm_nuttx_tell(const char* what, const void* address) { syslog(LOG_ERR, "Quartermaster: %s: %p\n", what, address); }

/* ---- heaps --------------------------------------------------------------------------------------------------------- */

qm_status qm_nuttx_status(void) { return status; }
qm_arena* qm_nuttx_arena(struct mm_heap_s* heap) { return heap->arena; }
const char* qm_nuttx_trace_name(struct mm_heap_s* heap) { return heap->arena == NULL ? "kmalloc" : heap->name; }

static void add_range(struct mm_heap_s* heap, uintptr_t start, size_t size) {
  heap->regions[heap->region_count].start = start;
  heap->regions[heap->region_count].end = start + size;
  ++heap->region_count;
}

static void show_in_procfs(struct mm_heap_s* heap) {
#if defined(HAVE_PROCFS)
  heap->procfs.name = heap->name;
  heap->procfs.heap = heap;
  procfs_register_meminfo(&heap->procfs);
#else
  UNUSED(heap);
#endif
}

static void name_heap(struct mm_heap_s* heap, const char* name) {
  size_t at = 0;
  for (; name != NULL && *name != 0 && at < NAME_BYTES - 5; ++name) {
    const char c = *name;
    const bool is_letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    heap->name[at++] = is_letter || c == '-' || c == '.' ? c : '_';
  }
  if (at == 0) at = put(heap->name, NAME_BYTES - 1, 0, "heap");
  heap->name[at] = 0;
}

static struct mm_heap_s* set_up_first(const struct mm_heap_config_s* config) {
  struct mm_heap_s* const heap = &first_heap;
  name_heap(heap, config->name);
  status = qm_init(config->start, config->size);
  if (status != QM_OK) {
    syslog(LOG_EMERG, "Quartermaster: a heap of %zu bytes at %p cannot be used\n", config->size, config->start);
    return heap;
  }
  qm_nuttx_watch_misuse();
#if defined(CONFIG_QUARTERMASTER_TRACE)
  size_t stacks = CONFIG_QUARTERMASTER_TRACE_STACK_BYTES;
  size_t records = CONFIG_QUARTERMASTER_TRACE_RECORD_BYTES;
  if (stacks == 0) stacks = config->size / 32 < 4096 ? 4096 : config->size / 32 > 262144 ? 262144 : config->size / 32;
  if (records == 0) records = config->size / 4;
  const qm_status opened = qm_nuttx_open_trace(stacks, records);
  if (opened != QM_OK) syslog(LOG_ERR, "Quartermaster: no trace: status %d\n", opened);
#endif
  add_range(heap, (uintptr_t)config->start, config->size);
  show_in_procfs(heap);
  return heap;
}

static struct mm_heap_s* set_up_another(const struct mm_heap_config_s* config) {
  struct mm_heap_s* const heap = mm_zalloc(config->heap != NULL ? config->heap : &first_heap, sizeof *heap);
  if (heap == NULL) return NULL;
  name_heap(heap, config->name);
  const size_t length = strlen(heap->name);
  for (unsigned number = 2; heap->arena == NULL && number < 1000; ++number) {
    heap->arena = qm_arena_create(heap->name, (uintptr_t)config->start, config->size, 16, NULL, NULL, NULL, 0);
    if (heap->arena != NULL || !qm_nuttx_has_arena(heap->name)) break;
    heap->name[put_number(heap->name, NAME_BYTES - 1, put(heap->name, NAME_BYTES - 1, length, "_"), number)] = 0;
  }
  if (heap->arena == NULL) {
    syslog(LOG_ERR, "Quartermaster: a heap of %zu bytes at %p cannot be used\n", config->size, config->start);
    mm_free(config->heap != NULL ? config->heap : &first_heap, heap);
    return NULL;
  }
  add_range(heap, (uintptr_t)config->start, config->size);
  show_in_procfs(heap);
  return heap;
}

struct mm_heap_s* mm_initialize_heap(const struct mm_heap_config_s* config) {
  if (status == QM_UNSAFE) return set_up_first(config);
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  struct mm_heap_s* const heap = set_up_another(config);
  qm_nuttx_permit_deletion(task);
  return heap;
}

#if defined(CONFIG_MM_HEAP_MEMPOOL)
/* Size classes do the work of pools, so @init is ignored. */
struct mm_heap_s* mm_initialize_pool(const struct mm_heap_config_s* config, const struct mempool_init_s* init) {
  UNUSED(init);
  return mm_initialize_heap(config);
}
#endif

static qm_status add_memory(struct mm_heap_s* heap, void* start, size_t size) {
  const qm_status added =
      heap->arena == NULL ? qm_add_memory(start, size) : qm_arena_add(heap->arena, (uintptr_t)start, size);
  if (added != QM_OK)
    syslog(LOG_ERR, "Quartermaster: %zu bytes at %p are not added to %s: status %d\n", size, start, heap->name, added);
  return added;
}

void mm_addregion(struct mm_heap_s* heap, void* heapstart, size_t heapsize) {
  if (heap->region_count == CONFIG_MM_REGIONS) {
    syslog(LOG_ERR, "Quartermaster: %s has CONFIG_MM_REGIONS regions already\n", heap->name);
    return;
  }
  if (add_memory(heap, heapstart, heapsize) == QM_OK) add_range(heap, (uintptr_t)heapstart, heapsize);
}

void mm_extend(struct mm_heap_s* heap, void* mem, size_t size, int region) {
  DEBUGASSERT(region >= 0 && region < heap->region_count && heap->regions[region].end == (uintptr_t)mem);
  if (add_memory(heap, mem, size) == QM_OK) heap->regions[region].end += size;
}

void* mm_brkaddr(struct mm_heap_s* heap, int region) {
  DEBUGASSERT(region >= 0 && region < CONFIG_MM_REGIONS);
  return (void*)heap->regions[region].end;
}

bool mm_heapmember(struct mm_heap_s* heap, void* mem) {
  const uintptr_t address = (uintptr_t)mem;
  for (int i = 0; i < heap->region_count; ++i) {
    if (address >= heap->regions[i].start && address < heap->regions[i].end) return true;
  }
  return false;
}

/* ---- blocks -------------------------------------------------------------------------------------------------------- */

static bool enter(void) {
  const bool in_handler = up_interrupt_context();
  bring_online();
  if (in_handler) qm_nuttx_enter_handler();
  return in_handler;
}

static void leave(bool in_handler) {
  if (in_handler) qm_nuttx_leave_handler();
}

static void give_back(struct mm_heap_s* heap, void* mem) {
#if defined(CONFIG_MM_FILL_ALLOCATIONS)
  (void)memset(mem, MM_FREE_MAGIC, mm_malloc_size(heap, mem));
#endif
  if (heap->arena == NULL) {
    qm_free(mem);
  } else if (!qm_nuttx_give_back(heap->arena, mem)) {
    qm_nuttx_tell("a free of what is no block", mem);
  }
}

/* Whether the running task gives up its processor: the next task is already the current one, but does not run yet. */
static bool is_switching(void) { return !up_interrupt_context() && nxsched_gettid() < 0; }

static void delay(struct mm_heap_s* heap, struct delayed* block) {
  const irqstate_t before = up_irq_save();
  block->next = heap->delayed[up_this_cpu()];
  heap->delayed[up_this_cpu()] = block;
  up_irq_restore(before);
}

static void free_delayed(struct mm_heap_s* heap) {
  if (heap->delayed[up_this_cpu()] == NULL || is_switching()) return; /* may be outdated: another call frees them */
  const irqstate_t before = up_irq_save();
  struct delayed* block = heap->delayed[up_this_cpu()];
  heap->delayed[up_this_cpu()] = NULL;
  up_irq_restore(before);
  while (block != NULL) {
    struct delayed* const next = block->next;
    give_back(heap, block);
    block = next;
  }
}

BOOKS static void* take(struct mm_heap_s* heap, size_t alignment, size_t size) {
  const bool in_handler = enter();
  if (!in_handler) free_delayed(heap);
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  void* block;
  if (heap->arena != NULL) {
    block = qm_nuttx_take(heap->arena, alignment, size);
  } else {
    block = alignment <= 16 ? qm_malloc(size) : qm_aligned_alloc(alignment, size);
  }
  qm_nuttx_permit_deletion(task);
  leave(in_handler);
#if defined(CONFIG_MM_FILL_ALLOCATIONS)
  if (block != NULL) (void)memset(block, MM_ALLOC_MAGIC, mm_malloc_size(heap, block));
#endif
#if defined(CONFIG_MM_PANIC_ON_FAILURE)
  if (block == NULL) PANIC();
#endif
  return block;
}

BOOKS void* mm_malloc(struct mm_heap_s* heap, size_t size) { return take(heap, MM_ALIGN, size); }

BOOKS void* mm_memalign(struct mm_heap_s* heap, size_t alignment, size_t size) {
  if ((alignment & (alignment - 1)) != 0) return NULL;
  return take(heap, alignment < MM_ALIGN ? MM_ALIGN : alignment, size);
}

BOOKS void* mm_zalloc(struct mm_heap_s* heap, size_t size) {
  void* const block = take(heap, MM_ALIGN, size);
  if (block != NULL) (void)memset(block, 0, size);
  return block;
}

BOOKS void* mm_calloc(struct mm_heap_s* heap, size_t n, size_t elem_size) {
  size_t bytes;
  return __builtin_mul_overflow(n, elem_size, &bytes) ? NULL : mm_zalloc(heap, bytes);
}

size_t mm_malloc_size(struct mm_heap_s* heap, void* mem) {
  return heap->arena == NULL ? qm_usable_size(mem) : qm_nuttx_size_of(heap->arena, mem);
}

void mm_free(struct mm_heap_s* heap, void* mem) {
  if (mem == NULL) return;
  if (is_switching()) {
    delay(heap, mem);
    return;
  }
  const bool in_handler = enter();
  if (!in_handler) free_delayed(heap);
  give_back(heap, mem);
  leave(in_handler);
}

BOOKS static void* move(struct mm_heap_s* heap, void* mem, size_t size) {
  const size_t before = mm_malloc_size(heap, mem);
  if (before == 0) return NULL;
  void* const block = mm_malloc(heap, size);
  if (block == NULL) return NULL;
  (void)memcpy(block, mem, before < size ? before : size);
  mm_free(heap, mem);
  return block;
}

BOOKS void* mm_realloc(struct mm_heap_s* heap, void* oldmem, size_t size) {
  if (oldmem == NULL) return mm_malloc(heap, size);
  if (heap->arena != NULL) return qm_nuttx_resize(heap->arena, oldmem, size) ? oldmem : move(heap, oldmem, size);
#if CONFIG_MM_DEFAULT_ALIGNMENT > 16
  return size <= qm_usable_size(oldmem) ? oldmem : move(heap, oldmem, size);
#else
  const bool in_handler = enter();
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  void* const block = qm_realloc(oldmem, size);
  qm_nuttx_permit_deletion(task);
  leave(in_handler);
  return block;
#endif
}

void mm_uninitialize(struct mm_heap_s* heap) {
  free_delayed(heap);
#if defined(HAVE_PROCFS)
  procfs_unregister_meminfo(&heap->procfs);
#endif
  DEBUGASSERT(heap != &first_heap);
  if (heap == &first_heap) return;
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  qm_nuttx_drop(heap->arena);
  mm_free(&first_heap, heap);
  qm_nuttx_permit_deletion(task);
}

/* ---- figures ------------------------------------------------------------------------------------------------------- */

static qm_nuttx_figures look(struct mm_heap_s* heap) {
  qm_nuttx_figures figures;
  free_delayed(heap);
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  qm_nuttx_look(heap->arena, &figures);
  qm_nuttx_permit_deletion(task);
  return figures;
}

struct mallinfo mm_mallinfo(struct mm_heap_s* heap) {
  struct mallinfo info;
  const qm_nuttx_figures figures = look(heap);
  (void)memset(&info, 0, sizeof info);
  info.arena = (int)figures.total;
  info.ordblks = (int)figures.free_pieces;
  info.aordblks = (int)figures.blocks;
  info.mxordblk = (int)figures.largest;
  info.uordblks = (int)(figures.total - figures.free);
  info.fordblks = (int)figures.free;
  info.usmblks = (int)figures.most_used;
  return info;
}

size_t mm_heapfree(struct mm_heap_s* heap) {
  free_delayed(heap);
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  const size_t bytes = qm_nuttx_free_bytes(heap->arena);
  qm_nuttx_permit_deletion(task);
  return bytes;
}

size_t mm_heapfree_largest(struct mm_heap_s* heap) { return look(heap).largest; }

#if defined(CONFIG_DEBUG_MM)
void mm_checkcorruption(struct mm_heap_s* heap) {
  struct tls_info_s* const task = qm_nuttx_forbid_deletion();
  const bool is_sound = qm_nuttx_is_sound(heap->arena);
  qm_nuttx_permit_deletion(task);
  if (!is_sound) qm_nuttx_fatal("a heap is corrupt: the command verify says where");
}
#endif
