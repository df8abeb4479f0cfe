/* Entries of systemd's journal. Chosen fields are the columns of an example; MESSAGE becomes a
   template (feed_drain.h). Without fields, the template of MESSAGE is a symbol.

   The cursor of an entry has its number and the ID of its server, which become the example's number
   and producer. So an entry that is sent again, for example after a kill, is a duplicate. The
   journal does not store its readers' positions: the cursor file has the last settled entry. */
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

   A file with one line: the source's position as its server prints it. */

/* Reads the file, to be freed; NULL if it does not exist. Returns -1 on EX_NOINPUT or
   EX_DATAERR. */
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
    return empty ? error_set(error, EX_DATAERR, "%s: empty file; remove it to begin from scratch",
                             path)
                 : error_set(error, EX_NOINPUT, "%s: cannot read: %s", path, strerror(problem));
}

/* Writes the file and waits for the disk; on an error, the old file remains (EX_IOERR). */
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
    return good ? 0 : error_set(error, EX_IOERR, "%s: cannot write: %s", path, strerror(problem));
}

#define US_PER_SECOND 1e6
#define JOURNAL_MESSAGE "MESSAGE" /* the field for the template */

enum {
    JOURNAL_FIELDS_MAX = 256,
    JOURNAL_FIELD_SIZE = 65,                /* name of a field with its terminator */
    JOURNAL_VALUE_MAX = 4 * DRAIN_LINE_MAX, /* used bytes of a field */
};

struct journal_field {
    char name[JOURNAL_FIELD_SIZE];
    bool word;
};

struct journal {
    struct source source; /* in `pending`, `what` is the cursor */
    const char *directory, *since, *stream_field, *cursor_file, *file;
    struct option_list matches, units;
    uint64_t templates;
    bool stop; /* end at the newest entry */

    struct journal_field fields[JOURNAL_FIELDS_MAX]; /* (count,) */
    size_t count;
    uint64_t filter;     /* hash of all matches in any order; part of the producer */
    struct drain *drain; /* NULL: MESSAGE is not used */
    sd_journal *journal;
    char *cursor; /* the entry to begin after; NULL: done, or none */
    char *saved;  /* the newest settled cursor that is not in the file yet, or NULL */
    double saved_at;
    bool none_reported;
    struct payload *payload;
    struct message_number number;
    char value[JOURNAL_VALUE_MAX + 1]; /* of the newest field */
};

/* Sets the error "cannot WHAT the journal". */
static int journal_fail(int code, const char *what, struct error *error) {
    return error_set(error, EX_IOERR, "cannot %s the journal: %s", what, strerror(-code));
}

enum {
    SERVER_SIZE = 33,              /* ID of the server: 32 hexadecimal digits */
    WORD_SIZE = WIRE_WORD_MAX + 1, /* also of stream names */
};

/* Reads the entry's field into `value`, terminated, at most JOURNAL_VALUE_MAX bytes. Returns 1, 0
   if it has none, or -1. */
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

/* Reads a field as a word or stream name. */
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

/* Reads a column as JSON; NULL without an error: missing. */
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

/* Reads the entry's x as JSON; NULL without an error: missing. */
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

/* Returns the entry's stream name, valid until another field is read. */
static int read_key(struct journal *journal, const char **key, struct error *error) {
    *key = journal->source.label;
    if (!journal->stream_field)
        return 0;
    int has = read_word(journal, journal->stream_field, error);
    *key = has > 0 ? journal->value : "-";
    return has < 0 ? -1 : 0;
}

/* Parses "s=SERVER;i=NUMBER;..": before version 254, the library has no other access to the
   number. */
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

#define SAVE_SECONDS 1.0 /* seconds between two writes of the cursor file */

enum { TEMPLATES_DEFAULT = 1000, TEMPLATES_MAX = 1 << 20 };

static void set_defaults(struct source *source) {
    struct journal *journal = (struct journal *)source;
    journal->templates = TEMPLATES_DEFAULT;
}

/* ---- Options ---- */

/* Parses --fields and --words, in any order. */
static int parse_fields(void *values, const struct option_row *row, const char *text,
                        struct error *error) {
    struct journal *journal = values;
    bool words = strcmp(row->name, "words") == 0;
    for (const char *name = text; *name; name += strcspn(name, ","), name += *name == ',') {
        size_t size = strcspn(name, ","), i = 0;
        if (size == 0 || size >= JOURNAL_FIELD_SIZE)
            return error_set(error, EX_USAGE, "--%s: expected field names, got '%s'", row->name,
                             text);
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
     "columns of x: numbers, words, and the template's id for MESSAGE (default: only that id)",
     OPTION_TAKE(parse_fields)},
    {"words", 0, "FIELD,...",
     "columns of x with words, even those that look like numbers; - if an entry has none",
     OPTION_TAKE(parse_fields)},
    {"stream-field", 0, "FIELD", "the field with the stream name (default: one stream, journal)",
     OPTION_TEXT(struct journal, stream_field)},
    {"unit", 0, "UNIT", "only entries of this unit's processes; may be repeated",
     OPTION_LIST(struct journal, units, OPTION_LIST_MAX)},
    {"match", 0, "FIELD=VALUE",
     "only entries with this value; repeated: any of a field's values, for each field",
     OPTION_LIST(struct journal, matches, OPTION_LIST_MAX)},
    {"since", 0, "TIME",
     "without a cursor, begin with entries of this time: now, 2026-11-23 12:00:00, 31.12.2026 or "
     "Unix time; UTC unless it has a zone (default: the first entry)",
     OPTION_TEXT(struct journal, since)},
    {"cursor-file", 0, "FILE",
     "file with the position up to which the daemon has all entries; begin after it",
     OPTION_FILE(struct journal, cursor_file)},
    {"directory", 'D', "DIRECTORY", "directory of the journal's files (default: this machine's)",
     OPTION_DIRECTORY(struct journal, directory)},
    {"no-follow", 0, NULL, "end at the newest entry instead of waiting for more",
     OPTION_FLAG(struct journal, stop)},
    {"templates", 0, "N",
     "ids of templates are below N; entries that fit none of the first N - 1 share the last one "
     "(default 1000)",
     OPTION_COUNT(struct journal, templates, 2, TEMPLATES_MAX)},
    {"templates-file", 0, "FILE", "file of the templates: later calls use the same ids",
     OPTION_FILE(struct journal, file)},
    PAYLOAD_OPTIONS(struct journal),
    OPTIONS_END,
};

