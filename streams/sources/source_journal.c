/* Entries of systemd's journal: chosen fields are the columns of an example, the template of
   MESSAGE (feed_drain.h) among them; without fields, that template alone is its symbol.

   The journal numbers its entries, and names who numbers them; both are in an entry's cursor. So an
   entry's number is the example's, and what is sent a second time, as after a kill, is a duplicate.
   The journal remembers no readers: how far all is settled is in the file of the cursor. */
#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <systemd/sd-journal.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/error.h"
#include "common/moment.h"
#include "common/sync.h"
#include "common/text.h"
#include "feed_drain.h"
#include "feed_named.h"
#include "streams/feed.h"
#include "streams/sources/broker.h"
#include "streams/sources/payload.h"

/* ---- Cursor ----

   A file with one line: how far a source has been read, as its server names the place. */

/* What is in it, to be freed; NULL where there is no such file. -1 (EX_NOINPUT, EX_DATAERR). */
static int cursor_read(const char *path, char **cursor, struct error *error) {
    size_t capacity = 0;
    FILE *file = fopen(path, "re");
    *cursor = NULL;
    if (!file && errno == ENOENT)
        return 0;
    ssize_t size = file ? getline(cursor, &capacity, file) : -1;
    int problem = errno;
    bool empty = file && size < 0 && feof(file);
    if (file)
        fclose(file);
    if (size >= 0) {
        (*cursor)[strcspn(*cursor, "\n")] = '\0';
        return 0;
    }
    free(*cursor);
    *cursor = NULL;
    return empty ? error_set(error, EX_DATAERR, "%s: it is empty; remove it to begin anew", path)
                 : error_set(error, EX_NOINPUT, "%s: cannot be read: %s", path, strerror(problem));
}

/* Put it there: it is on the disk then, or that of before is still there (EX_IOERR). */
static int cursor_write(const char *path, const char *cursor, struct error *error) {
    char *name;
    if (asprintf(&name, "%s.new", path) < 0)
        return error_no_memory(error);
    FILE *file = fopen(name, "we");
    bool good = file && fprintf(file, "%s\n", cursor) > 0 && fflush(file) == 0 &&
                fdatasync(fileno(file)) == 0;
    int problem = errno;
    if (file && fclose(file) != 0)
        good = false;
    if (good && (rename(name, path) < 0 || sync_directory_of(path) < 0)) {
        problem = errno;
        good = false;
    }
    free(name);
    return good ? 0
                : error_set(error, EX_IOERR, "%s: cannot be written: %s", path, strerror(problem));
}

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
    struct source source; /* of `pending`, `what` is the cursor */
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
    struct payload *payload;
    struct message_number number;
    char value[JOURNAL_VALUE_MAX + 1]; /* of the newest field */
};

/* "the journal cannot be WHAT", for what the library answers. */
static int journal_fail(int code, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "the journal cannot be %s: %s", what, strerror(-code));
}

enum {
    SERVER_SIZE = 33,              /* who numbers entries: 32 hexadecimal digits */
    WORD_SIZE = WIRE_WORD_MAX + 1, /* that of names of streams, too */
};

/* The field of the entry, terminated, into `value`: at most JOURNAL_VALUE_MAX bytes of it. 1; 0: it
   has none; -1. */
static int read_field(struct journal *journal, const char *name, struct error *error) {
    const void *data;
    size_t size, skip = strlen(name) + 1;
    int code = sd_journal_get_data(journal->journal, name, &data, &size);
    if (code < 0 && code != -ENOENT)
        return journal_fail(code, "read", error);
    if (code < 0 || size < skip)
        return 0;
    size -= skip;
    if (size > JOURNAL_VALUE_MAX)
        size = JOURNAL_VALUE_MAX;
    memcpy(journal->value, (const char *)data + skip, size);
    for (char *zero = journal->value;
         (zero = memchr(zero, '\0', size - (size_t)(zero - journal->value)));)
        *zero = ' ';
    journal->value[size] = '\0';
    return 1;
}

