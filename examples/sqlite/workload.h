#ifndef WORKLOAD_H
#define WORKLOAD_H

#ifdef __cplusplus
extern "C" {
#endif

typedef void (*workload_print)(void* context, const char* line);

enum { WORKLOAD_READINGS = 12000 };

/* Fills a database in memory, runs queries and prints the answers, one a line; the lines are the same everywhere.
 * leaky: the note of every 500th reading is not freed. Returns 0, or SQLite's error, which is printed. */
int workload_run(int readings, int leaky, workload_print print, void* context);

#ifdef __cplusplus
}
#endif

#endif
