/* A program with allocations that record_test.cmake knows. */

#include <pthread.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static void* volatile keep; /* keeps the compiler from removing allocations */

static void* take(size_t bytes) {
  keep = malloc(bytes);
  return keep;
}

static void* in_thread(void* block) {
  free(block);
  return take(77);
}

int main(void) {
  void* first = take(10);
  void* second = calloc(3, 7);
  keep = second;
  first = realloc(first, 1000);
  keep = first;
  free(second);
  free(NULL);
  void* third = NULL;
  if (posix_memalign(&third, 64, 30) != 0) return 1;
  const pid_t child = fork();
  if (child == 0) {
    keep = take(4000);
    free(first);
    _exit(0);
  }
  int status = 0;
  if (waitpid(child, &status, 0) != child || status != 0) return 1;
  pthread_t thread;
  if (pthread_create(&thread, NULL, in_thread, first) != 0) return 1;
  pthread_join(thread, NULL);
  keep = realloc(third, 31);
  return 0;
}
