/* The tests' additions to the kernel's configuration of the example. */
#undef configUSE_TICK_HOOK
#define configUSE_TICK_HOOK 1
#if !defined(__ASSEMBLER__)
#include <stddef.h>
void trace_malloc(const void* block, size_t bytes);
void trace_free(const void* block, size_t bytes);
#define traceMALLOC(block, bytes) trace_malloc(block, bytes)
#define traceFREE(block, bytes) trace_free(block, bytes)
#endif
#if defined(TEST_REGIONS)
#undef configTOTAL_HEAP_SIZE
#endif