/* ---- The journal ---- */

static int add_match(struct journal *journal, const char *match, struct error *error) {
    int code = strchr(match, '=') ? sd_journal_add_match(journal->journal, match, 0) : -EINVAL;
    journal->filter += broker_producer("match", match, NULL);
    return code < 0 ? error_set(error, EX_USAGE, "--match: expected FIELD=VALUE, got '%s'", match)
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

/* The library checks names of fields by its own rules, even before there is an entry. */
static int check_field(struct journal *journal, const char *option, const char *name,
                       struct error *error) {
    const void *data;
    size_t size;
    if (sd_journal_get_data(journal->journal, name, &data, &size) != -EINVAL)
        return 0;
    return error_set(error, EX_USAGE,
                     "%s: invalid field name '%s': expected capital letters, digits and _, such as "
                     "PRIORITY, without __ at the beginning",
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
    struct time_reader reader = {.option = "or now", .name = "--since", .report = feed_print};
    char why[TIME_WHY_SIZE];
    double time = clock_unix();
    const char *since = journal->since;
    if (since && strcmp(since, "now") != 0 && !time_read(&reader, since, &time, why))
        return reader.unclear ? error_set(error, EX_USAGE,
                                          "--since: ambiguous time '%s'; expected now or a time "
                                          "such as 2026-11-23 12:00:00, 31.12.2026 or Unix time",
                                          since)
                              : error_set(error, EX_USAGE, "--since: %s", why);
    uint64_t begin = (uint64_t)fmin(fmax(time, 0) * US_PER_SECOND, (double)INT64_MAX);
    int code = journal->cursor ? sd_journal_seek_cursor(journal->journal, journal->cursor)
               : since         ? sd_journal_seek_realtime_usec(journal->journal, begin)
                               : sd_journal_seek_head(journal->journal);
    if (code == -EINVAL && journal->cursor)
        return error_set(error, EX_DATAERR, "--cursor-file: invalid cursor in %s",
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
                         "--cursor-file: requires --templates-file, so that later calls use the "
                         "same template ids");
    int code = journal->directory
                   ? sd_journal_open_directory(&journal->journal, journal->directory, 0)
                   : sd_journal_open(&journal->journal, SD_JOURNAL_LOCAL_ONLY);
    if (code < 0)
        return error_set(error, EX_NOINPUT, "%s: cannot open the journal: %s",
                         journal->directory ? journal->directory : "this machine", strerror(-code));
    source->once = true;
    code = journal->stop ? 0 : sd_journal_get_fd(journal->journal); /* it is watched from now on */
    if (code < 0)
        return journal_fail(code, "watch", error);
    if (check_fields(journal, error) < 0 || add_matches(journal, error) < 0 ||
        (journal->cursor_file && cursor_read(journal->cursor_file, &journal->cursor, error) < 0) ||
        seek(journal, error) < 0 || pending_open(&journal->source.pending, error) < 0 ||
        payload_open(&journal->payload, source, error) < 0)
        return -1;
    return template
               ? drain_open(&journal->drain, (uint32_t)journal->templates, journal->file, error)
               : 0;
}

/* ---- Progress ---- */

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

/* ---- Entries ---- */

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

/* Waits for entries, and handles the daemon's answers meanwhile. */
static int rest(struct journal *journal, struct error *error) {
    uint64_t bytes = 0;
    sd_journal_get_usage(journal->journal, &bytes);
    if (bytes == 0 && !journal->none_reported)
        feed_print(
            "no readable journal files (is this user in the group systemd-journal?); waiting "
            "for some");
    journal->none_reported |= bytes == 0;
    if (feed_await(sd_journal_get_fd(journal->journal), false, SAVE_SECONDS, error) < 0)
        return -1;
    int code = sd_journal_process(journal->journal);
    return code < 0 ? journal_fail(code, "watch", error) : 0;
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

static void close_journal(struct source *source) {
    struct journal *journal = (struct journal *)source;
    struct pending_id id;
    struct error error;
    if (journal->source.pending) {
        take_settled(journal);
        if (save(journal, &error) < 0)
            feed_print("%s; the next call sends entries again that the daemon has, which it treats "
                       "as duplicates",
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
}

const struct source_type source_journal = {
    .command = {"journal", "", "entries of systemd's journal", .rows = OPTIONS},
    .notes = "Without --fields, an entry is the template of its MESSAGE, like a line of "
             "runnel-feed lines. The number of an entry is the example's number, so entries that "
             "are sent again are not learned again.",
    .endless = true,
    .ready = true,
    .size = sizeof(struct journal),
    .set_defaults = set_defaults,
    .open = open_journal,
    .next = next,
    .settled = broker_settled,
    .close = close_journal,
};
