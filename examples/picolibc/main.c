/* A firmware in C. It and the C library allocate from the allocator, so strdup() is in the trace. */

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <qm/qm.h>
#include <qm/trace/trace.h>

#include "board.h"

static int put(char c, FILE *file) {
  (void)file;
  board_put(&c, 1);
  return c;
}
static FILE line = FDEV_SETUP_STREAM(put, NULL, NULL, _FDEV_SETUP_WRITE);
FILE *const stdout = &line;

static int by_text(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* The C library has no frame pointers, so a stack has strdup(), lacks its caller, and continues with the next one. */
__attribute__((noinline)) static char *copy_word(const char *word) { return strdup(word); }

__attribute__((noinline)) static char **copy_words(const char *const *words, size_t count) {
  char **copies = calloc(count, sizeof *copies);
  for (size_t i = 0; i < count; ++i) copies[i] = copy_word(words[i]);
  qsort(copies, count, sizeof *copies, by_text);
  return copies;
}

int c_main(void) {
  static const char *const words[] = {"slab", "arena", "magazine", "cell"};
  const size_t count = sizeof words / sizeof *words;
  free(malloc(1)); /* the first block of 16 bytes creates the size class */
  qm_trace_start("kmalloc_16");
  char **copies = copy_words(words, count);
  for (size_t i = 0; i < count; ++i) printf("%s\n", copies[i]);
  printf("%zu words, %.3f bytes each\n", count, (double)(strlen("slabarenamagazinecell")) / (double)count);
  printf("C++ counts %d vowels\n", count_vowels(copies, (int)count));
  copies[0] = realloc(copies[0], 100);
  printf("%d %d\n", copies[0] != NULL, malloc_usable_size(copies[0]) >= 100);
  for (size_t i = 0; i < count; ++i) {
    if (i != 2) free(copies[i]); /* the leak that the trace shows */
  }
  free(copies);
  return 0;
}
