/* deleted N: N tasks, one after another, that always allocate and free and are deleted during that. */
#include <nuttx/config.h>

#include <nuttx/sched.h>

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static int work(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  unsigned size = 1;
  void* blocks[8] = {NULL};
  for (unsigned at = 0;; at = (at + 1) % 8) {
    free(blocks[at]);
    size = size * 1103515245u + 12345u;
    blocks[at] = malloc(size >> 16 & 4095);
  }
  return 0;
}

int main(int argc, char* argv[]) {
  const int count = argc > 1 ? atoi(argv[1]) : 20;
  for (int i = 0; i < count; ++i) {
    const pid_t pid = task_create("victim", SCHED_PRIORITY_DEFAULT - 1, 16384, work, NULL);
    if (pid < 0) {
      printf("deleted: FAILED: no task\n");
      return 1;
    }
    (void)usleep((useconds_t)(3000 + 1237 * i % 5000));
    (void)task_delete(pid);
  }
  printf("deleted: %d tasks\n", count);
  return 0;
}
