#include "build-config.h"

#include "ctl_alarms.h"

#include <stdio.h>
#include <sysexits.h>

#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "ctl_print.h"
#include "ctl_time.h"

enum { TEXT_SIZE = 1024 };

#define SPAN_MOST 1000000000

const struct option_row alarms_rows[] = {
    {"at", 0, "TIME",
     "the alarm of that time of the data (default: the stream's newest): @SECONDS since 1970, or "
     "2026-01-31T12:00[:00][Z|+09:00]",
     OPTION_TEXT(struct options, at)},
    {"from", 0, "TIME", "abnormal: from that time of the data on, in place of an alarm",
     OPTION_TEXT(struct options, from)},
    {"span", 0, "N", "abnormal: so many examples of the stream (default 32), without --to",
     OPTION_COUNT(struct options, span, 1, SPAN_MOST)},
    OPTIONS_END,
};

static int check_time(const char *option, const char *text) {
    double time;
    if (!text || time_read(text, &time))
        return OPTIONS_GO_ON;
    return complain_usage("%s: '%s' is no time such as 2026-01-31T12:00 or @1769860800", option,
                          text);
}

int alarms_check(const struct options *o, char **arguments) {
    (void)arguments;
    if (o->at && o->from)
        return complain_usage("--at and --from: it begins with an alarm or with a time");
    if (o->span > 0 && o->to)
        return complain_usage("--span and --to: it ends after so many examples or with a time");
    int status = check_time("--at", o->at);
    if (status == OPTIONS_GO_ON)
        status = check_time("--from", o->from);
    return status == OPTIONS_GO_ON ? check_time("--to", o->to) : status;
}

static void put_time(json_t *request, const char *name, const char *text) {
    double time;
    if (request && text && time_read(text, &time))
        json_object_set_new(request, name, json_real(time));
}

json_t *normal_build(const struct options *o, const char *name, char **arguments) {
    json_t *request = json_pack("{s:s, s:s}", "command", name, "stream", arguments[0]);
    put_time(request, "at", o->at);
    return request;
}

int normal_print(const struct options *o, char **arguments, const struct runnel_reply *reply) {
    (void)o;
    char clean[TEXT_SIZE], when[FORMAT_SIZE];
    double at = 0, score = 0;
    member_number(reply->json, "score", &score);
    bool timed = member_number(reply->json, "data_time", &at);
    printf("normal from now on: stream '%s'%s%s, an alarm of score %.3g\n",
           text_copy(clean, sizeof clean, arguments[0]), timed ? ", " : "",
           timed ? format_date(when, at) : "", score);
    return EX_OK;
}

json_t *abnormal_build(const struct options *o, const char *name, char **arguments) {
    json_t *request = normal_build(o, name, arguments);
    put_time(request, "from", o->from);
    put_time(request, "to", o->to);
    if (request && o->span > 0)
        json_object_set_new(request, "count", json_integer((json_int_t)o->span));
    if (request && o->dry_run)
        json_object_set_new(request, "dry_run", json_true());
    return request;
}

int abnormal_print(const struct options *o, char **arguments, const struct runnel_reply *reply) {
    char clean[TEXT_SIZE], examples[FORMAT_SIZE], restored[FORMAT_SIZE], replayed[FORMAT_SIZE];
    char text[FORMAT_SIZE], begin[FORMAT_SIZE], end[FORMAT_SIZE];
    double seconds = 0, from = 0, to = 0;
    bool timed = member_number(reply->json, "from", &from) && member_number(reply->json, "to", &to);
    member_number(reply->json, "seconds", &seconds);
    printf("%s: stream '%s', %s example%s", o->dry_run ? "it would be abnormal" : "abnormal",
           text_copy(clean, sizeof clean, arguments[0]), count_of(examples, reply, "left_out"),
           s_of(reply, "left_out"));
    if (timed)
        printf(" of data from %s to %s", format_date(begin, from), format_date(end, to));
    if (o->dry_run)
        printf("; the daemon would go back to what was learned up to entry %s; nothing has "
               "changed\n",
               count_of(restored, reply, "restored"));
    else
        printf("; went back to what was learned up to entry %s, and learned %s %s again in %s\n",
               count_of(restored, reply, "restored"), count_of(replayed, reply, "replayed"),
               *s_of(reply, "replayed") ? "entries" : "entry", format_duration(text, seconds));
    return EX_OK;
}
