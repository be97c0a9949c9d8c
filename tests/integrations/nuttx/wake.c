/* wake: sends an interrupt to each hart except the first. NuttX's start of a hart ends by clearing this interrupt: if the
 * scheduler had sent it, the intended task and every later one wait, because the scheduler takes it for pending. */
#include <nuttx/config.h>

#include <nuttx/arch.h>
#include <nuttx/sched.h>

#include <stdio.h>

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
#if defined(CONFIG_SMP)
  sched_lock();
  for (int hart = 0; hart < CONFIG_SMP_NCPUS; ++hart) {
    if (hart != up_this_cpu()) (void)up_send_smp_sched(hart);
  }
  sched_unlock();
#endif
  printf("all harts are awake\n");
  return 0;
}
