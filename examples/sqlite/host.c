/* Runs the workload on the host, and prints the lines that the target has to print. */

#include <stdio.h>

#include "workload.h"

static void print_line(void *context, const char *line) {
  (void)context;
  puts(line);
}

int main(void) { return workload_run(WORKLOAD_READINGS, 0, print_line, NULL); }
