#ifndef WORKLOAD_H
#define WORKLOAD_H

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*workload_print)(void* context, const char* line);

/* Fills a database in memory, asks it questions and prints the answers, a line each; the lines are the same wherever it runs.
 * leaky: every 500th reading's note is not freed. Returns 0, or SQLite's error, which is printed. */
int workload_run(int leaky, workload_print print, void* context);

#ifdef __cplusplus
}
#endif

#endif
