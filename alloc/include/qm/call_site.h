#ifndef QM_CALL_SITE_H
#define QM_CALL_SITE_H
/* Call sites: the places in the source that allocate. In a build with QM_CALL_SITES each has a row of live bytes and
 * calls (<qm/detail/call_sites.hpp>, the console's `allocinfo`); in any other build the macros below are plain
 * calls. C99 and C++.
 *
 *     void *packet = QM_ALLOC(qm_malloc, 64);              = qm_malloc_at(QM_SITE, 64), or qm_malloc(64)
 *     void *object = QM_ALLOC(cache->allocate);            = cache->allocate_at(QM_SITE), or cache->allocate()
 *
 * A site is passed as an argument, from the macro to the allocator, so no trap and no task switch has to save it. If
 * such calls are nested, the innermost site counts. To charge a helper's allocations to its callers, give the helper
 * a site parameter and define a macro with its name:
 *
 *     struct packet *packet_alloc_at(const qm_call_site *site, size_t size);     its body allocates with qm_malloc_at(site, ...)
 *     #define packet_alloc(size) QM_AT(packet_alloc_at, size)
 *
 * In a build without call sites QM_AT passes a null. Do not use the macros in inline functions or templates: the
 * compiler cannot place their statics in a section. */

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
  const char* module; /* the string QM_MODULE; null: none */
  uint32_t line;
#if UINTPTR_MAX > 0xffffffff
  uint32_t unused; /* makes a site 32 bytes, as many as a hart's counts of it */
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

/* A module name, which reports show in brackets behind the file name: a source file may define it as a string. */
#if !defined(QM_MODULE)
#define QM_MODULE 0
#endif

#if defined(QM_CALL_SITES)
/* The site of this place: a `const qm_call_site *`. */
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
