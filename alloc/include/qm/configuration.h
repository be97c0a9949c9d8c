#ifndef QM_CONFIGURATION_H
#define QM_CONFIGURATION_H
/* Makes a program that was compiled with the headers of one build and is linked with the library of another fail to link, with a
 * message that names the configuration its headers are of:
 *
 *     undefined reference to `qm_configuration_0_7_target_sections_count'
 *
 * Each object that includes a header of the allocator refers to that symbol from a section that is not loaded: neither text nor data
 * has anything of it. GNU ld looks at that section, unless it is told to drop debug information (-s, -S); LLVM's lld does not. */

#include <qm/config.h>

#define QM_TEXT_OF(symbol) #symbol
#define QM_REFER_TO(symbol) \
  __asm__(".pushsection .debug_qm_configuration,\"\"\n.4byte " QM_TEXT_OF(symbol) "\n.popsection")

QM_REFER_TO(QM_CONFIGURATION);

#endif
