/* depth: the bytes of stack of a task that allocates and frees blocks of all sizes. */
#include <nuttx/config.h>

#include <nuttx/arch.h>
#include <nuttx/sched.h>

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static void* work(void* nothing) {
  unsigned size = 1;
  void* blocks[64] = {NULL};
  for (unsigned i = 0; i < 100000; ++i) {
    const unsigned at = i % 64;
    free(blocks[at]);
    size = size * 1103515245u + 12345u;
    blocks[at] = malloc(size >> 16 & (i < 50000 ? 127 : 8191));
  }
  for (unsigned at = 0; at < 64; ++at) free(blocks[at]);
  *(size_t*)nothing = up_check_tcbstack(nxsched_self(), nxsched_self()->adj_stack_size);
  return NULL;
}

int main(int argc, char* argv[]) {
  (void)argc;
  (void)argv;
  pthread_t thread;
  pthread_attr_t attributes;
  size_t used = 0;
  (void)pthread_attr_init(&attributes);
  (void)pthread_attr_setstacksize(&attributes, 16384);
  if (pthread_create(&thread, &attributes, work, &used) != 0) return 1;
  (void)pthread_join(thread, NULL);
  printf("depth: %zu bytes of stack\n", used);
  return 0;
}
