#ifndef QM_QM_H
#define QM_QM_H
/* Quartermaster for C (C99) and, unchanged, for C++: arenas, caches and the heap. A program has one allocator.
 * Arenas and caches created here and those created through the C++ headers are the same: an arena may import from
 * one that C++ created, and a cache may name such an arena as its source.
 *
 *     static unsigned char ram[1 << 20];
 *     qm_init(ram, sizeof ram);
 *     qm_cache *packets = qm_cache_create("packet", 512, 64, 0, NULL, NULL, NULL, NULL);
 *     void *packet = qm_cache_alloc(packets, 0);
 *     qm_cache_free(packets, packet);
 *
 * Results. A function that may refuse a request returns 0 or a negative qm_status. A function that allocates from an
 * arena returns a uintptr_t, 0 if it fails; one that returns a pointer returns NULL if it fails. No function sets
 * errno or prints, and none stops the program if there is no memory.
 *
 * Bad arguments and calls before qm_init() have such results too: a NULL cache or arena holds nothing, and a
 * function with a status returns QM_INVALID for it; a destroy returns QM_OK. Only qm_cache_free() does not check its
 * cache for NULL. A cache or an arena must not be used after its destroy.
 *
 * Context. Allocate, free, reserve, reap: any attached hart, any interrupt level. Create, destroy, quarantine: where
 * the caller may wait for other harts (interrupts enabled, no allocator lock held, not in a handler), or on the only
 * hart. Elsewhere a reap leaves other harts' magazines alone.
 *
 * Call sites. Each function that allocates has a second form, `..._at`, whose first argument is the call site, the
 * place in the source. QM_ALLOC() of <qm/call_site.h> calls this form in a build with QM_CALL_SITES, and the first
 * form in any other.
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

/* Why a request was refused. Unless the function says otherwise, a refused request changes nothing. */
typedef enum qm_status {
  QM_OK = 0,
  QM_INVALID =
      -1, /* an argument that can never be right: size 0, an alignment that is no power of two, an overflow, a name */
  QM_DUPLICATE = -2, /* an arena or a cache has the name */
  QM_OVERLAP = -3,   /* the range overlaps a range of the arena */
  QM_NO_MEMORY = -4,
  QM_BUSY = -5,      /* still in use; or already set up */
  QM_NOT_FOUND = -6, /* no arena or cache of that name, nothing allocated at that address */
  QM_MISMATCH = -7,  /* allocated, but with another size */
  QM_TIMED_OUT = -8, /* a hart did not answer in time */
  QM_UNSAFE = -9,    /* not allowed in this context: see above */
  QM_REFUSED = -10,  /* the cache's flags or the build forbid it */
  QM_ABORTED = -11   /* the caller's abort test returned true */
} qm_status;

/* Returns "QM_OK", "QM_INVALID", ...; "unknown status" for any other value. Context: any. */
const char* qm_status_name(qm_status status) QM_NOEXCEPT;

/* ---- set-up and the whole allocator ------------------------------------------------------------------------------ */

/* Sets up the allocator over @bytes of memory at @ram, for the port's maximum number of harts, and attaches the
 * calling hart as qm_attach_hart() does.
 * Returns
 *   QM_INVALID    NULL, or a range that wraps, or fewer whole pages (QM_PAGE_BYTES, by default 4096) than the
 *                 allocator's own caches need and one more; they need more with more harts
 *   QM_NO_MEMORY  too few pages for the data that the allocator sets up next, or none left for the heap
 *   QM_BUSY       the allocator is set up already
 * After QM_INVALID and QM_NO_MEMORY another call may succeed. Context: one hart, before any other call. */
qm_status qm_init(void* ram, size_t bytes) QM_NOEXCEPT;

/* Adds a range of memory, at any distance from the first.
 * Returns QM_INVALID (before qm_init(), less than a page, NULL, a range that wraps), QM_OVERLAP, QM_NO_MEMORY;
 * nothing has changed then.
 * Context: one hart at a time. */
qm_status qm_add_memory(void* ram, size_t bytes) QM_NOEXCEPT;

/* Attaches the calling hart: call it once on each hart, except the one that called qm_init(), before the hart
 * allocates.
 * Returns QM_INVALID before qm_init(), and if the port gives the hart a number above its maximum. */
qm_status qm_attach_hart(void) QM_NOEXCEPT;

/* Detaches the calling hart: its idle objects become available to the other harts. No code on it may allocate until
 * it is attached again. Returns as qm_attach_hart(). */
