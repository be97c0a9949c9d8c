#ifndef QM_NUTTX_BRIDGE_H
#define QM_NUTTX_BRIDGE_H
/* Functions of the allocator beyond <qm/qm.h> that mm_qm.c calls; not for applications. */

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Called before and after each call of the heap from an interrupt handler. */
void qm_nuttx_enter_handler(void) QM_NOEXCEPT;
void qm_nuttx_leave_handler(void) QM_NOEXCEPT;

/* Makes @hart take part in broadcasts from here on. */
void qm_nuttx_bring_online(unsigned hart) QM_NOEXCEPT;
/* Called for each IPI, after its pending bit was cleared. */
void qm_nuttx_on_ipi(unsigned hart) QM_NOEXCEPT;

/* Makes the allocator report misuse through qm_nuttx_tell(). */
void qm_nuttx_watch_misuse(void) QM_NOEXCEPT;
void qm_nuttx_tell(const char* what, const void* address) QM_NOEXCEPT;

/* Initializes the trace, in a build that has it. A size of 0 means the default. */
qm_status qm_nuttx_open_trace(size_t stack_bytes, size_t record_bytes) QM_NOEXCEPT;

/* Functions of a heap that is an arena. */
bool qm_nuttx_has_arena(const char* name) QM_NOEXCEPT;
void* qm_nuttx_take(qm_arena* arena, size_t alignment, size_t size) QM_NOEXCEPT;
bool qm_nuttx_give_back(qm_arena* arena, void* block) QM_NOEXCEPT;
size_t qm_nuttx_size_of(qm_arena* arena, const void* block) QM_NOEXCEPT;
bool qm_nuttx_resize(qm_arena* arena, void* block, size_t size) QM_NOEXCEPT;
/* Frees all segments that are allocated from the arena, and the arena. */
void qm_nuttx_drop(qm_arena* arena) QM_NOEXCEPT;

/* Figures of an arena or, for NULL, of the main heap. */
typedef struct qm_nuttx_figures {
  size_t total;
  size_t free;      /* free and idle bytes */
  size_t most_used; /* highest use ever; for the main heap in whole pages */
  size_t largest;   /* largest free segment */
  size_t free_pieces;
  size_t blocks; /* live blocks */
} qm_nuttx_figures;
void qm_nuttx_look(qm_arena* arena, qm_nuttx_figures* figures) QM_NOEXCEPT;
/* Returns only the free bytes, without idle bytes in caches; faster than qm_nuttx_look(). */
size_t qm_nuttx_free_bytes(qm_arena* arena) QM_NOEXCEPT;
typedef void (*qm_nuttx_piece)(const void* start, size_t size, void* priv);
void qm_nuttx_for_each_free(qm_arena* arena, qm_nuttx_piece visit, void* priv) QM_NOEXCEPT;
bool qm_nuttx_is_sound(qm_arena* arena) QM_NOEXCEPT;

/* Runs a line of the console and passes its output to `write`. Returns whether it succeeded. One task at a time. */
bool qm_nuttx_run_line(const char* line, void (*write)(const char* bytes, size_t count)) QM_NOEXCEPT;
/* Lets other tasks run. */
void qm_nuttx_yield(void) QM_NOEXCEPT;
/* Returns the name of the function that contains an address and sets *offset, or returns NULL. */
const char* qm_nuttx_name_of(uintptr_t address, size_t* offset) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
