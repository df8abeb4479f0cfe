#include "build-config.h"

#include "ctl_rollback.h"

#include <stdio.h>
#include <string.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "ctl_print.h"
#include "ctl_time.h"

const struct option_row rollback_rows[] = {
    {"to", 0, "POSITION|TIME",
     "leave out what came after that entry of the journal, or after that time: @SECONDS since "
     "1970, or 2026-01-31T12:00[:00][Z|+09:00]; abnormal: up to that time of the data",
     OPTION_TEXT(struct options, to)},
    {"without", 0, "STREAM", "of that only what came of this stream; may be repeated",
     OPTION_LIST(struct options, without, OPTION_LIST_MAX), .unique = true},
    {"without-span", 0, "FIRST-LAST", "of that only these entries of the journal; may be repeated",
     OPTION_LIST(struct options, spans, OPTION_LIST_MAX), .unique = true},
    {"dry-run", 'n', NULL, "only say what it would go back to",
     OPTION_FLAG(struct options, dry_run)},
    OPTIONS_END,
};

bool rollback_is_asked(const struct options *o) {
    return o->to || o->without.count || o->spans.count || o->dry_run;
}

/* "4711" or "4711-4720" */
static bool read_span(const char *text, uint64_t *first, uint64_t *last) {
    const char *dash = strchr(text, '-');
    char begin[FORMAT_SIZE];
    snprintf(begin, sizeof begin, "%.*s", dash ? (int)(dash - text) : (int)strlen(text), text);
    return position_read(begin, first) && position_read(dash ? dash + 1 : begin, last) &&
           *first > 0 && *first <= *last;
}

int rollback_check(const struct options *o, char **arguments) {
    (void)arguments;
    uint64_t first, last;
    double time;
    if (!o->to && !o->without.count && !o->spans.count)
        return complain_usage("rollback takes --to, --without or --without-span");
    if (o->to && !position_read(o->to, &first) && !time_read(o->to, &time))
        return complain_usage("--to: '%s' is neither an entry's position nor a time such as "
                              "2026-01-31T12:00 or @1769860800",
                              o->to);
    for (size_t i = 0; i < o->spans.count; i++)
        if (!read_span(o->spans.values[i], &first, &last))
            return complain_usage("--without-span: '%s' is not FIRST-LAST, two positions",
                                  o->spans.values[i]);
    return OPTIONS_GO_ON;
}

json_t *rollback_build(const struct options *o, const char *name, char **arguments) {
    (void)arguments;
    json_t *request = json_pack("{s:s}", "command", name);
    json_t *without = json_array(), *spans = json_array();
    uint64_t first, last;
    double time;
    if (o->to && position_read(o->to, &first))
        json_object_set_new(request, "to", json_integer((json_int_t)first));
    else if (o->to && time_read(o->to, &time))
        json_object_set_new(request, "to_time", json_real(time));
    for (size_t i = 0; i < o->without.count; i++)
        json_array_append_new(without, json_string(o->without.values[i]));
    for (size_t i = 0; i < o->spans.count; i++)
        if (read_span(o->spans.values[i], &first, &last))
            json_array_append_new(spans, json_pack("[I, I]", (json_int_t)first, (json_int_t)last));
    bool good = json_array_size(without) == o->without.count;
    json_object_set_new(request, "without", without);
    json_object_set_new(request, "spans", spans);
    if (o->dry_run)
        json_object_set_new(request, "dry_run", json_true());
    if (good)
        return request;
    json_decref(request);
    return NULL;
}

int rollback_print(const struct options *o, char **arguments, const struct runnel_reply *reply) {
    (void)arguments;
    char examples[FORMAT_SIZE], commands[FORMAT_SIZE], first[FORMAT_SIZE], restored[FORMAT_SIZE];
    char replayed[FORMAT_SIZE], text[FORMAT_SIZE];
    double seconds = 0, after = 0;
    member_number(reply->json, "seconds", &seconds);
    member_number(reply->json, "after", &after);
    count_of(first, reply, "first");
    count_of(restored, reply, "restored");
    if (o->dry_run)
        printf("it would go back to what was learned up to entry %s, and leave out what you name "
               "from entry %s on; nothing has changed\n",
               restored, first);
    else
        printf("left out %s example%s and %s command%s, from entry %s on; went back to what was "
               "learned up to entry %s, and learned %s %s again in %s\n",
               count_of(examples, reply, "left_out"), s_of(reply, "left_out"),
               count_of(commands, reply, "commands_left_out"), s_of(reply, "commands_left_out"),
               first, restored, count_of(replayed, reply, "replayed"),
               *s_of(reply, "replayed") ? "entries" : "entry", format_duration(text, seconds));
    if (o->without.count && !o->to && after > 0)
        printf("what %s up to entry %s stays learned: that is in the oldest checkpoint that the "
               "daemon can go back to\n",
               o->without.count == 1 ? "this stream taught" : "these streams taught",
               format_grouped(text, after));
    return EX_OK;
}
