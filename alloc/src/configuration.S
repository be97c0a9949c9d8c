/* The symbol that <qm/configuration.h> refers to: a number, in no section. */
#include <qm/config.h>

  .globl QM_CONFIGURATION
  .set QM_CONFIGURATION, 0
#if defined(__linux__)
  .section .note.GNU-stack, "", %progbits
#endif
