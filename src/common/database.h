/* SQLite files from untrusted sources. A crafted file must not run code, nor block its reader.
   Views and triggers are disabled, SQL in the schema calls only harmless functions, and a time
   limit stops reads. */
#ifndef RUNNEL_DATABASE_H
#define RUNNEL_DATABASE_H

#include <sqlite3.h>

#define DATABASE_READ_SECONDS 20.0

struct database_clock {
    double limit;    /* seconds for a read, or a transaction of a read-only file */
    double deadline; /* deadline of the current one */
};

/* As sqlite3_open_v2. `clock` must outlive *file; NULL: no limit. A read that takes longer than
   clock->limit fails with SQLITE_INTERRUPT. */
int database_open(sqlite3 **file, const char *path, int flags, struct database_clock *clock);

/* The message of the last error. */
const char *database_message(sqlite3 *file);

#endif