qm_status qm_detach_hart(void) QM_NOEXCEPT;

/* Moves idle memory to the base arena. Returns by how many bytes the base arena's free memory has grown. Where
 * the caller may not wait for other harts, the magazines of these keep their objects. */
size_t qm_reclaim(void) QM_NOEXCEPT;

/* qm_base_arena(): the arena of all memory, from which caches allocate slabs unless they name a source.
 * qm_page_arena(): an arena of pages with quantum caches. Both return NULL before qm_init(). */
qm_arena* qm_base_arena(void) QM_NOEXCEPT;
qm_arena* qm_page_arena(void) QM_NOEXCEPT;

/* Resets the allocator, for a test that sets it up again. If there is a trace, call qm_trace_shutdown() first.
 * Memory still in use stays where it is and must not be freed. Context: one hart, no other attached. */
void qm_shutdown(void) QM_NOEXCEPT;

/* Functions that a port's start code and traps in C must call. qm_on_ipi(): for each inter-processor interrupt, on
 * the hart that received it, with interrupts masked, after its pending bit was cleared. qm_trap_enter() and
 * qm_trap_leave(): before and after every interrupt handler, with interrupts masked, so that the allocator knows
 * that it may not wait. */
void qm_on_ipi(void) QM_NOEXCEPT;
void qm_trap_enter(void) QM_NOEXCEPT;
void qm_trap_leave(void) QM_NOEXCEPT;

/* ---- misuse ------------------------------------------------------------------------------------------------------- */

/* The kind of misuse. Only a build with QM_CHECKED finds QM_MISUSE_LEAK. Other builds find QM_MISUSE_OVERFLOW only in
 * heap blocks that are not objects of a cache, and QM_MISUSE_WRITE_AFTER_FREE only in such blocks, in objects in a
 * quarantine and, without a trap unit (<qm/guards.hpp>), in guarded objects. */
typedef enum qm_misuse {
  QM_MISUSE_NULL,
  QM_MISUSE_DOUBLE_FREE,
  QM_MISUSE_INTERIOR, /* the address lies inside an object, not at its start */
  QM_MISUSE_WRONG_CACHE,
  QM_MISUSE_FOREIGN, /* the address is in no cache */
  QM_MISUSE_AFTER_DESTROY,
  QM_MISUSE_WRONG_SIZE,
  QM_MISUSE_OVERFLOW,
  QM_MISUSE_WRITE_AFTER_FREE,
  QM_MISUSE_LEAK, /* a destroy was refused: @object is in use, one of @count */
  QM_MISUSE_TOO_LARGE,
  QM_MISUSE_OUTSIDE,       /* of guarded samples: an access before or behind the object */
  QM_MISUSE_USE_AFTER_FREE /* of guarded samples */
} qm_misuse;

/* A report; valid during the handler's call. */
typedef struct qm_misuse_report {
  qm_misuse kind;
  const char* what; /* a few words to print after the address: "is free already" */
  qm_cache* cache;  /* NULL: no cache has the address, or it is a guarded block; not valid after the destroy */
  qm_arena* arena;  /* of a heap block that was overwritten, unless it is guarded; else NULL */
  qm_cache* owner;  /* QM_MISUSE_WRONG_CACHE: the cache that has the object */
  void* object;     /* start of the object; if there is none, the address as given */
  size_t offset;    /* from the object's start to the address or first damaged byte; N bytes before it: (size_t)-N */
  size_t count;     /* LEAK: objects in use; TOO_LARGE: bytes requested; a guarded object's bytes */
  void* neighbour;  /* the next block: QM_MISUSE_OVERFLOW of a block, QM_MISUSE_WRITE_AFTER_FREE of a free one */
  uintptr_t pc;     /* of the access to a guarded object; 0: not known */
  int is_write;     /* whether it was a write */
} qm_misuse_report;
typedef void (*qm_misuse_handler)(const qm_misuse_report* report);

/* Sets the handler that is called for each misuse, after the misuse was counted; NULL: none. The handler must not
 * call the allocator. It runs in the context of the call that misused the allocator, perhaps with interrupts masked.
 * Context: any. */
void qm_set_misuse_handler(qm_misuse_handler handler) QM_NOEXCEPT;

/* ---- arenas: ranges of integers; their memory is never accessed -------------------------------------------------- */

