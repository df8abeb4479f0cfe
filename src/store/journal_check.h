/* The checks of a journal before it is trusted. */
#ifndef RUNNEL_JOURNAL_CHECK_H
#define RUNNEL_JOURNAL_CHECK_H

#include "journal_store.h"

/* The part of the log that SQLite ignores. */
struct journal_tail {
    bool torn;        /* one or more unfinished transactions */
    int transactions; /* transactions with an end: 1 can have been written at a loss of power */
};

/* Call before opening the file. */
int journal_check_log(const char *path, struct journal_tail *tail, struct error *error);

/* Read the totals, and check against them the data that recovery and duplicates depend on. */
int journal_check_totals(struct journal_store *store, struct journal_totals *totals,
                         struct error *error);
int journal_check_contents(struct journal_store *store, const struct journal_totals *totals,
                           struct error *error);

/* Checks that the entries after `after` exist, at both ends. */
int journal_check_range(const char *path, uint64_t after, uint64_t oldest, uint64_t newest,
                        struct error *error);

/* Checks that the entries were learned with this configuration. */
int journal_check_owner(const char *path, const struct journal_totals *totals, uint64_t mark,
                        const struct journal_options *options, struct error *error);

/* Checks that the entries up to the mark, and from the checkpoint on, exist. */
int journal_check_end(const char *path, const struct journal_totals *totals, uint64_t mark,
                      const struct journal_options *options, struct error *error);

#endif
