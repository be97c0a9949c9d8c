/* The kernel's heap over Quartermaster: a file for FREERTOS_HEAP in place of heap_1.c to heap_5.c. The guide is
 * docs/freertos.md. This file also has the kernel's side of the allocator's port: the running task's name and stack,
 * time, and a wait.
 *
 *     pvPortMalloc()   suspend the scheduler -> qm_malloc() with the context's wait policy -> count -> resume
 *     vPortFree()      suspend the scheduler -> count -> qm_free() -> resume
 *
 * Interrupts stay enabled except in the allocator's short masked sections. While the scheduler is suspended, no task is
 * preempted or deleted during an operation. In an interrupt handler, and if the caller has suspended the scheduler, an
 * allocation without free memory fails at once and reclaims no idle memory.
 *
 * The figures count blocks: the free bytes are the memory at the start minus the usable bytes of all live blocks. They
 * change in one masked section, in which traceMALLOC() and traceFREE() are called. */
#include <string.h>

#define MPU_WRAPPERS_INCLUDED_FROM_API_FILE
#include "FreeRTOS.h"
#include "task.h"
#undef MPU_WRAPPERS_INCLUDED_FROM_API_FILE

#include <qm_freertos.h>

#include "src/bridge.h"

#if (configSUPPORT_DYNAMIC_ALLOCATION == 0)
#error "heap_qm.c is of no use with configSUPPORT_DYNAMIC_ALLOCATION 0"
#endif
#if (configUSE_TRACE_FACILITY == 0) || (configRECORD_STACK_HIGH_ADDRESS == 0) || \
    (INCLUDE_xTaskGetSchedulerState == 0) || (INCLUDE_vTaskDelay == 0)
#error \
    "heap_qm.c needs configUSE_TRACE_FACILITY, configRECORD_STACK_HIGH_ADDRESS, INCLUDE_xTaskGetSchedulerState and INCLUDE_vTaskDelay 1: to find the running task's stack, and to wait"
#endif
#if (configNUMBER_OF_CORES > 1)
#error "heap_qm.c is for one core"
#endif
#ifndef configHEAP_CLEAR_MEMORY_ON_FREE
#define configHEAP_CLEAR_MEMORY_ON_FREE 0
#endif

/* One region, as in heap_1.c to heap_4.c. Without configTOTAL_HEAP_SIZE, the regions of vPortDefineHeapRegions(), as in
 * heap_5.c. */
#if defined(configTOTAL_HEAP_SIZE)
#if (configAPPLICATION_ALLOCATED_HEAP == 1)
extern uint8_t ucHeap[configTOTAL_HEAP_SIZE];
#else
static uint8_t ucHeap[configTOTAL_HEAP_SIZE] __attribute__((aligned(16)));
#endif
#endif

/* The stack of interrupts, in the kernel's RISC-V port. */
extern const StackType_t xISRStackTop;
/* The largest part of it that main() may use, in bytes. */
#define MOST_ISR_STACK 65536u

static qm_status status = QM_UNSAFE;
static size_t free_bytes, least_free_bytes, allocations, frees, refused;
static bool suspended_here; /* an allocation has suspended the scheduler */
volatile uint8_t qm_freertos_in_section;
const char* volatile qm_freertos_reason;

/* ---- the running context ----------------------------------------------------------------------------------------- */

enum context { IN_MAIN, IN_TASK, IN_HANDLER };

/* Returns the running context. Sets @task unless it is main(). Complexity: about 60 instructions. */
static enum context running(TaskStatus_t* task, BaseType_t scheduler) {
  if (scheduler == taskSCHEDULER_NOT_STARTED) return IN_MAIN;
  vTaskGetInfo(NULL, task, pdFALSE, eRunning);
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  return here >= (uintptr_t)task->pxStackBase && here <= (uintptr_t)task->pxEndOfStack ? IN_TASK : IN_HANDLER;
}

uint32_t qm_freertos_context_key(void) {
  TaskStatus_t task;
  return running(&task, xTaskGetSchedulerState()) == IN_TASK ? (uint32_t)task.xTaskNumber : 0;
}

static size_t put(char* to, size_t most, size_t at, const char* text) {
  for (; *text != 0 && at < most; ++text) to[at++] = *text;
  return at;
}

size_t qm_freertos_context_label(char* label, size_t most) {
  TaskStatus_t task;
  switch (running(&task, xTaskGetSchedulerState())) {
    case IN_MAIN: return put(label, most, 0, "boot");
    case IN_TASK: return put(label, most, put(label, most, 0, "task "), task.pcTaskName);
    default: return put(label, most, 0, "isr");
  }
}

