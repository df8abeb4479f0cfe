#include "ctl_print.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/fields.h"
#include "common/json_member.h"
#include "common/text.h"

enum { NAME_COLUMNS = 20, TEXT_SIZE = 1024, AFTER_SIZE = 64 };

/* A line of output. A line without a field begins a group, which is printed only if the reply has
   the group's object. */
struct line {
    const char *title;
    const struct field *field;
    const char *after;       /* unit or explanation of a number; NULL = none */
    format_function *format; /* NULL = that of the field */
};

#define EACH(name) &fields_of_each[EACH_##name]
#define STATUS(name) &fields_of_status[STATUS_##name]
#define LOSS(name) &fields_of_loss[FIELD_##name]

/* Age of the oldest entry that is not on disk; 0 when all are. */
static char *format_waiting(char text[FORMAT_SIZE], double seconds) {
    char number[FORMAT_SIZE];
    if (seconds > 0)
        snprintf(text, FORMAT_SIZE, "for %.20s", format_duration(number, seconds));
    else
        snprintf(text, FORMAT_SIZE, "none");
    return text;
}

/* Time without an answer from the broker; 0 = connected. */
static char *format_away(char text[FORMAT_SIZE], double seconds) {
    char since[FORMAT_SIZE];
    if (seconds > 0)
        snprintf(text, FORMAT_SIZE, "disconnected for %s", format_duration(since, seconds));
    else
        snprintf(text, FORMAT_SIZE, "connected");
    return text;
}

