/* Common code of the journal's tests: a directory, and entries determined by their positions. */
#ifndef RUNNEL_JOURNAL_TESTING_H
#define RUNNEL_JOURNAL_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sqlite3.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "store/journal.h"

enum { INPUTS = 3, TARGETS = 2, STEPS_MAX = 4 };

extern char state[sizeof "/dev/shm/test-journal-XXXXXX"]; /* the directory */

/* Setup and teardown of every test: an empty directory, a working disk. */
int make_state(void **unused);
int remove_state(void **unused);

/* The name of a file in it, valid until the fourth next call. */
const char *in_state(const char *name);

/* The options of a journal with the entries below. */
struct journal_options plain_options(void);

struct journal *open_plain(void);

/* The same, with a checkpoint at that position. */
struct journal *open_after(uint64_t checkpoint);
struct journal *open_with(const struct journal_options *options);

/* Appends the entries of the next `count` positions: mostly examples, numbered ones and others,
   in streams with their own sequences, with NaN, keys of size 0 and 255, and commands. */
void append_entries(struct journal *journal, int count);

/* Replays the entries after `after`: every entry is the expected one. Returns the count. */
int assert_entries(struct journal *journal, uint64_t after);

/* A query of the file by another program, before its first row; end_query ends it. */
sqlite3_stmt *query(const char *sql);
void end_query(sqlite3_stmt *row);

/* The same from another program, all of the view `entries` from position 1. */
int assert_rows(void);

/* The file has the last entry of every stream, as of `position`. */
void assert_sequences(struct journal *journal, uint64_t position);

void assert_synced(struct journal *journal);

#endif