uintptr_t qm_freertos_stack_bounds(uintptr_t frame, uintptr_t* low) {
  TaskStatus_t task;
  if (running(&task, xTaskGetSchedulerState()) == IN_TASK) {
    *low = (uintptr_t)task.pxStackBase;
    return (uintptr_t)task.pxEndOfStack;
  }
  if (frame > xISRStackTop || xISRStackTop - frame > MOST_ISR_STACK) return 0;
  *low = frame - 2 * sizeof(uintptr_t);
  return xISRStackTop;
}

/* ---- time and waits ------------------------------------------------------------------------------------------------ */

uint64_t qm_freertos_ticks(void) {
#if (configMTIME_BASE_ADDRESS != 0)
  const volatile uint32_t* const mtime = (const volatile uint32_t*)(uintptr_t)(configMTIME_BASE_ADDRESS);
  uint32_t high, low;
  do {
    high = mtime[1];
    low = mtime[0];
  } while (high != mtime[1]);
  return (uint64_t)high << 32 | low;
#else
  return xTaskGetTickCount();
#endif
}

uint64_t qm_freertos_tick_rate(void) {
#if (configMTIME_BASE_ADDRESS != 0)
  return configCPU_CLOCK_HZ;
#else
  return configTICK_RATE_HZ;
#endif
}

/* Lets other tasks run for a tick. If it is called in a masked section of the allocator, it ends that section and
 * begins another after the wait. */
static void delay(void) {
  const bool inside = qm_freertos_in_section != 0;
  qm_freertos_in_section = 0;
  vTaskDelay(1);
  if (inside) (void)qm_freertos_mask();
}

/* Called while the allocator waits for a task that was preempted during its reclaim. The caller holds no lock. */
void qm_freertos_wait(void) {
  const bool suspended = suspended_here;
  TaskStatus_t task;
  if (suspended) {
    suspended_here = false;
    (void)xTaskResumeAll();
  }
  const BaseType_t scheduler = xTaskGetSchedulerState();
  if (scheduler == taskSCHEDULER_RUNNING && running(&task, scheduler) == IN_TASK) delay();
  if (suspended) {
    vTaskSuspendAll();
    suspended_here = true;
  }
}

__attribute__((weak)) void qm_freertos_fatal(const char* reason) {
  qm_freertos_reason = reason;
  portDISABLE_INTERRUPTS();
  for (;;) __asm volatile("" : : : "memory");
}

/* ---- the heap ------------------------------------------------------------------------------------------------------ */

static void begin(void) {
  free_bytes = least_free_bytes = qm_freertos_free_bytes();
  status = QM_OK;
}

static void set_up(void) {
#if defined(configTOTAL_HEAP_SIZE)
  qm_freertos_check_hart_locals();
  status = qm_init(ucHeap, sizeof ucHeap);
  if (status == QM_OK) begin();
#endif
}

static bool is_set_up(void) {
  if (status == QM_UNSAFE) set_up();
  return status == QM_OK;
}

void vPortInitialiseBlocks(void) { (void)is_set_up(); }

void vPortDefineHeapRegions(const HeapRegion_t* const pxHeapRegions) {
  const HeapRegion_t* region = pxHeapRegions;
  configASSERT(status != QM_OK);
  qm_freertos_check_hart_locals();
  for (status = QM_INVALID; region->xSizeInBytes != 0; ++region) {
    status = region == pxHeapRegions ? qm_init(region->pucStartAddress, region->xSizeInBytes)
                                     : qm_add_memory(region->pucStartAddress, region->xSizeInBytes);
    if (status != QM_OK) return;
  }
  if (status == QM_OK) begin();
}

void vPortHeapResetState(void) {
  if (status == QM_OK) qm_freertos_shutdown();
  status = QM_UNSAFE;
  free_bytes = least_free_bytes = allocations = frees = 0;
}

qm_status qm_freertos_status(void) { return status; }
size_t qm_freertos_refused(void) { return refused; }

/* Whether the caller has interrupted a masked section of the allocator; then it must not call the allocator. */
static bool is_refused(void) {
  if (qm_freertos_in_section == 0) return false;
  ++refused;
  return true;
}

/* The context of a call of the heap, and whether the call resumes the scheduler at its end. */
struct call {
  enum context context;
  bool suspends; /* this call has suspended the scheduler */
};

/* Returns the same as running(). It remembers the last task's stack and does not call running() again on that stack,
 * because no handler runs on a task's stack. */
static enum context from_where(BaseType_t scheduler) {
  static volatile uintptr_t low, high;
  const uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (here >= low && here <= high) return IN_TASK;
  TaskStatus_t task;
  const enum context context = running(&task, scheduler);
  if (context == IN_TASK) {
    const uintptr_t before = qm_freertos_mask();
    low = (uintptr_t)task.pxStackBase;
    high = (uintptr_t)task.pxEndOfStack;
    qm_freertos_unmask(before);
  }
  return context;
}

