/* For images without hooks of their own. */
#include <FreeRTOS.h>

volatile unsigned char test_masks_to_level;
__attribute__((weak)) void trace_malloc(const void* block, size_t bytes) { (void)block, (void)bytes; }
__attribute__((weak)) void trace_free(const void* block, size_t bytes) { (void)block, (void)bytes; }
__attribute__((weak)) void vApplicationTickHook(void) {}
