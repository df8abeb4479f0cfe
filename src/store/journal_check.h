/* What is looked at before a journal is trusted. */
#ifndef RUNNEL_JOURNAL_CHECK_H
#define RUNNEL_JOURNAL_CHECK_H

#include "journal_store.h"

/* What the log holds after the place from which SQLite ignores it. */
struct journal_tail {
    bool torn;        /* a transaction that is not whole, or several */
    int transactions; /* whose end is there: 1 may have been written when the power failed */
};

/* Before the file is opened. */
int journal_check_log(const char *path, struct journal_tail *tail, struct error *error);

/* Read the totals, and compare all that recovery and duplicates depend on with them. */
int journal_check_totals(struct journal_store *store, struct journal_totals *totals,
                         struct error *error);
int journal_check_contents(struct journal_store *store, const struct journal_totals *totals,
                           struct error *error);

/* Whether the entries after `after` are all there, at both ends. */
int journal_check_range(const char *path, uint64_t after, uint64_t oldest, uint64_t newest,
                        struct error *error);

#endif
