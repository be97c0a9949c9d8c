/* The firmware's own code: it leaks every eighth job, and its timer's handler also allocates. */
#include "board.h"

static qm_cache* jobs;
static unsigned ticks;

static void* __attribute__((noinline)) new_job(void) { return qm_cache_alloc(jobs, 0); }

static void __attribute__((noinline)) run_jobs(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    void* job = new_job();
    if (i % 8 == 7) continue; /* and the job? */
    qm_cache_free(jobs, job);
  }
}

/* Called by board_trap() between qm_trap_enter() and qm_trap_leave(), with interrupts masked. */
void on_interrupt(uintptr_t cause) {
  if (cause << 1 != 7 << 1) board_stop("an interrupt nobody asked for");
  board_set_timer(100000);
  qm_free(qm_malloc(32));
  ++ticks;
}

/* Runs the console's command "jobs". */
void on_command(void) {
  run_jobs(16);
  board_print("16 jobs done\n");
  board_print(ticks != 0 ? "the timer runs\n" : "the timer stands still\n");
}

void firmware_main(void) {
  jobs = qm_cache_create("job", 96, 0, 0, NULL, NULL, NULL, NULL);
  if (jobs == NULL) board_stop("no memory");
  board_set_timer(100000);
}
