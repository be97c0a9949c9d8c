#ifndef QM_CALL_SITE_H
#define QM_CALL_SITE_H
/* Call sites: the places in the source that allocate. In a build with QM_CALL_SITES each has a row of live bytes and calls
 * (<qm/call_sites.hpp>, the console's `allocinfo`); in any other build the hooks are plain calls. C99 and C++.
 *
 *     void *packet = QM_ALLOC(qm_malloc, 64);              = qm_malloc_at(QM_SITE, 64), or qm_malloc(64)
 *     void *object = QM_ALLOC(cache->allocate);            = cache->allocate_at(QM_SITE), or cache->allocate()
 *
 * A site is passed as an argument, from the hook to the allocator, so no trap and no switch of tasks has to save it, and of
 * hooks on the way the innermost counts. A helper that is to be charged to its callers takes the site itself and has a hook for
 * a name:
 *
 *     struct packet *packet_alloc_at(const qm_call_site *site, size_t size);     its body allocates with qm_malloc_at(site, ...)
 *     #define packet_alloc(size) QM_AT(packet_alloc_at, size)
 *
 * In a build without call sites QM_AT passes a null. A hook is for functions that are neither inline nor templates: the compiler
 * cannot place their statics in a section. */

#include <stdint.h>

#include <qm/config.h>
#include <qm/configuration.h>

#if defined(__cplusplus)
namespace qm {
struct CallSite;
}
typedef qm::CallSite qm_call_site;
struct qm::CallSite {
#else
typedef struct qm_call_site qm_call_site;
struct qm_call_site {
#endif
  const char* file;
  const char* function;
  const char* module; /* what QM_MODULE names; null: nothing */
  uint32_t line;
#if UINTPTR_MAX > 0xffffffff
  uint32_t unused; /* a site has 32 bytes, as what a hart counts of it */
#else
  uint32_t unused[4];
#endif
};

#if UINTPTR_MAX > 0xffffffff
#define QM_SITE_VALUE(file, function, module, line) \
  { file, function, module, line, 0 }
#else
#define QM_SITE_VALUE(file, function, module, line) \
  {                                                 \
    file, function, module, line, { 0 }             \
  }
#endif

/* What the rows of a source file say in brackets: a string, defined for the file, or nothing. */
#if !defined(QM_MODULE)
#define QM_MODULE 0
#endif

#if defined(QM_CALL_SITES)
/* This place: a `const qm_call_site *`. */
#define QM_SITE                                                                              \
  (__extension__({                                                                           \
    static const qm_call_site qm_site_here __attribute__((section("qm_call_sites"), used)) = \
        QM_SITE_VALUE(__FILE__, __func__, QM_MODULE, __LINE__);                              \
    &qm_site_here;                                                                           \
  }))
#if defined(__cplusplus)
#define QM_ALLOC(function, ...) function##_at(QM_SITE __VA_OPT__(, ) __VA_ARGS__)
#define QM_AT(function, ...) function(QM_SITE __VA_OPT__(, ) __VA_ARGS__)
#else
#define QM_ALLOC(function, ...) function##_at(QM_SITE, __VA_ARGS__)
#define QM_AT(function, ...) function(QM_SITE, __VA_ARGS__)
#endif
#else
#define QM_SITE ((const qm_call_site*)0)
#if defined(__cplusplus)
#define QM_ALLOC(function, ...) function(__VA_ARGS__)
#define QM_AT(function, ...) function(nullptr __VA_OPT__(, ) __VA_ARGS__)
#else
#define QM_ALLOC(function, ...) function(__VA_ARGS__)
#define QM_AT(function, ...) function(QM_SITE, __VA_ARGS__)
#endif
#endif

#endif