static const struct line lines[] = {
    {"name", STATUS(name), NULL, NULL},
    {"state", STATUS(state), NULL, NULL},
    {"uptime", STATUS(uptime), NULL, NULL},
    {"device", STATUS(device), NULL, NULL},
    {"threads", STATUS(threads), NULL, NULL},
    {"model", STATUS(model), NULL, NULL},
    {"parameters", STATUS(parameters), NULL, NULL},
    {"version", STATUS(version), NULL, NULL},
    {"digest", STATUS(digest), " of the configuration", NULL},
    {"seed", STATUS(seed), NULL, NULL},
    {"tags", STATUS(tags), NULL, NULL},
    {"run", EACH(run), NULL, NULL},
    {"resumed from", STATUS(resumed), NULL, NULL},
    {"state directory", STATUS(state_directory), NULL, NULL},
    {"examples at", STATUS(sockets_examples), NULL, NULL},
    {"statistics at", STATUS(sockets_statistics), NULL, NULL},
    {"control at", STATUS(sockets_control), NULL, NULL},
    {"checkpoint of", STATUS(checkpoint_examples), " examples", NULL},
    {"written at", STATUS(checkpoint_time), NULL, NULL},
    {"learning", NULL, NULL, NULL},
    {"examples", EACH(examples), NULL, NULL},
    {"steps", EACH(steps), NULL, NULL},
    {"updates", LOSS(updates), NULL, NULL},
    {"skipped", LOSS(skipped), " updates", NULL},
    {"streams", LOSS(streams), " in memory", NULL},
    {"forgotten", STATUS(forgotten), " streams", NULL},
    {"out of order", STATUS(backwards), " examples, older than the previous one", NULL},
    {"rate", LOSS(rate), NULL, NULL},
    {"clip", STATUS(clip), NULL, NULL},
    {"gradient norm", LOSS(gradient_norm), " of the last update, before clipping", NULL},
    {"update ratio", LOSS(update_ratio), NULL, NULL},
    {"plasticity", LOSS(plasticity), NULL, NULL},
    {"loss", NULL, NULL, NULL},
    {"newest", LOSS(loss), NULL, NULL},
    {"mean", LOSS(mean), NULL, NULL},
    {"minimum", LOSS(minimum), NULL, NULL},
    {"maximum", LOSS(maximum), NULL, NULL},
    {"smoothed", LOSS(smoothed), NULL, NULL},
    {"rmse", LOSS(metric_rmse), NULL, NULL},
    {"accuracy", LOSS(metric_accuracy), NULL, NULL},
    {"bits", LOSS(metric_bits), NULL, NULL},
    {"rank", LOSS(metric_rank), NULL, NULL},
    {"among", LOSS(metric_among), NULL, NULL},
    {"recall at 1", LOSS(metric_recall_1), NULL, NULL},
    {"recall at 10", LOSS(metric_recall_10), NULL, NULL},
    {"baseline", LOSS(baseline), " mean loss", NULL},
    {"order 1", LOSS(baseline_order1), " mean loss", NULL},
    {"best order", LOSS(baseline_best), " mean loss", NULL},
    {"skill", LOSS(skill), NULL, NULL},
    {"recent skill", LOSS(skill_recent), " over the last tenth", NULL},
    {"coverage", LOSS(coverage_total), " of 90% intervals", NULL},
    {"recent coverage", LOSS(coverage_recent), NULL, NULL},
    {"recall", LOSS(recall), NULL, NULL},
    {"reciprocal rank", LOSS(reciprocal_rank), NULL, NULL},
    {"table", STATUS(table_used), " in use", NULL},
    {"replaced", STATUS(table_replaced), " slots of the table", NULL},
    {"CRPS skill", LOSS(crps_skill), NULL, NULL},
    {"calibration", LOSS(calibration), NULL, NULL},
    {"anomalies", LOSS(anomaly_alarms), " alarms in this run", NULL},
    {"alarm rate", STATUS(alarms_rate), NULL, NULL},
    {"alarms by rate", STATUS(alarms_observed), " since the start of learning", NULL},
    {"nominal", STATUS(alarms_nominal), NULL, NULL},
    {"flow", NULL, NULL, NULL},
    {"speed", LOSS(examples_per_second), " examples/s", NULL},
    {"latency p50", LOSS(latency_us_p50), NULL, NULL},
    {"latency p99", LOSS(latency_us_p99), NULL, NULL},
    {"latency maximum", LOSS(latency_us_max), NULL, NULL},
    {"queued", LOSS(queued), NULL, NULL},
    {"rejected", LOSS(rejected), " examples", NULL},
    {"rejected by", LOSS(rejected_by), NULL, NULL},
    {"labels", STATUS(labels_taken), NULL, NULL},
    {"label age", STATUS(labels_age), NULL, NULL},
    {"label delay", STATUS(labels_delay), NULL, NULL},
    {"rejected labels", STATUS(labels_refused), NULL, NULL},
    {"out of scale", STATUS(input_scale), " inputs", NULL},
    {"statistics every", STATUS(every), " examples", NULL},
    {"consumer", NULL, NULL, NULL},
    {"group", STATUS(consumer_group), NULL, NULL},
    {"partitions", STATUS(consumer_partitions), NULL, NULL},
    {"lag", STATUS(consumer_lag), " messages", format_grouped},
    {"dead letters", STATUS(consumer_dead), NULL, NULL},
    {"lost", STATUS(consumer_lost), " messages, deleted before they were read", NULL},
    {"broker", STATUS(consumer_away), NULL, format_away},
    {"fleet", NULL, NULL, NULL},
    {"group", STATUS(fleet_group), NULL, NULL},
    {"daemons", STATUS(fleet_daemons), NULL, NULL},
    {"partitions here", STATUS(fleet_partitions), NULL, NULL},
    {"partitions in all", STATUS(fleet_of), NULL, NULL},
    {"adopted streams", STATUS(fleet_adopted), NULL, NULL},
    {"lost partitions", STATUS(fleet_lost), " while disconnected", NULL},
    {"learned elsewhere", STATUS(fleet_replayed), " examples, removed here", NULL},
    {"averages", STATUS(fleet_averages), NULL, NULL},
    {"round of averages", STATUS(fleet_round), NULL, format_grouped},
    {"fleet's broker", STATUS(fleet_away), NULL, format_away},
    {"journal", NULL, NULL, NULL},
    {"newest entry", STATUS(journal_position), NULL, NULL},
    {"on disk up to", STATUS(journal_durable), NULL, NULL},
    {"not on disk", STATUS(journal_waiting), NULL, format_waiting},
    {"entries", STATUS(journal_entries), NULL, NULL},
    {"size", STATUS(journal_bytes), NULL, NULL},
    {"free disk space", STATUS(journal_free_bytes), NULL, NULL},
    {"synced", STATUS(journal_sync), NULL, NULL},
    {"keep", STATUS(journal_keep), " at most", NULL},
    {"duplicates", STATUS(journal_duplicates), " examples, ignored", NULL},
    {"conflicts", STATUS(journal_conflicts), " examples, not learned", NULL},
    {"missing", STATUS(journal_missing), " numbers, not received", NULL},
    {"security", NULL, NULL, NULL},
    {"encrypted by", STATUS(security_key), NULL, NULL},
    {"refused", STATUS(security_refused), " connections and requests in this run", NULL},
    {"refused by", STATUS(security_refused_by), NULL, NULL},
};

