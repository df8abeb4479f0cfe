/* SQLite files that somebody else may have made. A crafted one must not run code that it brings
   along, nor hold up its reader: views and triggers are disabled, SQL of the schema calls harmless
   functions only, and reading stops after a time limit. */
#ifndef RUNNEL_DATABASE_H
#define RUNNEL_DATABASE_H

#include <sqlite3.h>

#define DATABASE_READ_SECONDS 20.0

struct database_clock {
    double limit;    /* seconds of one read, or of one transaction of a read-only file */
    double deadline; /* of the one in progress */
};

/* As sqlite3_open_v2; `clock` must live as long as *file; NULL: there is no limit. A read that
   takes longer than clock->limit fails with SQLITE_INTERRUPT. */
int database_open(sqlite3 **file, const char *path, int flags, struct database_clock *clock);

/* The message of the newest error. */
const char *database_message(sqlite3 *file);

#endif
