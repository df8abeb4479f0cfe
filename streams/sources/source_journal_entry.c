/* An entry of systemd's journal as an example: its fields are columns, or words of it. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/text.h"
#include "feed_drain.h"
#include "feed_named.h"
#include "source_journal.h"

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

int journal_example(struct journal *journal, const char *cursor, struct step *step,
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
