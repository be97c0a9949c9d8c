#ifndef QM_QM_H
#define QM_QM_H
/* Quartermaster for C (C99) and, unchanged, for C++: arenas, caches and the heap. One allocator a program; what is made here
 * and what is made through the C++ headers is the same, an arena may be imported from here and a cache named there.
 *
 *     static unsigned char ram[1 << 20];
 *     qm_init(ram, sizeof ram);
 *     qm_cache *packets = qm_cache_create("packet", 512, 64, 0, NULL, NULL, NULL, NULL);
 *     void *packet = qm_cache_alloc(packets, 0);
 *     qm_cache_free(packets, packet);
 *
 * Results. A function that can be refused returns 0 or a negative qm_status. Addresses of arenas are uintptr_t, 0 is failure;
 * pointers are NULL. Nothing here sets errno, prints or stops the program for want of memory.
 *
 * Bad arguments and calls before qm_init() get such a result too: a NULL cache or arena has nothing and is QM_INVALID, only
 * qm_cache_free() does not look whether its cache is NULL. A cache or an arena is used up to its destroy and no longer.
 *
 * Context. Allocating and freeing: any hart that was attached, any interrupt level. Creating, destroying, reaping: where the
 * caller may wait for other harts - interrupts enabled, no allocator lock held, no handler - or on the only hart.
 *
 * Call sites. What allocates has a second form, `..._at`, whose first argument says where in the source: QM_ALLOC() of
 * <qm/call_site.h> calls it in a build with QM_CALL_SITES, and the first form in any other.
 *
 * Tracing has its own header, <qm/trace/trace.h>. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <qm/call_site.h>

#ifdef __cplusplus
namespace qm {
class Arena;
class Cache;
}  // namespace qm
typedef qm::Arena qm_arena;
typedef qm::Cache qm_cache;
#define QM_NOEXCEPT noexcept
extern "C" {
#else
typedef struct qm_arena qm_arena;
typedef struct qm_cache qm_cache;
#define QM_NOEXCEPT
#endif

/* Why something was refused; nothing has changed then. */
typedef enum qm_status {
  QM_OK = 0,
  QM_INVALID =
      -1, /* an argument that can never be right: size 0, an alignment that is no power of two, an overflow, a name */
  QM_DUPLICATE = -2, /* an arena or a cache has the name */
  QM_OVERLAP = -3,   /* the range overlaps what the arena has */
  QM_NO_MEMORY = -4,
  QM_BUSY = -5,      /* still in use; or set up already */
  QM_NOT_FOUND = -6, /* nothing of that name, nothing allocated at that address */
  QM_MISMATCH = -7,  /* allocated, but with another size */
  QM_TIMED_OUT = -8, /* a hart did not answer in time */
  QM_UNSAFE = -9,    /* not in this context: see above */
  QM_REFUSED = -10,  /* the cache's flags forbid it */
  QM_ABORTED = -11
} qm_status;

/* Returns "QM_OK", "QM_INVALID", ...; "unknown status" for what is none. Context: any. */
const char* qm_status_name(qm_status status) QM_NOEXCEPT;

/* ---- the whole ---------------------------------------------------------------------------------------------------- */

/* Sets the allocator up over @bytes of memory at @ram, for as many harts as the port has at most, and attaches the calling
 * hart as qm_attach_hart() does.
 * Returns QM_INVALID for less than 2 whole pages (of 4096 bytes), NULL, or a range that wraps; QM_NO_MEMORY; QM_BUSY if it is
 * set up already. Another call may succeed then. Context: one hart, before any other call. */
qm_status qm_init(void* ram, size_t bytes) QM_NOEXCEPT;

/* Adds a range of memory, however far from the first.
 * Returns QM_INVALID (before qm_init(), less than a page, NULL, a range that wraps), QM_OVERLAP, QM_NO_MEMORY; nothing has
 * changed then.
 * Context: one hart at a time. */
qm_status qm_add_memory(void* ram, size_t bytes) QM_NOEXCEPT;

/* Makes the calling hart known: on each hart but the one that called qm_init(), once, before it allocates.
 * Returns QM_INVALID before qm_init(), and if the port numbers the hart higher than it says harts can be. */
qm_status qm_attach_hart(void) QM_NOEXCEPT;

/* Takes the calling hart out: what it has idle goes to the others. Nothing may allocate on it until it is attached again.
 * Returns as qm_attach_hart(). */
qm_status qm_detach_hart(void) QM_NOEXCEPT;

/* Gives all idle memory back to the base arena. Returns by how many bytes that has more. */
size_t qm_reclaim(void) QM_NOEXCEPT;