static struct call enter(void) {
  const BaseType_t scheduler = xTaskGetSchedulerState();
  const struct call call = {from_where(scheduler), scheduler == taskSCHEDULER_RUNNING};
  if (call.context == IN_HANDLER) {
    qm_freertos_enter_handler();
  } else if (call.suspends) {
    vTaskSuspendAll();
    suspended_here = true;
  }
  return call;
}

static void leave(struct call call) {
  if (call.context == IN_HANDLER) {
    qm_freertos_leave_handler();
  } else if (call.suspends) {
    suspended_here = false;
    (void)xTaskResumeAll();
  }
}

static void* take(size_t size, struct call call) {
  const bool may_reclaim = call.context == IN_MAIN || (call.context == IN_TASK && call.suspends);
  void* const block = qm_freertos_allocate(size, may_reclaim ? 0 : QM_ATOMIC);
  const uintptr_t before = qm_freertos_mask();
  const size_t bytes = block != NULL ? qm_usable_size(block) : 0;
  free_bytes -= bytes;
  if (free_bytes < least_free_bytes) least_free_bytes = free_bytes;
  if (block != NULL) ++allocations;
  traceMALLOC(block, bytes);
  qm_freertos_unmask(before);
  return block;
}

static void* allocate(size_t size) {
  if (is_refused()) return NULL;
  const bool possible = is_set_up() && size != 0;
  const struct call call = enter();
  void* const block = possible ? take(size, call) : NULL;
  leave(call);
#if (configUSE_MALLOC_FAILED_HOOK == 1)
  if (block == NULL && call.context != IN_HANDLER) vApplicationMallocFailedHook();
#endif
  return block;
}

void* pvPortMalloc(size_t xWantedSize) { return allocate(xWantedSize); }

void* pvPortCalloc(size_t xNum, size_t xSize) {
  size_t bytes;
  if (__builtin_mul_overflow(xNum, xSize, &bytes)) return NULL;
  void* const block = allocate(bytes);
  if (block != NULL) (void)memset(block, 0, bytes);
  return block;
}

void vPortFree(void* pv) {
  if (pv == NULL || is_refused()) return;
  const struct call call = enter();
  const uintptr_t before = qm_freertos_mask();
  const size_t bytes = qm_usable_size(pv);
  if (bytes != 0) { /* else it is no block, and qm_free() reports it */
    free_bytes += bytes;
    ++frees;
    traceFREE(pv, bytes);
  }
  qm_freertos_unmask(before);
#if (configHEAP_CLEAR_MEMORY_ON_FREE == 1)
  (void)memset(pv, 0, bytes);
#endif
  qm_free(pv);
  leave(call);
}

size_t xPortGetFreeHeapSize(void) { return free_bytes; }

size_t xPortGetMinimumEverFreeHeapSize(void) { return least_free_bytes; }

void xPortResetHeapMinimumEverFreeHeapSize(void) {
  const uintptr_t before = qm_freertos_mask();
  least_free_bytes = free_bytes;
  qm_freertos_unmask(before);
}

void vPortGetHeapStats(HeapStats_t* pxHeapStats) {
  qm_freertos_free_memory memory = {0, SIZE_MAX, 0};
  if (status == QM_OK) qm_freertos_look_at_free_memory(&memory);
  pxHeapStats->xSizeOfLargestFreeBlockInBytes = memory.largest;
  pxHeapStats->xSizeOfSmallestFreeBlockInBytes = memory.smallest;
  pxHeapStats->xNumberOfFreeBlocks = memory.count;
  const uintptr_t before = qm_freertos_mask();
  pxHeapStats->xAvailableHeapSpaceInBytes = free_bytes;
  pxHeapStats->xMinimumEverFreeBytesRemaining = least_free_bytes;
  pxHeapStats->xNumberOfSuccessfulAllocations = allocations;
  pxHeapStats->xNumberOfSuccessfulFrees = frees;
  qm_freertos_unmask(before);
}

/* ---- frame pointers ------------------------------------------------------------------------------------------------ */

/* A function with a frame pointer sets s0 = sp + n in its first instructions: addi s0, sp, n, or c.addi4spn. */
bool qm_freertos_has_frames(void) {
  const uint16_t* code = (const uint16_t*)(uintptr_t)&xTaskCreate;
  for (unsigned parcel = 0; parcel < 32; ++parcel) {
    const uint16_t low = code[parcel];
    if (low != 0 && (low & 0xe01f) == 0) return true;
    if (low == 0x0413 && (code[parcel + 1] & 0xf) == 1) return true;
    if ((low & 3) == 3) ++parcel;
  }
  return false;
}
