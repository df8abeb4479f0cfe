#include "abnormal.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "announce.h"
#include "common/array.h"
#include "common/error.h"
#include "common/format.h"
#include "common/log.h"
#include "common/text.h"
#include "common/wire.h"
#include "left_out.h"
#include "parts.h"
#include "rollback.h"
#include "run.h"

enum { EXAMPLES = 32 }; /* The default; `normal` remembers as many. */

#define ROLLBACK_LIMITS                                                                            \
    "(state.checkpoint.keep and state.journal.keep limit how far back a rollback goes)"

/* ---- The request ---- */

struct wanted {
    const json_t *stream;
    const char *key;
    size_t key_size;
    double at;       /* time of the alarm; NaN: the newest */
    double from, to; /* times of data; NaN: not limited */
    uint64_t count;  /* examples at most; UINT64_MAX with `to` */
};

static bool read_time(const json_t *request, const char *name, double *time) {
    const json_t *value = json_object_get(request, name);
    *time = json_is_number(value) ? json_number_value(value) : (double)NAN;
    return !value || json_is_number(value);
}

static int read_request(const json_t *request, struct wanted *wanted, struct error *error) {
    const json_t *count = json_object_get(request, "count");
    *wanted = (struct wanted){.stream = json_object_get(request, "stream"), .count = EXAMPLES};
    wanted->key = json_string_value(wanted->stream);
    wanted->key_size = json_string_length(wanted->stream);
    bool good =
        wanted->key && wanted->key_size <= WIRE_KEY_MAX && read_time(request, "at", &wanted->at) &&
        read_time(request, "from", &wanted->from) && read_time(request, "to", &wanted->to) &&
        (!count || (json_is_integer(count) && json_integer_value(count) > 0));
    if (!good || (!isnan(wanted->at) && !isnan(wanted->from)) || (count && !isnan(wanted->to)))
        return error_set(error, EX_USAGE,
                         "abnormal: expected a stream of at most %d bytes, for example "
                         "{\"command\": \"abnormal\", \"stream\": \"host-3\", \"at\": 1769860800}; "
                         "optional: `at` or `from` (times), `count` or `to`",
                         WIRE_KEY_MAX);
    if (count)
        wanted->count = (uint64_t)json_integer_value(count);
    else if (!isnan(wanted->to))
        wanted->count = UINT64_MAX;
    return 0;
}

/* ---- The stream's examples in the journal ---- */

struct sent {
    uint64_t position, steps;
    double time; /* time of the data, 0 = unknown */
};

struct search {
    struct daemon *daemon;
    const struct wanted *wanted;
    uint64_t begin, entries;
    struct left_out list; /* rollbacks up to this entry */
    struct sent *examples;
    size_t count, capacity;
};

static int note_example(struct search *search, const struct journal_entry *entry,
                        struct error *error) {
    if (!array_reserve(&search->examples, &search->capacity, search->count + 1,
                       sizeof *search->examples))
        return error_no_memory(error);
    search->examples[search->count++] =
        (struct sent){.position = entry->position,
                      .steps = entry->example.steps,
                      .time = entry->example.numbered ? entry->example.time : 0};
    return 0;
}

static int visit(void *context, struct journal_entry *entry, struct error *error) {
    struct search *search = context;
    const struct wanted *wanted = search->wanted;
    if (rollback_check_signals(search->daemon, &search->entries, error))
        return -1;
    if (entry->kind == JOURNAL_ROLLBACK)
        return left_out_note(&search->list, entry, error);
    if (entry->command || entry->example.label || entry->example.key_size != wanted->key_size ||
        memcmp(entry->example.key, wanted->key, wanted->key_size) != 0)
        return 0;
    return note_example(search, entry, error);
}

/* Removes examples that an earlier rollback leaves out. */
static void drop_left_out(struct search *search) {
    size_t count = 0;
    for (size_t n = 0; n < search->count; n++) {
        const struct journal_entry entry = {.position = search->examples[n].position,
                                            .example.key = search->wanted->key,
                                            .example.key_size = search->wanted->key_size};
        if (!left_out_has(&search->list, &entry))
            search->examples[count++] = search->examples[n];
    }
    search->count = count;
}

/* Collects the examples that were learned after the entry at `begin`. */
static int collect(struct search *search, uint64_t begin, struct error *error) {
    left_out_free(&search->list);
    search->count = 0;
    search->begin = begin;
    if (journal_replay(search->daemon->journal, begin, visit, search, error))
        return -1;
    drop_left_out(search);
    return 0;
}

