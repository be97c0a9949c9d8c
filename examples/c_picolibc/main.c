/* The firmware's own code, in C over picolibc: it copies words, and leaks one. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "board.h"

static int by_text(const void* left, const void* right) { return strcmp(*(char* const*)left, *(char* const*)right); }

__attribute__((noinline)) static void copy_words(const char* const* words, size_t count) {
  char** copies = calloc(count, sizeof *copies);
  if (copies == NULL) return;
  for (size_t i = 0; i < count; ++i) copies[i] = strdup(words[i]);
  qsort(copies, count, sizeof *copies, by_text);
  for (size_t i = 0; i < count; ++i) {
    printf("%s\n", copies[i] != NULL ? copies[i] : "no memory");
    if (i != 2) free(copies[i]); /* and the third? */
  }
  free(copies);
}

/* Runs the console's command "words". */
void on_command(void) {
  static const char* const words[] = {"slab", "arena", "magazine", "cell"};
  copy_words(words, sizeof words / sizeof *words);
}

int main(void) {
  char* text = malloc(100); /* the allocator started before main() */
  printf("a block of 100 bytes has %zu\n", malloc_usable_size(text));
  free(text);
  run_console();
}
