#include "build-config.h"

#include "watch_bar.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"

enum {
    TEXT_SIZE = 768,
    SEGMENT_SIZE = 256,
    COUNT_COLUMNS = 8,
    PICTURE_SHARE = 5, /* the picture takes one column of so many of the terminal's */
};

void bar_close(struct bar *bar) {
    bar_restart(bar);
}

void bar_restart(struct bar *bar) {
    json_decref(bar->loss);
    *bar = (struct bar){.loss = NULL};
}

static void take_text(char *copy, size_t size, const json_t *body, const char *key) {
    const char *text = member_string(body, key);
    if (text)
        text_copy(copy, size, text);
}

void bar_message(struct bar *bar, const struct message *message) {
    double mean, examples;
    if (message->topic == TOPIC_STATUS) {
        take_text(bar->name, sizeof bar->name, message->body, "name");
        take_text(bar->state, sizeof bar->state, message->body, "state");
        take_text(bar->device, sizeof bar->device, message->body, "device");
    }
    if (message->topic != TOPIC_LOSS)
        return;
    json_decref(bar->loss);
    bar->loss = json_incref(message->body);
    /* Fewer examples than before: what was learned was reset, and its losses are history. */
    if (member_number(message->body, "examples", &examples)) {
        if (examples < bar->examples)
            bar->means.count = 0;
        bar->examples = examples;
    }
    if (member_number(message->body, "mean", &mean))
        trend_add(&bar->means, mean);
}

/* Append a segment with two spaces before it, if all of it fits the columns. */
static void add(char text[TEXT_SIZE], int columns, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void add(char text[TEXT_SIZE], int columns, const char *format, ...) {
    char segment[SEGMENT_SIZE] = "  ";
    size_t gap = *text ? 2 : 1, used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(segment + gap, sizeof segment - gap, format, arguments);
    va_end(arguments);
    if (screen_width(text) + screen_width(segment) < columns)
        snprintf(text + used, TEXT_SIZE - used, "%s", segment);
}

static void add_presence(char text[TEXT_SIZE], int columns, const struct bar *bar,
                         const struct health *health) {
    char quiet[FORMAT_SIZE];
    format_duration(quiet, health_quiet(health));
    add(text, columns, "%s", *bar->name ? bar->name : "runnel-watch");
    if (health->presence == PRESENCE_SPEAKING)
        add(text, columns, "%s", *bar->state ? bar->state : "speaking");
    else if (health->presence == PRESENCE_SILENT)
        add(text, columns, "SILENT for %s", quiet);
    else if (!health->connected)
        add(text, columns, "%s at %s for %s",
            health->presence == PRESENCE_GONE ? "GONE: nothing" : "nothing yet", health->endpoint,
            quiet);
    else
        add(text, columns, "connected, no message for %s", quiet);
}

static void add_trend(char text[TEXT_SIZE], int columns, const struct bar *bar, bool utf8) {
    static const char *const words[] = {"", "falling", "flat", "rising"};
    static const char *const arrows[] = {"", "↘ ", "→ ", "↗ "};
    char picture[TREND_PICTURE_SIZE], number[FORMAT_SIZE];
    const struct trend *means = &bar->means;
    if (means->count == 0)
        return;
    enum direction direction = trend_direction(means);
    add(text, columns, "loss %s %s%s", format_number(number, means->values[means->count - 1]),
        utf8 ? arrows[direction] : "", words[direction]);
    if (direction != TREND_UNKNOWN)
        add(text, columns, "%s",
            trend_picture(means, (size_t)columns / PICTURE_SHARE, utf8, picture));
}

/* "WORD N" when there is a number, and unless `always` only when it is not 0. */
static void add_count(char text[TEXT_SIZE], int columns, const json_t *loss, const char *key,
                      bool always) {
    char number[FORMAT_SIZE];
    double value;
    if (member_number(loss, key, &value) && (always || value != 0))
        add(text, columns, "%s %s", key, format_count(number, value, COUNT_COLUMNS));
}

void bar_show(const struct bar *bar, const struct health *health, struct screen *screen) {
    if (!screen_has_bar(screen))
        return;
    char text[TEXT_SIZE] = "", number[FORMAT_SIZE];
    int columns = screen_columns(screen);
    double value;
    add_presence(text, columns, bar, health);
    add_trend(text, columns, bar, screen_is_utf8(screen));
    if (health->presence == PRESENCE_SPEAKING &&
        member_number(bar->loss, "examples_per_second", &value))
        add(text, columns, "%s/s", format_rate(number, value));
    add_count(text, columns, bar->loss, "rejected", false);
    add_count(text, columns, bar->loss, "skipped", false);
    if (health->missed_total > 0)
        add(text, columns, "missed %s",
            format_count(number, (double)health->missed_total, COUNT_COLUMNS));
    add_count(text, columns, bar->loss, "queued", true);
    if (*bar->device)
        add(text, columns, "%s", bar->device);
    add_count(text, columns, bar->loss, "streams", true);
    screen_bar(screen, text);
}