enum { LINES = sizeof lines / sizeof *lines };

static void print_value(const char *title, const char *value, const char *after) {
    char clean[TEXT_SIZE];
    printf("  %-*s%s%s\n", NAME_COLUMNS, title, text_copy(clean, sizeof clean, value), after);
}

/* {"size": 3} as "size 3", {"site": "osaka"} as "site osaka". */
static void print_reasons(const char *title, json_t *reasons) {
    const char *reason;
    json_t *count;
    json_object_foreach(reasons, reason, count) {
        char text[FORMAT_SIZE], named[TEXT_SIZE];
        snprintf(named, sizeof named, "%s %s", reason,
                 json_is_string(count) ? json_string_value(count)
                                       : format_grouped(text, json_number_value(count)));
        print_value(title, named, "");
        title = "";
    }
}

static const json_t *object_of(const struct field *field, const json_t *reply) {
    return *field->group ? json_object_get(reply, field->group) : reply;
}

/* For 1, " examples, ignored" becomes " example, ignored". */
static void write_after(char after[AFTER_SIZE], const char *words, double number) {
    size_t first = strspn(words, " ");
    first += strcspn(words + first, " ,/");
    bool drops = number == 1 && first > 1 && words[first - 1] == 's';
    snprintf(after, AFTER_SIZE, "%.*s%s", (int)(drops ? first - 1 : first), words, words + first);
}

static void print_number(const struct line *line, double number) {
    char text[FORMAT_SIZE], after[AFTER_SIZE];
    format_function *format = line->format ? line->format : field_format(line->field);
    write_after(after, line->after ? line->after : "", number);
    print_value(line->title, format ? format(text, number) : format_grouped(text, number), after);
}

static void print_line(const struct line *line, const json_t *reply) {
    json_t *member = (json_t *)field_member(line->field, reply);
    if (!object_of(line->field, reply))
        return;
    if (line->field == STATUS(backwards) && json_number_value(member) == 0)
        return; /* the normal case */
    if (json_is_null(member))
        print_value(line->title, "-", "");
    else if (json_is_number(member))
        print_number(line, json_number_value(member));
    else if (json_is_string(member))
        print_value(line->title, json_string_value(member),
                    line->field->type == FIELD_TEXT && line->after ? line->after : "");
    else
        print_reasons(line->title, member);
}

const char *count_of(char text[FORMAT_SIZE], const struct runnel_reply *reply, const char *key) {
    double value;
    return member_number(reply->json, key, &value) ? format_grouped(text, value) : "?";
}

const char *s_of(const struct runnel_reply *reply, const char *key) {
    double value;
    return member_number(reply->json, key, &value) && value == 1 ? "" : "s";
}

/* For example "10 of 1,000, newest web-9, web-8". */
static void print_vocabulary(const char *name, const json_t *words) {
    double counts[2] = {0};
    char title[TEXT_SIZE], text[TEXT_SIZE], numbers[2][FORMAT_SIZE];
    const json_t *word;
    size_t n;
    member_number(words, "size", &counts[0]);
    member_number(words, "capacity", &counts[1]);
    snprintf(text, sizeof text, "%s of %s", format_grouped(numbers[0], counts[0]),
             format_grouped(numbers[1], counts[1]));
    json_array_foreach(json_object_get(words, "newest"), n, word) {
        const char *one = json_string_value(word);
        if (one)
            text_append(text, sizeof text, "%s%s", n ? ", " : ", newest ", one);
    }
    print_value(text_copy(title, sizeof title, name), text, "");
}

static void print_vocabularies(json_t *vocabularies) {
    const char *name;
    json_t *words;
    if (json_object_size(vocabularies))
        printf("words\n");
    json_object_foreach(vocabularies, name, words) print_vocabulary(name, words);
}

void print_status(const json_t *reply) {
    printf("daemon\n");
    for (int i = 0; i < LINES; i++)
        if (lines[i].field)
            print_line(&lines[i], reply);
        else if (object_of(lines[i + 1].field, reply))
            printf("%s\n", lines[i].title);
    print_vocabularies(json_object_get(reply, "vocabulary"));
    if (!json_object_get(reply, "security")) {
        printf("security\n");
        print_value("encryption", "off: no keys are set (security.secret)", "");
    }
}