/* The arena of all memory, from which caches draw unless they name a source, and one of pages with quantum caches over it; NULL
 * before qm_init(). */
qm_arena* qm_base_arena(void) QM_NOEXCEPT;
qm_arena* qm_page_arena(void) QM_NOEXCEPT;

/* Forgets everything, for a test that sets up anew; after qm_trace_shutdown(), where there is a trace. Memory still in use stays where
 * it is and must not be freed. Context: one hart, no other attached. */
void qm_shutdown(void) QM_NOEXCEPT;

/* What a port owes the allocator, for start code and traps in C. qm_on_ipi(): for each interrupt between harts, on the hart that
 * got it, interrupts masked, after its pending bit was cleared. qm_trap_enter() and qm_trap_leave(): round every interrupt handler, so
 * that the allocator knows that it may not wait; interrupts masked. */
void qm_on_ipi(void) QM_NOEXCEPT;
void qm_trap_enter(void) QM_NOEXCEPT;
void qm_trap_leave(void) QM_NOEXCEPT;

/* ---- misuse ------------------------------------------------------------------------------------------------------- */

/* What was done wrong; the last four are found by a checking build alone, but for QM_MISUSE_OVERFLOW and _WRITE_AFTER_FREE of blocks. */
typedef enum qm_misuse {
  QM_MISUSE_NULL,
  QM_MISUSE_DOUBLE_FREE,
  QM_MISUSE_INTERIOR, /* the address lies inside an object, not at its start */
  QM_MISUSE_WRONG_CACHE,
  QM_MISUSE_FOREIGN, /* an address that is no cache's */
  QM_MISUSE_AFTER_DESTROY,
  QM_MISUSE_WRONG_SIZE,
  QM_MISUSE_OVERFLOW,
  QM_MISUSE_WRITE_AFTER_FREE,
  QM_MISUSE_LEAK, /* a destroy was refused: @object is out, one of @count */
  QM_MISUSE_TOO_LARGE
} qm_misuse;

/* Valid during the call. */
typedef struct qm_misuse_report {
  qm_misuse kind;
  const char* what; /* a few words that follow the address: "is free already" */
  qm_cache* cache;  /* NULL: none of the heap's; after its destroy not to be used */
  qm_arena* arena;  /* whose block it is, where it is no cache's object */
  qm_cache* owner;  /* of QM_MISUSE_WRONG_CACHE: whose object it is */
  void* object;     /* where it starts; else the address as it was given */
  size_t offset;    /* of the address, or of the first damaged byte, in the object */
  size_t count;     /* objects out, or bytes asked for */
} qm_misuse_report;
typedef void (*qm_misuse_handler)(const qm_misuse_report* report);

/* Has @handler called for each misuse, after it was counted; NULL: nobody. It must not call the allocator, and runs in the context of
 * the call that was wrong, interrupts masked perhaps. Context: any. */
void qm_set_misuse_handler(qm_misuse_handler handler) QM_NOEXCEPT;

/* ---- arenas: ranges of integers, never touched --------------------------------------------------------------------- */

/* How a free range is chosen; every policy finds one whenever one is large enough. */
typedef uint8_t qm_policy;
#define QM_INSTANT_FIT ((qm_policy)0) /* constant time; the best fit where that finds nothing */
#define QM_BEST_FIT ((qm_policy)1)    /* the smallest that fits */
#define QM_NEXT_FIT ((qm_policy)2)    /* the next one above the last: puts off reuse, for identifiers */

/* Draws @size, a multiple of the source's quantum, from @source (the arena itself, if it has none). Returns 0 if it cannot. */
typedef uintptr_t (*qm_import)(qm_arena* source, size_t size, qm_policy policy);
/* Gives back exactly what an import returned. */
typedef void (*qm_release)(qm_arena* source, uintptr_t address, size_t size);

/* Makes an arena.
 *   name        1 to 31 characters of A-Z a-z 0-9 _ . - ; unique; kept, not copied: lives as long as what it names
 *   base, size  its first range, as qm_arena_add() takes it; size 0: none yet. Not with a source
 *   quantum     unit of all sizes and addresses: any number above 0
 *   import      NULL: qm_arena_alloc() of the source. Without a source: called with the arena itself
 *   release     NULL: qm_arena_free() of the source; with an import of one's own, spans are kept for ever then
 *   source      where spans are imported from, or NULL
 *   qcache_max  sizes up to it, a multiple of the quantum and at most 16 times it, are served by caches `<name>_<size>`; 0: none
 * Returns NULL if an argument is wrong, the name is taken, or there is no memory; the arena's structure comes from the heap. */
qm_arena* qm_arena_create(const char* name, uintptr_t base, size_t size, size_t quantum, qm_import import,
                          qm_release release, qm_arena* source, size_t qcache_max) QM_NOEXCEPT;