/* The same as a word, or a name of a stream. */
static int read_word(struct journal *journal, const char *name, struct error *error) {
    char word[WORD_SIZE];
    int has = read_field(journal, name, error);
    if (has <= 0)
        return has;
    text_copy(word, sizeof word, journal->value);
    strcpy(journal->value, word);
    return 1;
}

static int read_template(struct journal *journal, json_t **id, struct error *error) {
    uint32_t number;
    *id = NULL;
    int has = read_field(journal, JOURNAL_MESSAGE, error);
    if (has <= 0)
        return has;
    if (drain_id(journal->drain, journal->value, &number, error) < 0)
        return -1;
    *id = json_integer(number);
    return 0;
}

/* A column as JSON, NULL and no error: it is missing. */
static int read_column(struct journal *journal, const struct journal_field *field, json_t **value,
                       struct error *error) {
    static const struct columns TABLE = {.missing = MISSING_WORDS};
    *value = NULL;
    if (strcmp(field->name, JOURNAL_MESSAGE) == 0)
        return read_template(journal, value, error);
    int has = read_word(journal, field->name, error);
    if (has < 0)
        return -1;
    if (has && (field->word ? *journal->value : !cell_missing(&TABLE, journal->value)))
        *value = named_value(journal->value, field->word);
    else if (field->word)
        *value = json_string("-");
    return 0;
}

/* The entry's x as JSON, NULL and no error: it has none. */
static int read_x(struct journal *journal, json_t **x, struct error *error) {
    if (journal->count == 0)
        return read_template(journal, x, error);
    if (!(*x = json_object()))
        return error_no_memory(error);
    for (size_t i = 0; i < journal->count; i++) {
        json_t *value;
        if (read_column(journal, &journal->fields[i], &value, error) < 0)
            return -1;
        if (value)
            json_object_set_new(*x, journal->fields[i].name, value);
    }
    if (json_object_size(*x) == 0) {
        json_decref(*x);
        *x = NULL;
    }
    return 0;
}

/* The name of the entry's stream, until another field is read. */
static int read_key(struct journal *journal, const char **key, struct error *error) {
    *key = journal->source.label;
    if (!journal->stream_field)
        return 0;
    int has = read_word(journal, journal->stream_field, error);
    *key = has > 0 ? journal->value : "-";
    return has < 0 ? -1 : 0;
}

/* "s=SERVER;i=NUMBER;..": before its version 254 the library tells the number nowhere else. */
static int number_entry(struct journal *journal, const char *cursor, struct error *error) {
    char server[SERVER_SIZE];
    unsigned long long number;
    if (sscanf(cursor, "s=%32[0-9a-f];i=%llx", server, &number) != 2)
        return error_set(error, EX_DATAERR, "the journal's cursor '%s' has no number", cursor);
    journal->number = (struct message_number){
        .producer = broker_producer("journal", server, NULL) ^ journal->filter, .sequence = number};
    return 0;
}

