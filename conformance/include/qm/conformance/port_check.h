#ifndef QM_CONFORMANCE_PORT_CHECK_H
#define QM_CONFORMANCE_PORT_CHECK_H
/* The conformance test of a port, for C (C99): see <qm/conformance/port_check.hpp>, which explains each member. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qm_port_check {
  void (*write)(const char* text, size_t length); /* prints; the text has no final zero */
  void* memory;                                   /* at least 256 KiB */
  size_t bytes;                                   /* size of the memory */
  unsigned harts;                                 /* 0 stands for 1 */
  uint32_t wait_ms;                               /* 0 stands for 5000 */
  void (*interrupt_in)(uint32_t ticks);           /* NULL: no timer interrupts hart 0 */
} qm_port_check;

/* Call it on hart 0. Returns whether the port conforms. One check at a time. */
bool qm_check_port(const qm_port_check* check);
/* Call it on every other hart; it returns when hart 0 has finished. */
void qm_attend_port_check(void);
/* Call it in the handler of the interrupt that @interrupt_in requested. */
void qm_on_check_interrupt(void);

#ifdef __cplusplus
}
#endif
#endif