/* How a free range is chosen; every policy finds a range if one is large enough. */
typedef uint8_t qm_policy;
#define QM_INSTANT_FIT ((qm_policy)0) /* constant time; best fit if that finds none */
#define QM_BEST_FIT ((qm_policy)1)    /* the smallest range that fits */
#define QM_NEXT_FIT ((qm_policy)2)    /* the next range above the last one allocated: delays reuse, for identifiers */

/* Gets a range of @size from @source, the arena's own address if the arena has no source. @size is a multiple of the
 * source's quantum, @policy that of the allocation. Returns 0 if it cannot. Context: that of the allocation, with no
 * lock of the arena held. */
typedef uintptr_t (*qm_import)(qm_arena* source, size_t size, qm_policy policy);
/* Releases a range that an import returned, with the size that was imported. */
typedef void (*qm_release)(qm_arena* source, uintptr_t address, size_t size);

/* Creates an arena.
 *   name        1 to 31 characters of A-Z a-z 0-9 _ . - ; unique; not copied, so it must live as long as the arena
 *   base, size  first range, as for qm_arena_add(); size 0: none yet. Not with a source
 *   quantum     unit of all sizes and addresses: any number above 0
 *   import      NULL: qm_arena_alloc() of the source. If the arena has no source, import is called with the arena itself
 *   release     NULL: qm_arena_free() of the source; but if import is not NULL, spans are never released
 *   source      the arena from which spans are imported, or NULL
 *   qcache_max  caches `<name>_<size>` serve sizes up to this, a multiple of the quantum, at most 16 times it; 0: none
 * Returns NULL if an argument is wrong, the name is taken, or there is no memory. The arena's structure comes from
 * the heap. */
qm_arena* qm_arena_create(const char* name, uintptr_t base, size_t size, size_t quantum, qm_import import,
                          qm_release release, qm_arena* source, size_t qcache_max) QM_NOEXCEPT;

/* Adds [base, base + size), less partial quanta at both ends and the value 0.
 * Returns QM_INVALID if nothing is left or the end does not fit a word, QM_OVERLAP, QM_NO_MEMORY. */
qm_status qm_arena_add(qm_arena* arena, uintptr_t base, size_t size) QM_NOEXCEPT;

/* Allocates @size, rounded up to the quantum. Returns 0 for size 0, for a size that cannot be rounded, and if
 * neither the arena nor its source has the memory. Free it with qm_arena_free(). */
uintptr_t qm_arena_alloc(qm_arena* arena, size_t size, qm_policy policy) QM_NOEXCEPT;

/* Frees a range that qm_arena_alloc() returned; 0 is ignored. Returns QM_NOT_FOUND or QM_MISMATCH if no such range
 * of that size is allocated. A range that lies idle in a magazine of a quantum cache counts as allocated: a second
 * free of it returns QM_NOT_FOUND if no other free or allocation of that size on this hart came between. Otherwise
 * it returns QM_OK, and the misuse is counted when the range comes to its slab. */
qm_status qm_arena_free(qm_arena* arena, uintptr_t address, size_t size) QM_NOEXCEPT;

/* Allocates @size at an address a with
 *   a % align == phase           align a power of two, phase below it; align 0 stands for 1
 *   no multiple of nocross inside [a, a + size)     nocross a power of two; 0: none
 *   a >= min, a + size <= max    max 0: no bound
 * It chooses the lowest such address; with QM_NEXT_FIT the next one above the last allocation. Returns 0 for
 * constraints that no address meets, and if the arena has no such address and cannot import one. Free it with
 * qm_arena_xfree(). */
uintptr_t qm_arena_xalloc(qm_arena* arena, size_t size, size_t align, size_t phase, size_t nocross, uintptr_t min,
                          uintptr_t max, qm_policy policy) QM_NOEXCEPT;
/* Frees a range that qm_arena_xalloc() returned; 0 is ignored. Returns as qm_arena_free(). */
qm_status qm_arena_xfree(qm_arena* arena, uintptr_t address, size_t size) QM_NOEXCEPT;

/* Destroys an arena: releases every span and frees the memory of qm_arena_create(); NULL is ignored.
 * Returns QM_BUSY, and nothing has changed, while a range of it is allocated, an arena or a cache imports from it, or a
 * report visits it; QM_UNSAFE and QM_TIMED_OUT as for a cache, if it has quantum caches; QM_INVALID for an arena that
 * qm_arena_create() has not made; QM_NOT_FOUND if @arena is not an arena or was destroyed. */
qm_status qm_arena_destroy(qm_arena* arena) QM_NOEXCEPT;

