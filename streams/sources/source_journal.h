/* What the files of the source `journal` share: source_journal.c reads the journal,
   source_journal_entry.c makes an example of an entry. */
#ifndef RUNNEL_SOURCE_JOURNAL_H
#define RUNNEL_SOURCE_JOURNAL_H

#include <stdint.h>

#include <systemd/sd-journal.h>

#include "feed_drain.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

#define US_PER_SECOND 1e6
#define JOURNAL_MESSAGE "MESSAGE" /* the field that becomes a template */

enum {
    JOURNAL_FIELDS_MAX = 256,
    JOURNAL_FIELD_SIZE = 65,                /* a name, and its terminating zero */
    JOURNAL_VALUE_MAX = 4 * DRAIN_LINE_MAX, /* bytes of a field that are looked at */
};

struct journal_field {
    char name[JOURNAL_FIELD_SIZE];
    bool word;
};

struct journal {
    struct source source;
    const char *directory, *since, *stream_field, *cursor_file, *file;
    struct option_list matches, units;
    uint64_t templates;
    bool stop; /* at the newest entry */

    struct journal_field fields[JOURNAL_FIELDS_MAX]; /* (count,) */
    size_t count;
    uint64_t filter;     /* what is matched, in any order: others' numbers are others' */
    struct drain *drain; /* NULL: MESSAGE is not asked for */
    sd_journal *journal;
    char *cursor; /* where to begin: after this one; NULL: that is done, or there is none */
    char *saved;  /* the newest that is settled, not yet in the file; or NULL */
    double saved_at;
    bool none_said;
    struct pending *pending; /* `what` is the cursor */
    struct payload *payload;
    struct message_number number;
    char value[JOURNAL_VALUE_MAX + 1]; /* of the newest field */
};

/* -1: "the journal cannot be WHAT", for what the library answers. */
int journal_fail(int code, const char *what, struct error *error);

/* The entry at hand, of that cursor, as an example, which is valid until the next one is read. 1:
   it is one; 0: it is none; -1. */
int journal_example(struct journal *journal, const char *cursor, struct step *step,
                    struct error *error);

#endif