static int journal_example(struct journal *journal, const char *cursor, struct step *step,
                           struct error *error) {
    json_t *x = NULL;
    const char *key;
    uint64_t time = 0;
    if (number_entry(journal, cursor, error) < 0 || read_x(journal, &x, error) < 0 ||
        read_key(journal, &key, error) < 0) {
        json_decref(x);
        return -1;
    }
    if (!x)
        return 0;
    char *text = json_dumps(x, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(x);
    if (!text)
        return error_no_memory(error);
    sd_journal_get_realtime_usec(journal->journal, &time);
    const struct message message = {.id = cursor,
                                    .key = key,
                                    .key_size = strlen(key),
                                    .bytes = text,
                                    .size = strlen(text),
                                    .time = (double)time / US_PER_SECOND,
                                    .number = &journal->number};
    int status = payload_step(journal->payload, &message, step, error);
    free(text);
    return status;
}

#define SAVE_SECONDS 1.0 /* between two cursors that are saved */

enum { TEMPLATES_DEFAULT = 1000, TEMPLATES_MAX = 1 << 20 };

static struct source *create(void) {
    struct journal *journal = calloc(1, sizeof *journal);
    if (!journal)
        return NULL;
    journal->templates = TEMPLATES_DEFAULT;
    return &journal->source;
}

/* ---- options ---- */

/* --fields and --words, in this order or the other. */
static int take_fields(void *values, const struct option_row *row, const char *text,
                       struct error *error) {
    struct journal *journal = values;
    bool words = strcmp(row->name, "words") == 0;
    for (const char *name = text; *name; name += strcspn(name, ","), name += *name == ',') {
        size_t size = strcspn(name, ","), i = 0;
        if (size == 0 || size >= JOURNAL_FIELD_SIZE)
            return error_set(error, EX_USAGE, "--%s: found '%s', expected names of fields",
                             row->name, text);
        while (i < journal->count &&
               (strncmp(journal->fields[i].name, name, size) != 0 || journal->fields[i].name[size]))
            i++;
        if (i == JOURNAL_FIELDS_MAX)
            return error_set(error, EX_USAGE, "--%s: more than %d fields", row->name,
                             JOURNAL_FIELDS_MAX);
        memcpy(journal->fields[i].name, name, size);
        journal->fields[i].word |= words;
        journal->count += i == journal->count;
    }
    return 0;
}

static const struct option_row OPTIONS[] = {
    {"fields", 0, "FIELD,...",
     "columns of x: numbers, words, and of MESSAGE the template's id (default: x is that id alone)",
     OPTION_TAKE(take_fields)},
    {"words", 0, "FIELD,...",
     "likewise, and they are words also where they look like numbers; - where an entry has none",
     OPTION_TAKE(take_fields)},
    {"stream-field", 0, "FIELD", "the field that names the stream (default: all are one, journal)",
     OPTION_TEXT(struct journal, stream_field)},
    {"unit", 0, "UNIT", "only what this unit's processes have said; may be repeated",
     OPTION_LIST(struct journal, units, OPTION_LIST_MAX)},
    {"match", 0, "FIELD=VALUE",
     "only entries like this; repeated: one of a field's values, of each field that is named",
     OPTION_LIST(struct journal, matches, OPTION_LIST_MAX)},
    {"since", 0, "TIME",
     "begin with entries of this time, now, 2026-11-23 12:00:00, 31.12.2026 or Unix time, UTC "
     "unless it has a zone; not where there is a cursor (default: with the first)",
     OPTION_TEXT(struct journal, since)},
    {"cursor-file", 0, "FILE", "keep there how far the daemon has all, and begin after that",
     OPTION_FILE(struct journal, cursor_file)},
    {"directory", 'D', "DIRECTORY", "the journal's files are there (default: this machine's)",
     OPTION_DIRECTORY(struct journal, directory)},
    {"no-follow", 0, NULL, "end with the newest entry, instead of waiting for others",
     OPTION_FLAG(struct journal, stop)},
    {"templates", 0, "N",
     "ids of templates are below N; the last one is shared by what fits none of the first N - 1 "
     "(default 1000)",
     OPTION_COUNT(struct journal, templates, 2, TEMPLATES_MAX)},
    {"templates-file", 0, "FILE", "keep templates there: another call gives the same ids",
     OPTION_FILE(struct journal, file)},
    PAYLOAD_OPTIONS(struct journal),
    OPTIONS_END,
};

/* ---- the journal ---- */

static int add_match(struct journal *journal, const char *match, struct error *error) {
    int code = strchr(match, '=') ? sd_journal_add_match(journal->journal, match, 0) : -EINVAL;
    journal->filter += broker_producer("match", match, NULL);
    return code < 0 ? error_set(error, EX_USAGE, "--match: found '%s', expected FIELD=VALUE", match)
                    : 0;
}

static int add_matches(struct journal *journal, struct error *error) {
    for (size_t i = 0; i < journal->matches.count; i++)
        if (add_match(journal, journal->matches.values[i], error) < 0)
            return -1;
    for (size_t i = 0; i < journal->units.count; i++) {
        const char *unit = journal->units.values[i];
        snprintf(journal->value, sizeof journal->value, "_SYSTEMD_UNIT=%s%s", unit,
                 strchr(unit, '.') ? "" : ".service");
        if (add_match(journal, journal->value, error) < 0)
            return -1;
    }
    return 0;
}

/* The library has a rule for names of fields, and says so before there is an entry. */
static int check_field(struct journal *journal, const char *option, const char *name,
                       struct error *error) {
    const void *data;
    size_t size;
    if (sd_journal_get_data(journal->journal, name, &data, &size) != -EINVAL)
        return 0;
    return error_set(error, EX_USAGE,
                     "%s: no field of the journal can be called '%s': expected capital letters, "
                     "digits and _, as in PRIORITY, without __ at the beginning",
                     option, name);
}

static int check_fields(struct journal *journal, struct error *error) {
    for (size_t i = 0; i < journal->count; i++) {
        const struct journal_field *field = &journal->fields[i];
        if (check_field(journal, field->word ? "--words" : "--fields", field->name, error) < 0)
            return -1;
    }
    return journal->stream_field
               ? check_field(journal, "--stream-field", journal->stream_field, error)
               : 0;
}

static int seek(struct journal *journal, struct error *error) {
    struct time_reader reader = {.option = "or now", .name = "--since", .say = feed_say};
    char why[TIME_WHY_SIZE];
    double time = clock_unix();
    const char *since = journal->since;
    if (since && strcmp(since, "now") != 0 && !time_read(&reader, since, &time, why))
        return reader.unclear
                   ? error_set(error, EX_USAGE,
                               "--since: '%s' has two meanings: give now or a time as 2026-11-23 "
                               "12:00:00, 31.12.2026 or Unix time",
                               since)
                   : error_set(error, EX_USAGE, "--since: %s", why);
    uint64_t begin = (uint64_t)fmin(fmax(time, 0) * US_PER_SECOND, (double)INT64_MAX);
    int code = journal->cursor ? sd_journal_seek_cursor(journal->journal, journal->cursor)
               : since         ? sd_journal_seek_realtime_usec(journal->journal, begin)
                               : sd_journal_seek_head(journal->journal);
    if (code == -EINVAL && journal->cursor)
        return error_set(error, EX_DATAERR, "--cursor-file: what is in %s is no cursor",
                         journal->cursor_file);
    return code < 0 ? journal_fail(code, "read", error) : 0;
}

static int open_journal(struct source *source, char **operands, struct error *error) {
    struct journal *journal = (struct journal *)source;
    (void)operands;
    bool template = journal->count == 0;
    for (size_t i = 0; i < journal->count; i++)
        template |= strcmp(journal->fields[i].name, JOURNAL_MESSAGE) == 0;
    if (template && journal->cursor_file && !journal->file)
        return error_set(error, EX_USAGE,
                         "--cursor-file: the next call continues, and needs the same ids of "
                         "templates: give --templates-file, too");
    int code = journal->directory
                   ? sd_journal_open_directory(&journal->journal, journal->directory, 0)
                   : sd_journal_open(&journal->journal, SD_JOURNAL_LOCAL_ONLY);
    if (code < 0)
        return error_set(error, EX_NOINPUT, "%s: there is no journal that can be opened: %s",
                         journal->directory ? journal->directory : "this machine", strerror(-code));
    source->once = true;
    code = journal->stop ? 0 : sd_journal_get_fd(journal->journal); /* from now on it is watched */
    if (code < 0)
        return journal_fail(code, "watched", error);
    if (check_fields(journal, error) < 0 || add_matches(journal, error) < 0 ||
        (journal->cursor_file && cursor_read(journal->cursor_file, &journal->cursor, error) < 0) ||
        seek(journal, error) < 0 || pending_open(&journal->source.pending, error) < 0 ||
        payload_open(&journal->payload, source, error) < 0)
        return -1;
    return template
               ? drain_open(&journal->drain, (uint32_t)journal->templates, journal->file, error)
               : 0;
}

/* ---- how far it is ---- */

static int save(struct journal *journal, struct error *error) {
    if (!journal->saved || !journal->cursor_file)
        return 0;
    int status = cursor_write(journal->cursor_file, journal->saved, error);
    free(journal->saved);
    journal->saved = NULL;
    journal->saved_at = clock_seconds();
    return status;
}

static void take_settled(struct journal *journal) {
    struct pending_id id;
    while (pending_take(journal->source.pending, &id)) {
        free(journal->saved);
        journal->saved = id.what;
    }
}

/* ---- from entry to entry ---- */

static int take(struct journal *journal, struct step *step, struct error *error) {
    char *cursor;
    int code = sd_journal_get_cursor(journal->journal, &cursor);
    if (code < 0)
        return journal_fail(code, "read", error);
    bool had = journal->cursor && sd_journal_test_cursor(journal->journal, journal->cursor) > 0;
    free(journal->cursor);
    journal->cursor = NULL;
    int taken = had ? 0 : journal_example(journal, cursor, step, error);
    const struct pending_id id = {.what = cursor};
    if (taken >= 0 && !had && pending_add(journal->source.pending, &id, taken, error) == 0)
        return taken;
    free(cursor);
    return had ? 0 : -1;
}

/* Wait for entries, and meanwhile for the daemon's answers. */
static int rest(struct journal *journal, struct error *error) {
    uint64_t bytes = 0;
    sd_journal_get_usage(journal->journal, &bytes);
    if (bytes == 0 && !journal->none_said)
        feed_say("there are no files of a journal that this user may read (see the group "
                 "systemd-journal); waiting for some");
    journal->none_said |= bytes == 0;
    if (feed_await(sd_journal_get_fd(journal->journal), false, SAVE_SECONDS, error) < 0)
        return -1;
    int code = sd_journal_process(journal->journal);
    return code < 0 ? journal_fail(code, "watched", error) : 0;
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct journal *journal = (struct journal *)source;
    for (;;) {
        take_settled(journal);
        if (clock_seconds() > journal->saved_at + SAVE_SECONDS && save(journal, error) < 0)
            return -1;
        int code = sd_journal_next(journal->journal);
        if (code < 0)
            return journal_fail(code, "read", error);
        if (code == 0 && journal->stop)
            return 0;
        int status = code > 0 ? take(journal, step, error) : rest(journal, error);
        if (status)
            return status;
    }
}

static void close_journal(struct source **source) {
    struct journal *journal = (struct journal *)*source;
    struct pending_id id;
    struct error error;
    if (journal->source.pending) {
        take_settled(journal);
        if (save(journal, &error) < 0)
            feed_say("%s; the next call sends again what the daemon has, and it answers that as "
                     "duplicates",
                     error.text);
        pending_settle(journal->source.pending, UINT64_MAX);
        while (pending_take(journal->source.pending, &id))
            free(id.what);
    }
    pending_close(&journal->source.pending);
    payload_close(&journal->payload);
    drain_close(&journal->drain);
    sd_journal_close(journal->journal);
    free(journal->cursor);
    free(journal->saved);
    free(journal);
    *source = NULL;
}

const struct source_type source_journal = {
    .command = {"journal", "", "entries of systemd's journal", .rows = OPTIONS},
    .notes = "Without --fields an entry is the template of its MESSAGE, as a line of runnel-feed "
             "lines. An entry's number is the example's: what is sent again is not learned again.",
    .endless = true,
    .ready = true,
    .create = create,
    .open = open_journal,
    .next = next,
    .settled = broker_settled,
    .close = close_journal,
};