/* The size of all ranges and imported spans, and the part of it that is not allocated. Ranges that quantum caches
 * hold count as allocated. */
size_t qm_arena_total_bytes(qm_arena* arena) QM_NOEXCEPT;
size_t qm_arena_free_bytes(qm_arena* arena) QM_NOEXCEPT;

/* ---- caches: objects of one size ----------------------------------------------------------------------------------- */

/* A slab is memory of the source, cut into objects. A magazine is a hart's stack of free objects; the depot keeps the
 * cache's other magazines. A drain returns the objects of magazines to their slabs, and empty slabs to the source.
 *
 * The flags word of an allocation, its wait policy: what it may do before it fails. 0 is QM_RECLAIM if the context
 * allows it, else QM_ATOMIC. */
typedef uint32_t qm_flags;
#define QM_ATOMIC ((qm_flags)1)  /* any context: uses memory of the own hart, the depot, the slabs and the source */
#define QM_RECLAIM ((qm_flags)2) /* also drains the idle memory of all harts, calls the reclaimers, and retries */
#define QM_WAIT ((qm_flags)3)    /* as QM_RECLAIM, then waits for frees for 1 second */
#define QM_WAIT_MS(ms) ((qm_flags)((qm_flags)3 | ((qm_flags)(ms) << 3))) /* ... or for @ms, 1 to 2^29 - 1 ms */
#define QM_QUIET ((qm_flags)4) /* as QM_ATOMIC, but a failure starts no drain and is not reported */

/* Flags of a cache. */
#define QM_NO_TOUCH ((uint32_t)1)     /* its objects are numbers, or memory that must not be touched while it is free */
#define QM_NO_TRACE ((uint32_t)2)     /* it cannot be traced */
#define QM_NO_POINTERS ((uint32_t)16) /* its objects hold no pointers to others: a leak scan does not read them */

/* Constructs an object when it leaves its slab. Returns false if it cannot: the allocation continues as if memory were
 * exhausted. The destructor runs when the object returns to its slab, perhaps on another hart. */
typedef bool (*qm_constructor)(void* object, void* priv);
typedef void (*qm_destructor)(void* object, void* priv);

/* Creates a cache.
 *   name        as for an arena
 *   size        of an object, in bytes, or in units of the source
 *   align       a power of two; 0: chosen by the size, at most 16
 *   flags       QM_NO_TOUCH, QM_NO_TRACE, QM_NO_POINTERS
 *   source      the arena from which slabs are allocated; NULL: the base arena
 *   ctor, dtor  constructor and destructor, or NULL. Idle objects in magazines stay constructed
 *   priv        passed to both
 * Returns NULL if an argument is wrong, the name is taken, there is no memory, or before qm_init(). */
qm_cache* qm_cache_create(const char* name, size_t size, size_t align, uint32_t flags, qm_arena* source,
                          qm_constructor ctor, qm_destructor dtor, void* priv) QM_NOEXCEPT;

/* Allocates an object. Returns NULL if no object is available after all that @flags allows. */
void* qm_cache_alloc(qm_cache* cache, qm_flags flags) QM_NOEXCEPT;

void* qm_cache_alloc_at(const qm_call_site* site, qm_cache* cache, qm_flags flags) QM_NOEXCEPT;

/* Frees an object. NULL is a misuse without effect. @cache must not be NULL: this is the fast path and does not check
 * it. Misuse is reported when it is found, and otherwise ignored. A build without QM_CHECKED finds a double free, a
 * foreign pointer and another cache's object when they come to a slab, in a drain at the latest; and when a full
 * magazine leaves the hart, which checks two of its objects. It does not find them if the same hart allocates them
 * from its magazine before that. */
void qm_cache_free(qm_cache* cache, void* object) QM_NOEXCEPT;

/* Allocates up to @count objects. Returns the number allocated; fewer iff the next single allocation would have
 * failed. */
size_t qm_cache_alloc_bulk(qm_cache* cache, void** objects, size_t count, qm_flags flags) QM_NOEXCEPT;
size_t qm_cache_alloc_bulk_at(const qm_call_site* site, qm_cache* cache, void** objects, size_t count,
                              qm_flags flags) QM_NOEXCEPT;
void qm_cache_free_bulk(qm_cache* cache, void* const* objects, size_t count) QM_NOEXCEPT;

/* Keeps @count objects in reserve, so that @count QM_ATOMIC allocations cannot fail. Returns QM_NO_MEMORY
 * (memory, the limit, a constructor that failed); QM_REFUSED for a cache without magazines; QM_INVALID for NULL. Unless
 * QM_OK, the reserve is unchanged. Context: any, one call at a time for a cache. */