/* Lists where a rollback can begin, newest first, and returns the count. */
static size_t list_begins(const struct daemon *daemon, uint64_t begins[CHECKPOINT_KEEP_MAX + 1]) {
    struct checkpoint_kept kept[CHECKPOINT_KEEP_MAX + 1];
    struct journal_figures journal;
    journal_figures(daemon->journal, &journal);
    size_t count = checkpoint_list(daemon->checkpoint, kept), usable = 0;
    for (; usable < count && kept[usable].position + 1 >= journal.oldest; usable++)
        begins[usable] = kept[usable].position;
    return usable;
}

/* Returns the example with the step that is `ago` steps before the last; SIZE_MAX: not found. */
static size_t find_step(const struct search *search, uint64_t ago) {
    for (size_t n = search->count; n-- > 0;) {
        if (search->examples[n].steps > ago)
            return n;
        ago -= search->examples[n].steps;
    }
    return SIZE_MAX;
}

static int no_checkpoint(struct error *error) {
    return error_set(error, EX_UNAVAILABLE, "cannot roll back: no checkpoint found");
}

/* Collects the fewest examples that include the alarm. */
static int find_alarm(struct search *search, uint64_t ago, size_t *found, struct error *error) {
    uint64_t begins[CHECKPOINT_KEEP_MAX + 1];
    char quoted[TEXT_QUOTE_SIZE];
    size_t count = list_begins(search->daemon, begins), n = 0;
    *found = SIZE_MAX;
    for (; n < count && *found == SIZE_MAX; n++) {
        if (collect(search, begins[n], error))
            return -1;
        *found = find_step(search, ago);
    }
    if (*found < SIZE_MAX)
        return 0;
    if (n == 0)
        return no_checkpoint(error);
    return error_set(error, EX_UNAVAILABLE,
                     "cannot roll back the alarm of stream %s: it is older than entry %" PRIu64
                     " of the journal, where the oldest checkpoint ends " ROLLBACK_LIMITS,
                     text_quote(quoted, search->wanted->key, search->wanted->key_size),
                     begins[n - 1] + 1);
}

/* Collects as far back as possible: data can arrive in any order. */
static int find_time(struct search *search, struct error *error) {
    uint64_t begins[CHECKPOINT_KEEP_MAX + 1];
    size_t count = list_begins(search->daemon, begins);
    return count == 0 ? no_checkpoint(error) : collect(search, begins[count - 1], error);
}

/* ---- Choosing examples ---- */

/* `to` includes its whole second, as times are displayed. */
static bool is_wanted(const struct wanted *wanted, const struct sent *example) {
    return (isnan(wanted->from) || (example->time > 0 && example->time >= wanted->from)) &&
           (isnan(wanted->to) || (example->time > 0 && example->time < floor(wanted->to) + 1));
}

struct chosen {
    uint64_t count;
    double from, to; /* times of the data, 0 = unknown */
    json_t *spans;   /* the field of a rollback */
};

static void choose(const struct search *search, size_t begin, struct chosen *chosen) {
    const struct wanted *wanted = search->wanted;
    json_t *span = NULL;
    *chosen = (struct chosen){.spans = json_array()};
    for (size_t n = begin; n < search->count && chosen->count < wanted->count; n++) {
        const struct sent *example = &search->examples[n];
        if (!is_wanted(wanted, example)) {
            span = NULL;
            continue;
        }
        if (span) {
            json_array_set_new(span, 1, json_integer((json_int_t)example->position));
        } else {
            span = json_pack("[I, I, O]", (json_int_t)example->position,
                             (json_int_t)example->position, wanted->stream);
            json_array_append_new(chosen->spans, span);
            chosen->from = chosen->count == 0 ? example->time : chosen->from;
        }
        chosen->to = example->time;
        chosen->count++;
    }
}

static int check_chosen(const struct search *search, const struct chosen *chosen,
                        struct error *error) {
    char quoted[TEXT_QUOTE_SIZE];
    text_quote(quoted, search->wanted->key, search->wanted->key_size);
    if (chosen->count == 0)
        return error_set(error, EX_USAGE,
                         "after entry %" PRIu64
                         " the journal has no example of stream %s in this time span; earlier "
                         "examples cannot be rolled back " ROLLBACK_LIMITS,
                         search->begin, quoted);
    if (json_array_size(chosen->spans) > ROLLBACK_CHOICES)
        return error_set(error, EX_USAGE,
                         "the examples of stream %s in this time span form %zu spans of the "
                         "journal, expected at most %d; choose a shorter time span",
                         quoted, json_array_size(chosen->spans), ROLLBACK_CHOICES);
    return 0;
}

