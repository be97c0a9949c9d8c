#ifndef QM_CONFIGURATION_H
#define QM_CONFIGURATION_H
/* A program that mixes headers of one build with the library of another does not link. The linker's message names
 * the configuration of the headers:
 *
 *     undefined reference to `qm_configuration_0_7_target_sections_count'
 *
 * Each object that includes a header of the allocator refers to that symbol from a section that is not loaded, so
 * neither text nor data grows. GNU ld reads that section, unless it has to drop debug information (-s, -S); LLVM's
 * lld does not. */

#include <qm/config.h>

#define QM_TEXT_OF(symbol) #symbol
#define QM_REFER_TO(symbol) \
  __asm__(".pushsection .debug_qm_configuration,\"\"\n.4byte " QM_TEXT_OF(symbol) "\n.popsection")

QM_REFER_TO(QM_CONFIGURATION);

#endif