/* Adds [base, base + size), less partial quanta at both ends and the value 0.
 * Returns QM_INVALID if nothing is left or the end does not fit a word, QM_OVERLAP, QM_NO_MEMORY. */
qm_status qm_arena_add(qm_arena* arena, uintptr_t base, size_t size) QM_NOEXCEPT;

/* Takes @size, rounded up to the quantum. Returns 0 for size 0, for one that cannot be rounded, and if neither the arena nor its
 * source has it. Give it back with qm_arena_free(). */
uintptr_t qm_arena_alloc(qm_arena* arena, size_t size, qm_policy policy) QM_NOEXCEPT;

/* Gives back what qm_arena_alloc() returned; 0 is ignored. Returns QM_NOT_FOUND or QM_MISMATCH if it was not taken like that; but
 * of sizes that caches serve, what one has in a magazine counts as taken: a second free of it is QM_NOT_FOUND if no other free or
 * allocation of that size came between on this hart, and else QM_OK, and counted as misuse when it comes to its slab. */
qm_status qm_arena_free(qm_arena* arena, uintptr_t address, size_t size) QM_NOEXCEPT;

/* Takes @size at an address a with
 *   a % align == phase           align a power of two, phase below it; align 0 stands for 1
 *   no multiple of nocross inside [a, a + size)     nocross a power of two; 0: none
 *   a >= min, a + size <= max    max 0: no bound
 * the lowest such (with QM_NEXT_FIT: the next above the last). Returns 0 if there is none, also not by an import, and for a
 * constraint that nothing can meet. Give it back with qm_arena_xfree(). */
uintptr_t qm_arena_xalloc(qm_arena* arena, size_t size, size_t align, size_t phase, size_t nocross, uintptr_t min,
                          uintptr_t max, qm_policy policy) QM_NOEXCEPT;
qm_status qm_arena_xfree(qm_arena* arena, uintptr_t address, size_t size) QM_NOEXCEPT;

/* Gives back every span and what qm_arena_create() took; NULL is ignored.
 * Returns QM_BUSY, and nothing has happened, while something of it is allocated or somebody imports from it; QM_INVALID for an
 * arena that qm_arena_create() has not made; QM_NOT_FOUND for what is no arena, or none any more. */
qm_status qm_arena_destroy(qm_arena* arena) QM_NOEXCEPT;

/* The sum of all ranges and imported spans, and what of it is not allocated. What quantum caches hold counts as allocated. */
size_t qm_arena_total_bytes(qm_arena* arena) QM_NOEXCEPT;
size_t qm_arena_free_bytes(qm_arena* arena) QM_NOEXCEPT;

/* ---- caches: objects of one size ----------------------------------------------------------------------------------- */

/* What an allocation may do before it fails: the flags word. 0 is QM_RECLAIM where the context allows it, else QM_ATOMIC. */
typedef uint32_t qm_flags;
#define QM_ATOMIC ((qm_flags)1)  /* any context: what the own hart, the depot, the slabs and the source have */
#define QM_RECLAIM ((qm_flags)2) /* also drains the idle memory of all harts, asks the reclaimers, and tries again */
#define QM_WAIT ((qm_flags)3)    /* as QM_RECLAIM, then waits a second for frees */
#define QM_WAIT_MS(ms) ((qm_flags)((qm_flags)3 | ((qm_flags)(ms) << 3))) /* ... or so many milliseconds */
#define QM_QUIET ((qm_flags)4) /* as QM_ATOMIC, and a failure starts nothing and is not reported */

/* Flags of a cache. */
#define QM_NO_TOUCH ((uint32_t)1) /* its objects are numbers, or memory that must not be touched while it is free */
#define QM_NO_TRACE ((uint32_t)2) /* it cannot be traced */

/* Makes an object what users expect. Returns false if it cannot: the allocation goes on as if memory were exhausted. */
typedef bool (*qm_constructor)(void* object, void* priv);
typedef void (*qm_destructor)(void* object, void* priv);

/* Makes a cache.
 *   name        as an arena's
 *   size        of an object, in bytes, or in units of the source
 *   align       a power of two; 0: what suits the size, at most 16
 *   flags       QM_NO_TOUCH, QM_NO_TRACE
 *   source      where slabs come from; NULL: the base arena
 *   ctor, dtor  or NULL. Objects stay constructed while they lie idle in magazines
 *   priv        handed to both
 * Returns NULL if an argument is wrong, the name is taken, there is no memory, or before qm_init(). */
qm_cache* qm_cache_create(const char* name, size_t size, size_t align, uint32_t flags, qm_arena* source,
                          qm_constructor ctor, qm_destructor dtor, void* priv) QM_NOEXCEPT;

