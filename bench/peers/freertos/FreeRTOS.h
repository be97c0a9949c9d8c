#pragma once
/* The parts of a FreeRTOS kernel that heap_4.c needs: one task, blocks aligned to 16 bytes, and a pool that is set
 * at run time. */

#include <stddef.h>
#include <stdint.h>

/* The pool, which heap_4.c declares as an array; peers.cpp sets it before the first allocation. */
extern uint8_t* ucHeap;
extern size_t qm_heap_4_bytes;

#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configAPPLICATION_ALLOCATED_HEAP 1
#define configTOTAL_HEAP_SIZE qm_heap_4_bytes
#define configUSE_MALLOC_FAILED_HOOK 0
#define configHEAP_CLEAR_MEMORY_ON_FREE 0
#define configENABLE_HEAP_PROTECTOR 0
#define configASSERT(condition)
#define mtCOVERAGE_TEST_MARKER()
#define traceMALLOC(block, bytes)
#define traceFREE(block, bytes)
#define PRIVILEGED_DATA
#define PRIVILEGED_FUNCTION

#define portBYTE_ALIGNMENT 16
#define portBYTE_ALIGNMENT_MASK 15
#define portPOINTER_SIZE_TYPE uintptr_t
#define portMAX_DELAY 0xffffffffU
#define pdFALSE 0
#define pdTRUE 1
typedef long BaseType_t;
typedef unsigned long UBaseType_t;

/* For vPortGetHeapStats(), which is never called. */
typedef struct {
  size_t xAvailableHeapSpaceInBytes;
  size_t xSizeOfLargestFreeBlockInBytes;
  size_t xSizeOfSmallestFreeBlockInBytes;
  size_t xNumberOfFreeBlocks;
  size_t xMinimumEverFreeBytesRemaining;
  size_t xNumberOfSuccessfulAllocations;
  size_t xNumberOfSuccessfulFrees;
} HeapStats_t;

void* pvPortMalloc(size_t bytes);
void vPortFree(void* block);
