/* calls N: N pairs of calls to each hart, the second of a pair while the hart leaves the handler of the first. A
 * call that is lost blocks this task. */
#include <nuttx/config.h>

#include <nuttx/sched.h>
#include <nuttx/semaphore.h>

#include <stdio.h>
#include <stdlib.h>

#if defined(CONFIG_SMP)
static int post(void* sem) { return nxsem_post(sem); }
#endif

int main(int argc, char* argv[]) {
  const int count = argc > 1 ? atoi(argv[1]) : 100;
#if defined(CONFIG_SMP)
  static struct smp_call_data_s call;
  static sem_t sem;
  (void)nxsem_init(&sem, 0, 0);
  nxsched_smp_call_init(&call, post, &sem);
  for (int i = 0; i < count; ++i) {
    for (int hart = 0; hart < CONFIG_SMP_NCPUS; ++hart) {
      (void)nxsched_smp_call_single_async(hart, &call);
      (void)nxsem_wait_uninterruptible(&sem);
      (void)nxsched_smp_call_single(hart, post, &sem);
      (void)nxsem_wait_uninterruptible(&sem);
    }
  }
#endif
  printf("calls: ok, %d\n", count);
  return 0;
}
