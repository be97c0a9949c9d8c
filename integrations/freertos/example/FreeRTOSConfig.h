#ifndef FREERTOS_CONFIG_H
#define FREERTOS_CONFIG_H

/* Settings that heap_qm.c needs. */
#define configSUPPORT_DYNAMIC_ALLOCATION 1
#define configUSE_TRACE_FACILITY 1        /* the number of a task */
#define configRECORD_STACK_HIGH_ADDRESS 1 /* the bounds of its stack */
#define INCLUDE_xTaskGetSchedulerState 1
#define INCLUDE_vTaskDelay 1
#define configUSE_TASK_NOTIFICATIONS 1 /* the console's task */

#if !defined(configTOTAL_HEAP_SIZE)
#define configTOTAL_HEAP_SIZE (1024 * 1024)
#endif
#define configUSE_MALLOC_FAILED_HOOK 1

/* The board. */
#define configMTIME_BASE_ADDRESS 0x0200bff8UL
#define configMTIMECMP_BASE_ADDRESS 0x02004000UL
#define configCPU_CLOCK_HZ 10000000UL /* of mtime */
#define configTICK_RATE_HZ 1000

#define configUSE_PREEMPTION 1
#define configUSE_TIME_SLICING 1
#define configMAX_PRIORITIES 5
#define configMINIMAL_STACK_SIZE 256
#define configMAX_TASK_NAME_LEN 16
#define configTICK_TYPE_WIDTH_IN_BITS TICK_TYPE_WIDTH_32_BITS
#define configUSE_IDLE_HOOK 0
#define configCHECK_FOR_STACK_OVERFLOW 2
#if !defined(configUSE_TICK_HOOK)
#define configUSE_TICK_HOOK 0
#endif

#define configUSE_TIMERS 1
#define configTIMER_TASK_PRIORITY 4
#define configTIMER_QUEUE_LENGTH 8
#define configTIMER_TASK_STACK_DEPTH 512
#define configUSE_STREAM_BUFFERS 1
#define configUSE_EVENT_GROUPS 1
#define configUSE_MUTEXES 1
#define configUSE_COUNTING_SEMAPHORES 1
#define INCLUDE_vTaskDelete 1
#define INCLUDE_vTaskSuspend 1
#define INCLUDE_uxTaskGetStackHighWaterMark 1

#if !defined(__ASSEMBLER__)
void board_stop(const char* reason);
#endif
#define board_text(line) board_text_of(line)
#define board_text_of(line) #line
#define configASSERT(condition)                                                                           \
  do {                                                                                                    \
    if (!(condition)) board_stop("assertion failed: " __FILE__ ":" board_text(__LINE__) ": " #condition); \
  } while (0)

#if defined(FIRMWARE_CONFIG)
#include FIRMWARE_CONFIG
#endif

#endif