static int find(struct search *search, const struct anomaly_kept *alarm, struct chosen *chosen,
                struct error *error) {
    size_t begin = 0;
    if (isnan(search->wanted->from) ? find_alarm(search, alarm->ago, &begin, error)
                                    : find_time(search, error))
        return -1;
    choose(search, begin, chosen);
    return check_chosen(search, chosen, error);
}

/* ---- The rollback ---- */

static json_t *time_of(double time) {
    return time > 0 ? json_real(time) : json_null();
}

static json_t *describe(const struct wanted *wanted, const struct anomaly_kept *alarm,
                        const struct chosen *chosen, const struct rollback_report *report) {
    json_t *details = rollback_details(report);
    json_object_set(details, "stream", (json_t *)wanted->stream);
    json_object_set_new(details, "data_time", time_of(alarm->time));
    json_object_set_new(details, "score",
                        isnan(alarm->score) ? json_null() : json_real(alarm->score));
    json_object_set_new(details, "from", time_of(chosen->from));
    json_object_set_new(details, "to", time_of(chosen->to));
    json_object_set_new(details, "left_out", json_integer((json_int_t)chosen->count));
    return details;
}

static void announce_abnormal(struct daemon *daemon, const struct wanted *wanted,
                              const struct chosen *chosen, const json_t *details) {
    char text[ERROR_TEXT_SIZE], quoted[TEXT_QUOTE_SIZE], span[3 * FORMAT_SIZE] = "";
    char from[FORMAT_SIZE], to[FORMAT_SIZE];
    bool one = chosen->count == 1;
    if (chosen->from > 0 && chosen->to > 0)
        snprintf(span, sizeof span, ", %s to %s", format_date(from, chosen->from),
                 format_date(to, chosen->to));
    snprintf(text, sizeof text,
             "%" PRIu64 " example%s of stream %s%s %s marked as abnormal: not learned",
             chosen->count, text_s(chosen->count),
             text_quote(quoted, wanted->key, wanted->key_size), span, one ? "is" : "are");
    announce_logged(daemon, log_info, "abnormal", json_deep_copy(details), "%s", text);
}

/* Returns the same as rollback_perform. */
static int roll_back(struct daemon *daemon, const json_t *request, const struct wanted *wanted,
                     const struct anomaly_kept *alarm, json_t **details, struct error *error) {
    struct search search = {.daemon = daemon, .wanted = wanted};
    struct chosen chosen = {0};
    struct rollback_report report;
    int result = 1;
    if (find(&search, alarm, &chosen, error) == 0) {
        bool dry_run = json_is_true(json_object_get(request, "dry_run"));
        json_t *rollback = json_pack("{s:O, s:b}", "spans", chosen.spans, "dry_run", (int)dry_run);
        result = rollback_perform(daemon, rollback, &report, error);
        json_decref(rollback);
        if (result == 0)
            *details = describe(wanted, alarm, &chosen, &report);
        if (result == 0 && !dry_run)
            announce_abnormal(daemon, wanted, &chosen, *details);
    }
    left_out_free(&search.list);
    free(search.examples);
    json_decref(chosen.spans);
    return result;
}

/* Returns the same as rollback_perform. */
static int find_kept(struct daemon *daemon, const struct wanted *wanted, struct anomaly_kept *alarm,
                     struct error *error) {
    struct error why;
    int result =
        learner_find_alarm(daemon->learner, wanted->key, wanted->key_size, wanted->at, alarm, &why);
    if (result > 0)
        error_set(error, why.status, "%s; or pass a time span (from, to), which needs no alarm",
                  why.text);
    else if (result < 0)
        *error = why;
    return result < 0 ? run_break(daemon) : result;
}

int abnormal_command(void *context, const json_t *request, struct control_answer *answer,
                     struct error *error) {
    struct daemon *daemon = context;
    struct anomaly_kept alarm = {.score = NAN};
    struct wanted wanted;
    json_t *details = NULL;
    if (read_request(request, &wanted, error))
        return -1;
    int result = rollback_prepare(daemon, error);
    if (result == 0) {
        if (isnan(wanted.from))
            result = find_kept(daemon, &wanted, &alarm, error);
        if (result == 0)
            result = roll_back(daemon, request, &wanted, &alarm, &details, error);
        rollback_finish(daemon);
    }
    if (result < 0)
        return run_fail(daemon, error);
    if (result > 0)
        return -1;
    json_object_update_new(answer->fields, details);
    json_object_set_new(answer->fields, "examples",
                        json_integer((json_int_t)daemon_examples(daemon)));
    return 0;
}
