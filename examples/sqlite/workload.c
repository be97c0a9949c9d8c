/* Stores sensors and their readings, as a data logger does. The host and the target run the same program. */

#include "workload.h"

#include <stddef.h>

#include <sqlite3.h>

enum { kSensors = 40 };

static const char kSchema[] =
    "create table sensor(id integer primary key, name text not null unique, room text not null);"
    "create table reading(id integer primary key, sensor integer not null references sensor(id), at integer not null,"
    "  value real not null, note text);"
    "create index reading_by_sensor on reading(sensor, at);";

static const char *const kQuestions[] = {
    "select 'rows', count(*), sum(length(note)) from reading",
    "select 'room', room, count(*), round(avg(value), 3), min(at), max(at) from reading join sensor on sensor.id = sensor"
    " group by room order by room",
    "select 'warmest', name, round(max(value), 2) from reading join sensor on sensor.id = sensor group by name"
    " order by max(value) desc, name limit 5",
    "with recursive step(n, a, b) as (select 1, 0, 1 union all select n + 1, b, a + b from step where n < 60)"
    " select 'fibonacci', n, a from step where n % 12 = 0",
    "select 'rise', sensor, max(rise) from (select sensor, value - lag(value) over (partition by sensor order by at) as rise"
    " from reading) group by sensor having max(rise) > 29.5 order by sensor",
    "select 'longest', group_concat(note, '; ') from (select note from reading order by length(note) desc, id limit 3)",
    "select 'upper', substr(upper(note), 1, 20), replace(note, '-', '') from reading where note like '%-1199_ %' order by id limit 3",
};

struct Workload {
  sqlite3 *db;
  workload_print print;
  void *context;
  int leaky;
  int readings;
};

static int execute(struct Workload *work, const char *sql) { return sqlite3_exec(work->db, sql, NULL, NULL, NULL); }

static int run_once(sqlite3_stmt *statement) {
  const int status = sqlite3_step(statement);
  sqlite3_reset(statement);
  return status == SQLITE_DONE ? SQLITE_OK : status;
}

static int add_sensors(struct Workload *work) {
  static const char *const rooms[] = {"boiler", "cellar", "hall", "loft", "yard"};
  for (int id = 1; id <= kSensors && id <= work->readings; ++id) {
    char *sql = sqlite3_mprintf("insert into sensor values(%d, 'sensor-%02d', %Q)", id, id, rooms[id % 5]);
    const int status = sql != NULL ? execute(work, sql) : SQLITE_NOMEM;
    sqlite3_free(sql);
    if (status != SQLITE_OK) return status;
  }
  return SQLITE_OK;
}

__attribute__((noinline)) static int add_reading(struct Workload *work, sqlite3_stmt *insert, int number, double value) {
  char *note = sqlite3_mprintf("%s-%d at %.2f", number % 7 == 0 ? "checked by hand" : "reading", number, value);
  if (note == NULL) return SQLITE_NOMEM;
  sqlite3_bind_int(insert, 1, number % kSensors + 1);
  sqlite3_bind_int(insert, 2, 1000 + number / kSensors * 60);
  sqlite3_bind_double(insert, 3, value);
  const int status = sqlite3_bind_text(insert, 4, note, -1, SQLITE_TRANSIENT);
  if (work->leaky == 0 || number % 500 != 0) sqlite3_free(note);  /* the caller of sqlite3_mprintf() frees its result */
  return status == SQLITE_OK ? run_once(insert) : status;
}

__attribute__((noinline)) static int add_readings(struct Workload *work) {
  sqlite3_stmt *insert = NULL;
  int status = sqlite3_prepare_v2(work->db, "insert into reading(sensor, at, value, note) values(?, ?, ?, ?)", -1, &insert, NULL);
  unsigned random = 1;
  for (int number = 1; status == SQLITE_OK && number <= work->readings; ++number) {
    random = random * 1664525u + 1013904223u;
    status = add_reading(work, insert, number, (random >> 16) % 3000 / 100.0);
  }
  sqlite3_finalize(insert);
  return status;
}

static int answer(struct Workload *work, const char *question) {
  sqlite3_stmt *statement = NULL;
  int status = sqlite3_prepare_v2(work->db, question, -1, &statement, NULL);
  if (status != SQLITE_OK) return status;
  while ((status = sqlite3_step(statement)) == SQLITE_ROW) {
    sqlite3_str *line = sqlite3_str_new(work->db);
    for (int column = 0; column < sqlite3_column_count(statement); ++column) {
      sqlite3_str_appendf(line, column == 0 ? "%s" : "|%s", sqlite3_column_text(statement, column));
    }
    char *text = sqlite3_str_finish(line);
    if (text != NULL) work->print(work->context, text);
    sqlite3_free(text);
  }
  sqlite3_finalize(statement);
  return status == SQLITE_DONE ? SQLITE_OK : status;
}

static int answer_all(struct Workload *work) {
  int status = SQLITE_OK;
  for (size_t i = 0; status == SQLITE_OK && i < sizeof kQuestions / sizeof *kQuestions; ++i) status = answer(work, kQuestions[i]);
  return status;
}

/* Makes many changes: a transaction that is rolled back, one that is not, and the changes of the indexes. */
static int churn(struct Workload *work) {
  int status = execute(work, "begin; delete from reading; rollback");
  if (status == SQLITE_OK) status = execute(work, "update reading set value = value + 0.5, note = note || ' corrected' where id % 3 = 0");
  if (status == SQLITE_OK) status = execute(work, "delete from reading where id % 6 = 2");
  if (status == SQLITE_OK) status = execute(work, "create index reading_by_note on reading(note); vacuum");
  return status == SQLITE_OK ? answer(work, "pragma integrity_check") : status;
}

int workload_run(int readings, int leaky, workload_print print, void *context) {
  struct Workload work = {NULL, print, context, leaky, readings};
  int status = sqlite3_open(":memory:", &work.db);
  if (status == SQLITE_OK) status = execute(&work, kSchema);
  if (status == SQLITE_OK) status = add_sensors(&work);
  if (status == SQLITE_OK) status = add_readings(&work);
  if (status == SQLITE_OK) status = answer_all(&work);
  if (status == SQLITE_OK) status = churn(&work);
  if (status == SQLITE_OK) status = answer_all(&work);
  if (status != SQLITE_OK) print(context, sqlite3_errmsg(work.db));
  sqlite3_close(work.db);
  sqlite3_shutdown();
  return status;
}
