/* deleted N: N tasks, one after another, that are deleted during calls of the heap: one allocates and frees, the next one
 * asks for more memory than there is, and so on. Each loses a block at most. Then a task that runs a command and is
 * deleted in the middle: the command goes on to its end. */
#include <nuttx/config.h>

#include <nuttx/sched.h>

#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <qm_nuttx.h>

#define CHECK(what)                                         \
  do {                                                      \
    if (!(what)) {                                          \
      printf("deleted: FAILED: %d: %s\n", __LINE__, #what); \
      return 1;                                             \
    }                                                       \
  } while (0)
#define BLOCKS 8

static void* volatile blocks[BLOCKS];
static size_t too_much;
static int ends[2];

static int work(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  unsigned size = 1;
  for (unsigned at = 0;; at = (at + 1) % BLOCKS) {
    void* const old = blocks[at];
    blocks[at] = NULL;
    free(old);
    size = size * 1103515245u + 12345u;
    blocks[at] = malloc(size >> 16 & 4095);
  }
  return 0;
}

static int ask(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  while (malloc(too_much) == NULL) continue;
  return 0;
}

/* Returns whether the task has ended within a second. */
static bool is_gone(pid_t pid) {
  for (int i = 0; i < 1000 && kill(pid, 0) == 0; ++i) (void)usleep(1000);
  return kill(pid, 0) != 0;
}

static int delete_in_calls(int count) {
  const int before = mallinfo().aordblks;
  const size_t all = (size_t)mallinfo().arena;
  for (int i = 0; i < count; ++i) {
    too_much = i % 4 == 1 ? all : 2 * all; /* idle memory is reclaimed only for what the heap could have */
    const pid_t pid = task_create("victim", SCHED_PRIORITY_DEFAULT - 1, 16384, i % 2 == 0 ? work : ask, NULL);
    CHECK(pid >= 0);
    (void)usleep((useconds_t)(3000 + 1237 * i % 5000));
    CHECK(task_delete(pid) == 0 && is_gone(pid));
    for (unsigned at = 0; at < BLOCKS; ++at) {
      free(blocks[at]);
      blocks[at] = NULL;
    }
  }
  const int lost = mallinfo().aordblks - before;
  printf("deleted: %d tasks, %d blocks lost\n", count, lost);
  CHECK(lost <= count);
  return 0;
}

static int run_command(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  (void)dup2(ends[1], STDOUT_FILENO);
  (void)close(ends[1]);
  return qm_nuttx_run("help; kmemstat; verify");
}

/* The command waits for room in the pipe when its task is deleted. */
static int delete_in_command(void) {
  static char text[16384];
  CHECK(pipe(ends) == 0);
  const pid_t pid = task_create("command", SCHED_PRIORITY_DEFAULT, 8192, run_command, NULL);
  (void)close(ends[1]);
  CHECK(pid >= 0 && read(ends[0], text, 1) == 1);
  CHECK(task_delete(pid) == 0 && kill(pid, 0) == 0);
  CHECK(qm_nuttx_run("verify") == -1);
  size_t length = 1;
  for (ssize_t got = 1; got > 0 && length < sizeof text - 1; length += (size_t)(got > 0 ? got : 0))
    got = read(ends[0], text + length, sizeof text - 1 - length);
  (void)close(ends[0]);
  CHECK(strstr(text, ", faults 0: complete") != NULL && is_gone(pid));
  return 0;
}

/* On SMP, NuttX looks whether a task forbids its deletion and stops it only then, so a task that runs on another CPU may
 * be stopped although it forbids that meanwhile. The tasks inherit this task's CPU. */
static int stay_on_one_cpu(void) {
#if defined(CONFIG_SMP)
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET(sched_getcpu(), &here);
  CHECK(sched_setaffinity(0, sizeof here, &here) == 0);
#endif
  return 0;
}

int main(int argc, char* argv[]) {
  const int count = argc > 1 ? atoi(argv[1]) : 20;
  if (stay_on_one_cpu() != 0 || delete_in_calls(count) != 0 || delete_in_command() != 0) return 1;
  printf("deleted: ok\n");
  return 0;
}
