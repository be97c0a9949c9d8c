/* Quartermaster's commands as built-in applications of NSH. */
#include <nuttx/config.h>

#include <nuttx/sched.h>
#if defined(CONFIG_ALLSYMS)
#include <nuttx/symtab.h>
#endif

#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "heap.h"

#define LINE_BYTES 256

static volatile pid_t runner = -1;

static void write_out(const char* bytes, size_t count) {
  while (count != 0) {
    const ssize_t written = write(STDOUT_FILENO, bytes, count);
    if (written <= 0) return;
    bytes += written;
    count -= (size_t)written;
  }
}

void qm_nuttx_yield(void) { (void)sched_yield(); }

const char* qm_nuttx_name_of(uintptr_t address, size_t* offset) {
#if defined(CONFIG_ALLSYMS)
  size_t size;
  const struct symtab_s* const symbol = allsyms_findbyvalue((void*)address, &size);
  if (symbol == NULL) return NULL;
  *offset = address - (uintptr_t)symbol->sym_value;
  return symbol->sym_name;
#else
  UNUSED(address);
  UNUSED(offset);
  return NULL;
#endif
}

/* Makes the calling task the one that runs a command. Returns false if another task, not deleted, runs one. */
static bool become_runner(void) {
  const pid_t self = gettid();
  sched_lock();
  const bool is_free = runner < 0 || nxsched_get_tcb(runner) == NULL;
  if (is_free) runner = self;
  sched_unlock();
  return is_free;
}

int qm_nuttx_run(const char* line) {
  if (!become_runner()) {
    printf("error: another command of Quartermaster's is under way\n");
    return -1;
  }
  int before;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
#if !defined(CONFIG_FRAME_POINTER) && defined(CONFIG_QUARTERMASTER_TRACE)
  if (strncmp(line, "slab_trace start", 16) == 0)
    printf("trace: NuttX is compiled without FRAME_POINTER: stacks end at its functions\n");
#endif
  fflush(stdout);
  const bool is_done = qm_nuttx_run_line(line, write_out);
  runner = -1;
  (void)pthread_setcancelstate(before, NULL);
  return is_done ? 0 : 1;
}

int qm_nuttx_main(int argc, char* argv[]) {
  char line[LINE_BYTES];
  size_t length = 0;
  const int first = argc > 0 && strcmp(argv[0], "qm") == 0 ? 1 : 0;
  if (first == argc) return qm_nuttx_run("help") == 0 ? 0 : 1;
  for (int i = first; i < argc; ++i) {
    const size_t bytes = strlen(argv[i]);
    if (length + bytes + 2 > sizeof line) {
      printf("error: a line has at most %d characters\n", LINE_BYTES - 2);
      return 1;
    }
    if (i != first) line[length++] = ' ';
    (void)memcpy(line + length, argv[i], bytes);
    length += bytes;
  }
  line[length] = 0;
  return qm_nuttx_run(line) == 0 ? 0 : 1;
}
