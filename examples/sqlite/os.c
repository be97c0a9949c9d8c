/* The functions that SQLite needs of an operating system without files (SQLITE_OS_OTHER): randomness, sleep and date.
 * They give the same values in each run, so that runs can be compared. */

#include <string.h>

#include <sqlite3.h>

static int no_file(sqlite3_vfs *vfs, const char *name, sqlite3_file *file, int flags, int *out_flags) {
  (void)vfs, (void)name, (void)flags, (void)out_flags;
  file->pMethods = NULL;
  return SQLITE_CANTOPEN;
}

static int no_delete(sqlite3_vfs *vfs, const char *name, int sync) {
  (void)vfs, (void)name, (void)sync;
  return SQLITE_IOERR_DELETE;
}

static int no_access(sqlite3_vfs *vfs, const char *name, int flags, int *result) {
  (void)vfs, (void)name, (void)flags;
  *result = 0;
  return SQLITE_OK;
}

static int same_name(sqlite3_vfs *vfs, const char *name, int bytes, char *out) {
  (void)vfs;
  sqlite3_snprintf(bytes, out, "%s", name);
  return SQLITE_OK;
}

static int no_randomness(sqlite3_vfs *vfs, int bytes, char *out) {
  (void)vfs;
  memset(out, 0x5a, (size_t)bytes);
  return bytes;
}

static int no_sleep(sqlite3_vfs *vfs, int microseconds) {
  (void)vfs;
  return microseconds;
}

static int one_day(sqlite3_vfs *vfs, double *julian_day) {
  (void)vfs;
  *julian_day = 2460000.5;
  return SQLITE_OK;
}

static sqlite3_vfs vfs = {
    .iVersion = 1, .mxPathname = 64, .zName = "none", .szOsFile = sizeof(sqlite3_file), .xOpen = no_file, .xDelete = no_delete,
    .xAccess = no_access, .xFullPathname = same_name, .xRandomness = no_randomness, .xSleep = no_sleep, .xCurrentTime = one_day,
};

int sqlite3_os_init(void) { return sqlite3_vfs_register(&vfs, 1); }
int sqlite3_os_end(void) { return SQLITE_OK; }
