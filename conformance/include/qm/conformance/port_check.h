#ifndef QM_CONFORMANCE_PORT_CHECK_H
#define QM_CONFORMANCE_PORT_CHECK_H
/* The conformance test of a port, for C (C99): see <qm/conformance/port_check.hpp>, which says what each member is. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qm_port_check {
  void (*write)(const char* text, size_t length); /* prints; no zero behind the text */
  void* memory;                                   /* at least 256 KiB, ... */
  size_t bytes;                                   /* ... so many */
  unsigned harts;                                 /* 0 stands for 1 */
  uint32_t wait_ms;                               /* 0 stands for 5000 */
  void (*interrupt_in)(uint32_t ticks);           /* NULL: no timer interrupts hart 0 */
} qm_port_check;

/* On hart 0. Returns whether the port conforms. One check at a time. */
bool qm_check_port(const qm_port_check* check);
/* On every other hart, until hart 0 is done. */
void qm_attend_port_check(void);
/* In the handler of the interrupt that @interrupt_in asked for. */
void qm_on_check_interrupt(void);

#ifdef __cplusplus
}
#endif
#endif
