/* runnel-replay: sends the examples of a daemon's journal to another daemon. Options; the
   work is done in replay_run.c. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "replay_run.h"

#define SPEED_MIN 1e-6
#define SPEED_MAX 1e9

static int take_speed(void *values, const struct option_row *row, const char *text,
                      struct error *error) {
    struct replay_settings *s = values;
    char *end;
    if (!strcmp(text, "full") || !strcmp(text, "original")) {
        s->speed = *text == 'f' ? INFINITY : 1;
        return 0;
    }
    s->speed = strtod(text, &end);
    if (end != text && !*end && s->speed >= SPEED_MIN && s->speed <= SPEED_MAX)
        return 0;
    return error_set(error, EX_USAGE,
                     "--%s: found '%s', expected full, original or a factor in %g..%g", row->name,
                     text, SPEED_MIN, SPEED_MAX);
}

static const struct option_row OPTIONS[] = {
    {"connect", 'c', "ENDPOINT", "the daemon's examples socket (default " WIRE_EXAMPLES ")",
     OPTION_TEXT(struct replay_settings, common.to.endpoint)},
    {"speed", 0, "SPEED", "full (default), original, or a factor: 10 is ten times as fast",
     OPTION_TAKE(take_speed), .complete = COMPLETE_WORDS, .words = "full original"},
    {"from", 0, "N", "first position (default: of the first entry that is there)",
     OPTION_COUNT(struct replay_settings, first, 1, INT64_MAX)},
    {"to", 0, "N", "last position (default: of the last entry)",
     OPTION_COUNT(struct replay_settings, last, 1, INT64_MAX)},
    FEED_CALL_EPOCH(struct replay_settings, common,
                    "give examples new numbers, in this epoch (default: as in the journal)"),
    FEED_CALL_PRODUCER(
        struct replay_settings, common,
        "give examples new numbers, of this producer: up to 16 hexadecimal digits; the "
        "epoch is then 0 (default: as in the journal, none with --epoch)"),
    {"control", 0, "ENDPOINT",
     "send the journal's commands (set, reset, forget, adopt, import, normal, rollback) there, "
     "each in its place; "
     "with --socket "
     "router only "
     "(default: say that they are left out)",
     OPTION_TEXT(struct replay_settings, control)},
    FEED_CALL_OPTIONS(struct replay_settings, common),
    OPTIONS_LAST,
};

static int replay(struct replay_settings *s, struct error *error) {
    if (s->control && s->common.to.kind != RUNNEL_ROUTER)
        return error_set(error, EX_USAGE,
                         "--control: only with --socket router, whose acknowledgements say when "
                         "the place of a command has come");
    if (s->last < s->first)
        return error_set(error, EX_USAGE, "--to: found a position before that of --from");
    if (feed_call_start(&s->common, "runnel-replay", true, error) < 0)
        return -1;
    s->common.epoch_given |= s->common.producer != NULL;
    return replay_run(s, error);
}

int main(int count, char **arguments) {
    struct error error = {0};
    struct replay_settings settings = {
        .common = {FEED_CALL_DEFAULTS}, .speed = INFINITY, .first = 1, .last = UINT64_MAX};
    const struct command_line line = {
        .name = "runnel-replay",
        .operands = "JOURNAL",
        .summary = "Send the examples of a daemon's journal to another daemon, in the order in "
                   "which they were learned. JOURNAL is the file journal.sqlite or its directory.",
        .groups = {{NULL, OPTIONS, &settings}},
        .complete = COMPLETE_FILE,
    };
    char **operands;
    int status = options_parse(&line, count, arguments, &operands);
    if (status != OPTIONS_GO_ON)
        return status;
    settings.path = *operands;
    return feed_call_end(&line, replay(&settings, &error), &error);
}