/* Takes an object. Returns NULL if after all that @flags allows none is to be had. */
void* qm_cache_alloc(qm_cache* cache, qm_flags flags) QM_NOEXCEPT;

void* qm_cache_alloc_at(const qm_call_site* site, qm_cache* cache, qm_flags flags) QM_NOEXCEPT;

/* Gives an object back; NULL is ignored. @cache is not NULL: this is the fast path, which does not look. Misuse is reported where it
 * is found, and otherwise ignored: a build without QM_CHECKED
 * finds a second free, a foreign pointer and another cache's object when they come to a slab, in a drain at the latest, or, two of
 * them at a time, when a full magazine leaves the hart. What the same hart takes from its magazine again before that is not found. */
void qm_cache_free(qm_cache* cache, void* object) QM_NOEXCEPT;

/* Takes up to @count objects. Returns how many; fewer iff the next single allocation would have failed. */
size_t qm_cache_alloc_bulk(qm_cache* cache, void** objects, size_t count, qm_flags flags) QM_NOEXCEPT;
size_t qm_cache_alloc_bulk_at(const qm_call_site* site, qm_cache* cache, void** objects, size_t count,
                              qm_flags flags) QM_NOEXCEPT;
void qm_cache_free_bulk(qm_cache* cache, void* const* objects, size_t count) QM_NOEXCEPT;

/* Keeps @count objects ready, so that as many QM_ATOMIC allocations cannot fail. Returns QM_NO_MEMORY, QM_REFUSED or QM_INVALID. */
qm_status qm_cache_reserve(qm_cache* cache, size_t count) QM_NOEXCEPT;

/* Gives the cache's idle memory back to its source. Returns the bytes. */
size_t qm_cache_reap(qm_cache* cache) QM_NOEXCEPT;

/* Gives back all that the cache took; NULL is ignored. Returns QM_BUSY, and nothing is freed, while objects are out; QM_UNSAFE;
 * QM_TIMED_OUT; QM_NOT_FOUND for what is no cache, or none any more. */
qm_status qm_cache_destroy(qm_cache* cache) QM_NOEXCEPT;

/* Objects of a cache. Exact while nobody uses it. */
typedef struct qm_cache_counts {
  size_t object_size;  /* bytes, alignment included */
  size_t objects;      /* in all slabs: the sum of the next five */
  size_t in_use;       /* users hold them */
  size_t in_magazines; /* idle with the harts */
  size_t in_depot;     /* idle in the depot */
  size_t reserved;     /* kept ready */
  size_t in_slabs;     /* free in slabs */
  size_t high_water;   /* most out of the slabs at once, idle ones included */
  size_t failures;     /* allocations that returned NULL */
  size_t misuses;      /* frees that were refused */
  size_t slabs;
  size_t slab_bytes; /* of each */
} qm_cache_counts;
void qm_cache_stats(qm_cache* cache, qm_cache_counts* counts) QM_NOEXCEPT;

/* ---- the heap ------------------------------------------------------------------------------------------------------ */

/* Blocks are aligned to 16 bytes; size 0 gives a block of its own; at most 15 bytes or an eighth of a block is waste. They return
 * NULL if no memory is left or the size (the product) does not fit a word. */
void* qm_malloc(size_t size) QM_NOEXCEPT;
void* qm_calloc(size_t count, size_t size) QM_NOEXCEPT;
/* In place where possible; the old block is intact if NULL is returned. block NULL allocates; size 0 counts as 1. */
void* qm_realloc(void* block, size_t size) QM_NOEXCEPT;
/* NULL also if @alignment is no power of two. @size need not be a multiple of it. */
void* qm_aligned_alloc(size_t alignment, size_t size) QM_NOEXCEPT;
void* qm_malloc_at(const qm_call_site* site, size_t size) QM_NOEXCEPT;
void* qm_calloc_at(const qm_call_site* site, size_t count, size_t size) QM_NOEXCEPT;
void* qm_realloc_at(const qm_call_site* site, void* block, size_t size) QM_NOEXCEPT;
void* qm_aligned_alloc_at(const qm_call_site* site, size_t alignment, size_t size) QM_NOEXCEPT;
/* NULL is ignored; what is no block is reported and ignored. */
void qm_free(void* block) QM_NOEXCEPT;
/* As qm_free(), and reports a size that is not the one asked for in the last qm_malloc(), qm_calloc() or qm_realloc(). */
void qm_free_sized(void* block, size_t size) QM_NOEXCEPT;
/* Bytes of the block that may be used; 0 for NULL and what is no block. */
size_t qm_usable_size(const void* block) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
