#include "database.h"

#include <math.h>
#include <stddef.h>

#include "clock.h"

enum { CHECK_EVERY = 10000 /* instructions of SQLite's virtual machine */ };

/* A writer's transaction stays open for a long time, a reader's only while it reads. */
static int begin_statement(unsigned event, void *context, void *statement, void *text) {
    struct database_clock *clock = context;
    sqlite3 *file = sqlite3_db_handle(statement);
    (void)event;
    (void)text;
    if (!sqlite3_stmt_readonly(statement))
        clock->deadline = INFINITY;
    else if (sqlite3_get_autocommit(file) || !sqlite3_db_readonly(file, NULL))
        clock->deadline = clock_seconds() + clock->limit;
    return 0;
}

static int is_late(void *context) {
    return clock_seconds() > ((const struct database_clock *)context)->deadline;
}

int database_open(sqlite3 **file, const char *path, int flags, struct database_clock *clock) {
    int code = sqlite3_open_v2(path, file, flags, NULL);
    if (code != SQLITE_OK)
        return code;
    sqlite3_db_config(*file, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(*file, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(*file, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(*file, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    if (!clock)
        return SQLITE_OK;
    sqlite3_trace_v2(*file, SQLITE_TRACE_STMT, begin_statement, clock);
    sqlite3_progress_handler(*file, CHECK_EVERY, is_late, clock);
    return SQLITE_OK;
}

const char *database_message(sqlite3 *file) {
    return sqlite3_errcode(file) == SQLITE_INTERRUPT ? "reading timed out" : sqlite3_errmsg(file);
}