qm_status qm_cache_reserve(qm_cache* cache, size_t count) QM_NOEXCEPT;

/* Lets the objects freed last, at most @bytes bytes and 65535 objects, wait before they are used again; 0 ends it. Each
 * is filled with 0xa5, unless the cache has a constructor or destructor. A write to it is reported when it leaves, a
 * second free at once (qm_set_misuse_handler()). All leave when memory is exhausted. Each free takes O(object size).
 * One call at a time for a cache. After QM_TIMED_OUT the cache has no quarantine.
 * Returns QM_OK; QM_INVALID if @bytes is less than an object, or for NULL; QM_REFUSED for a cache with QM_NO_TRACE,
 * and a quantum cache; QM_NO_MEMORY for a table of 24 bytes an object (16 on RV32); QM_UNSAFE; QM_TIMED_OUT. */
qm_status qm_cache_quarantine(qm_cache* cache, size_t bytes) QM_NOEXCEPT;

/* Returns the cache's idle memory to its source. Returns the number of bytes. */
size_t qm_cache_reap(qm_cache* cache) QM_NOEXCEPT;

/* Destroys the cache and frees all its memory; NULL is ignored. Returns QM_BUSY while users hold objects, or while a
 * report that lists the caches is at this one; QM_UNSAFE; QM_TIMED_OUT; QM_NOT_FOUND if @cache is not a cache or was
 * destroyed. Unless QM_OK, the cache stays usable. */
qm_status qm_cache_destroy(qm_cache* cache) QM_NOEXCEPT;

/* Numbers of a cache's objects. Exact while no operation on the cache is under way. */
typedef struct qm_cache_counts {
  size_t object_size;  /* bytes, alignment included */
  size_t objects;      /* in all slabs: the sum of the next six */
  size_t in_use;       /* objects that users hold */
  size_t in_magazines; /* idle in the harts' magazines */
  size_t in_depot;     /* idle in the depot */
  size_t reserved;     /* in the reserve */
  size_t quarantined;  /* freed, and waiting in quarantine */
  size_t in_slabs;     /* free in slabs */
  size_t high_water;   /* most objects ever allocated from the slabs at once, idle ones included */
  size_t failures;     /* allocations that returned NULL */
  size_t misuses;      /* frees that were refused, damage, allocations of more bytes than an object has */
  size_t slabs;
  size_t slab_bytes; /* of each */
} qm_cache_counts;
void qm_cache_stats(qm_cache* cache, qm_cache_counts* counts) QM_NOEXCEPT;

/* ---- the heap ------------------------------------------------------------------------------------------------------ */

/* Blocks are aligned to 16 bytes, or to QM_ALIGNMENT. Size 0 returns a block of its own. At most 15 bytes or an
 * eighth of a block is waste. These functions return NULL if no memory is left or the size (the product) does not fit
 * a word. */
void* qm_malloc(size_t size) QM_NOEXCEPT;
void* qm_calloc(size_t count, size_t size) QM_NOEXCEPT;
/* Resizes in place where possible. If it returns NULL, the old block is intact. block NULL: allocates; size 0 counts
 * as 1. */
void* qm_realloc(void* block, size_t size) QM_NOEXCEPT;
/* Returns NULL also if @alignment is no power of two. @size need not be a multiple of it. */
void* qm_aligned_alloc(size_t alignment, size_t size) QM_NOEXCEPT;
void* qm_malloc_at(const qm_call_site* site, size_t size) QM_NOEXCEPT;
void* qm_calloc_at(const qm_call_site* site, size_t count, size_t size) QM_NOEXCEPT;
void* qm_realloc_at(const qm_call_site* site, void* block, size_t size) QM_NOEXCEPT;
void* qm_aligned_alloc_at(const qm_call_site* site, size_t alignment, size_t size) QM_NOEXCEPT;
/* NULL is ignored; an address that is not a block is reported and ignored. */
void qm_free(void* block) QM_NOEXCEPT;
/* As qm_free(), for a block of qm_malloc(), qm_calloc() or qm_realloc() whose last requested size is @size. If the size
 * does not fit the block, this is reported, and the block is not freed. */
void qm_free_sized(void* block, size_t size) QM_NOEXCEPT;
/* Usable bytes of the block; 0 for NULL and for an address that is not a block. */
size_t qm_usable_size(const void* block) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
