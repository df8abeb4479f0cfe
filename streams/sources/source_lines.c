/* Lines of a log as symbols: a line's id is that of its template (feed_drain.h). Its time is at its
   beginning, or else that of the line before. Lines without words are ignored. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "common/stamp.h"
#include "common/text.h"
#include "feed_drain.h"
#include "feed_input.h"
#include "streams/feed.h"

enum { TEMPLATES_DEFAULT = 1000, TEMPLATES_MAX = 1 << 20 };
enum { LINE_SIZE = 640, TEMPLATE_SIZE = 320 }; /* bytes of a note */

struct lines {
    struct source source;
    struct drain *drain;
    uint64_t templates; /* ids are below it */
    uint64_t left_out;  /* words after the time to ignore */
    const char *file;   /* file of templates, or NULL */
    bool no_notes;
    char note[WIRE_NOTE_MAX + 1]; /* the newest line and its template */
    /* Unix time of the start, and of the newest line with a time; 0 = none */
    double now, time;
    uint32_t id; /* the step's x */
};

static void set_defaults(struct source *source) {
    struct lines *lines = (struct lines *)source;
    lines->templates = TEMPLATES_DEFAULT;
}

static const struct option_row OPTIONS[] = {
    {"templates", 0, "N",
     "ids are below N, the model's input.size; lines that fit none of the first N - 1 templates "
     "share the last one (default 1000)",
     OPTION_COUNT(struct lines, templates, 2, TEMPLATES_MAX)},
    {"templates-file", 0, "FILE", "file of the templates: later calls use the same ids",
     OPTION_FILE(struct lines, file)},
    {"leave-out", 0, "N", "ignore N words after the time; with syslog, 1 is the host name",
     OPTION_COUNT(struct lines, left_out, 0, DRAIN_WORDS_MAX)},
    {"no-notes", 0, NULL,
     "send only ids, for a daemon of an earlier version (default: each example has its line and "
     "template as a note, which alarms show; not with --steps)",
     OPTION_FLAG(struct lines, no_notes)},
    OPTIONS_END,
};

static int open_lines(struct source *source, char **operands, struct error *error) {
    struct lines *lines = (struct lines *)source;
    if (input_open(&source->input, operands[0] ? operands[0] : "-", error) < 0)
        return -1;
    source->x = (struct shape){VALUE_CLASS, 1};
    source->once = input_is_pipe(source->input);
    lines->now = clock_unix();
    return drain_open(&lines->drain, (uint32_t)lines->templates, lines->file, error);
}

/* Returns the text for the template: the line after its time and the ignored words. */
static const char *content(struct lines *lines, const char *line) {
    static const char BLANKS[] = " \t\r";
    double time;
    const char *rest = stamp_read(line, lines->now, &time);
    if (rest) {
        line = rest;
        lines->time = time;
    }
    for (uint64_t i = 0; i < lines->left_out; i++) {
        line += strspn(line, BLANKS);
        line += strcspn(line, BLANKS);
    }
    return line + strspn(line, BLANKS);
}

static void write_note(struct lines *lines, const char *line) {
    const char *template = drain_text(lines->drain, lines->id);
    char shown[LINE_SIZE], form[TEMPLATE_SIZE];
    snprintf(lines->note, sizeof lines->note, "%s (template %lu: %s)",
             text_copy(shown, sizeof shown, line), (unsigned long)lines->id,
             text_copy(form, sizeof form, template ? template : "shared by the rest"));
}

static int next(struct source *source, struct step *step, struct error *error) {
    struct lines *lines = (struct lines *)source;
    const char *text;
    char *line;
    size_t size;
    do {
        int status = input_line(source->input, false, &line, &size, error);
        if (status <= 0)
            return status;
        for (char *zero = line; (zero = memchr(zero, '\0', size - (size_t)(zero - line)));)
            *zero = ' ';
        line[size] = '\0';
        text = content(lines, line);
    } while (*text == '\0');
    if (drain_id(lines->drain, text, &lines->id, error) < 0)
        return -1;
    if (!lines->no_notes) {
        write_note(lines, line);
        step->note = lines->note;
    }
    step->x = &lines->id;
    step->time = lines->time;
    return 1;
}

static int rewind_lines(struct source *source, uint64_t pass, struct error *error) {
    struct lines *lines = (struct lines *)source;
    (void)pass;
    lines->time = 0;
    return input_rewind(source->input, error);
}

static const char *column(const struct source *source, bool y, size_t k) {
    (void)source;
    (void)y;
    (void)k;
    return "template";
}

static void close_lines(struct source *source) {
    struct lines *lines = (struct lines *)source;
    input_close(&source->input);
    drain_close(&lines->drain);
}

const struct source_type source_lines = {
    .command = {"lines", "[FILE]",
                "log lines as templates, from standard input unless a file is given",
                .complete = COMPLETE_FILE, .rows = OPTIONS},
    .notes = "Lines that differ only in numbers and names have the same template and id. A time at "
             "the beginning (ISO 8601, syslog, Unix seconds) goes into the header. To follow a "
             "growing log: tail -n 0 -F FILE | runnel-feed lines",
    .bundles = true,
    .size = sizeof(struct lines),
    .set_defaults = set_defaults,
    .open = open_lines,
    .next = next,
    .rewind = rewind_lines,
    .column = column,
    .close = close_lines,
};
