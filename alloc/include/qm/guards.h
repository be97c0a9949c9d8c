#ifndef QM_GUARDS_H
#define QM_GUARDS_H
/* Guarded samples for C (C99) and C++: see <qm/guards.hpp>, which has more. The misuse handler of <qm/qm.h> gets the
 * reports. */

#include <stdint.h>

#include <qm/qm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Samples at most about one in @every allocations of the heap; if that is 0, at most one in @ms milliseconds. Later
 * calls change the rate; after a qm_guard_stop() that failed they also resume the sampling.
 * Returns QM_INVALID if both are 0 or one is too large; QM_NO_MEMORY if not even one place fits; QM_REFUSED in a
 * checking build or before qm_init(); QM_TIMED_OUT if a hart does not answer; QM_UNSAFE in a handler, in a panic, with
 * a lock held, or, with more than one hart online, with interrupts masked.
 * Complexity: a broadcast. */
qm_status qm_guard_heap(uint32_t every, uint32_t ms) QM_NOEXCEPT;
/* Stops the sampling and frees the pool. Returns QM_BUSY while guarded blocks are in use, and QM_TIMED_OUT if a hart
 * does not answer: the sampling has ended, the blocks stay guarded until they are freed, and a later call frees the
 * pool. QM_UNSAFE as above. */
qm_status qm_guard_stop(void) QM_NOEXCEPT;
/* To be called by the handler for page faults and access faults, with interrupts masked. Returns 1: return to the
 * instruction, whose access now succeeds; 0: the fault has another cause.
 * @pc and @frame (s0) are those of the interrupted code. */
int qm_guard_fault(uintptr_t address, int is_write, uintptr_t pc, uintptr_t frame) QM_NOEXCEPT;
/* To be called on each hart by a periodic interrupt, 10 to 1000 times a second, with interrupts masked. Without it,
 * allocations from magazines that never run empty are never sampled. */
void qm_guard_tick(void) QM_NOEXCEPT;

#ifdef __cplusplus
}
#endif
#endif
