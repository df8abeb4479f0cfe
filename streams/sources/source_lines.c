/* Lines of a log as symbols: a line's id is that of its template (feed_drain.h). Its time is at its
   beginning, or else that of the line before. Lines without words are ignored. With --message a
   line is a message: its words, with <N> for each number, or its bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/clock.h"
#include "common/stamp.h"
#include "common/text.h"
#include "feed_drain.h"
#include "feed_input.h"
#include "streams/feed.h"

enum { TEMPLATES_DEFAULT = 1000, TEMPLATES_MAX = 1 << 20 };
enum { LONGEST_DEFAULT = 256, LONGEST_MAX = 1 << 16 };
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

    bool message, bytes, classes; /* each line is a message, of bytes; its first word is y */
    uint64_t longest;             /* the most atoms; 0: the default */
    uint32_t *atoms;              /* (longest,) */
    size_t count;                 /* atoms of the newest line */
    char *words;                  /* (words_size,) the words of atoms and y, of at most longest */
    size_t words_size;
    uint64_t cut; /* lines with more atoms */
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
    {"message", 0, NULL,
     "each line is a message: its words, with <N> for each number, for a daemon with "
     "model.input.sequence and a vocabulary",
     OPTION_FLAG(struct lines, message)},
    {"bytes", 0, NULL, "a message is the line's bytes, for a model.input.size of 256",
     OPTION_FLAG(struct lines, bytes)},
    {"class", 0, NULL, "the first word of a message is not part of it, but its class y",
     OPTION_FLAG(struct lines, classes)},
    {"longest", 0, "N",
     "most words or bytes of a message, the model's input.sequence.longest: longer ones are cut "
     "(default 256)",
     OPTION_COUNT(struct lines, longest, 1, LONGEST_MAX)},
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
    source->messages = lines->message;
    const char *without = lines->bytes ? "bytes" : lines->classes ? "class" : "longest";
    if (!lines->message && (lines->bytes || lines->classes || lines->longest))
        return error_set(error, EX_USAGE, "--%s: requires --message", without);
    if (!lines->message)
        return drain_open(&lines->drain, (uint32_t)lines->templates, lines->file, error);
    lines->longest = lines->longest ? lines->longest : LONGEST_DEFAULT;
    source->y = (struct shape){VALUE_CLASS, lines->classes};
    lines->atoms = calloc(lines->longest, sizeof *lines->atoms);
    lines->words = malloc((lines->longest + 1) * (1 + WIRE_WORD_MAX));
    return lines->atoms && lines->words ? 0 : error_no_memory(error);
}

static const char BLANKS[] = " \t\r";

/* Returns the text for the template: the line after its time and the ignored words. */
static const char *content(struct lines *lines, const char *line) {
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

/* ---- Messages ---- */

/* Appends a word, cut to the longest that can be sent. */
static void add_word(struct lines *lines, const char *word) {
    char *to = lines->words + lines->words_size;
    size_t size = strlen(text_copy(to + 1, WIRE_WORD_MAX, word));
    *to = (char)size;
    lines->words_size += 1 + size;
}

/* Reads the words of the text, of which `longest` become atoms. Returns how many it has. */
static size_t read_words(struct lines *lines, char *text) {
    char masked[DRAIN_MASKED_SIZE], word[WIRE_WORD_MAX + 1], *rest;
    size_t count = 0;
    for (char *at = strtok_r(text, BLANKS, &rest); at; at = strtok_r(NULL, BLANKS, &rest)) {
        if (count++ >= lines->longest)
            continue;
        drain_mask(text_copy(word, sizeof word, at), masked);
        add_word(lines, masked);
        lines->atoms[lines->count++] = WIRE_WORD;
    }
    return count;
}

static size_t read_bytes(struct lines *lines, const char *text) {
    size_t count = strlen(text);
    for (; lines->count < count && lines->count < lines->longest; lines->count++)
        lines->atoms[lines->count] = (unsigned char)text[lines->count];
    return count;
}

/* Makes a message of the text, which it changes. Returns false if it has no atoms. Reports the
   first line that is cut; the others are counted. */
static bool read_message(struct lines *lines, char *text, struct step *step) {
    static const uint32_t word = WIRE_WORD;
    const struct input *input = lines->source.input;
    const char *class_word = lines->classes ? strtok_r(text, BLANKS, &text) : NULL;
    lines->count = lines->words_size = 0;
    text += strspn(text, BLANKS);
    size_t count = lines->bytes ? read_bytes(lines, text) : read_words(lines, text);
    if (count > lines->longest && lines->cut++ == 0)
        feed_print("%s:%llu: the line has %zu %s, only the first %llu are sent (--longest); other "
                   "such lines are counted",
                   input_name(input), (unsigned long long)input_line_number(input), count,
                   lines->bytes ? "bytes" : "words", (unsigned long long)lines->longest);
    if (class_word)
        add_word(lines, class_word);
    step->x = lines->atoms;
    step->atoms = lines->count;
    step->y = &word;
    step->words = lines->words;
    step->words_size = lines->words_size;
    return lines->count > 0;
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
        if (status == 0 && lines->cut > 1)
            feed_print("%llu lines were cut to %llu %s", (unsigned long long)lines->cut,
                       (unsigned long long)lines->longest, lines->bytes ? "bytes" : "words");
        if (status <= 0)
            return status;
        for (char *zero = line; (zero = memchr(zero, '\0', size - (size_t)(zero - line)));)
            *zero = ' ';
        line[size] = '\0';
        text = content(lines, line);
        if (lines->message)
            text_copy(lines->note, sizeof lines->note, line);
    } while (*text == '\0' || (lines->message && !read_message(lines, line + (text - line), step)));
    step->time = lines->time;
    step->note = lines->no_notes ? NULL : lines->note;
    if (lines->message)
        return 1;
    if (drain_id(lines->drain, text, &lines->id, error) < 0)
        return -1;
    if (!lines->no_notes)
        write_note(lines, line);
    step->x = &lines->id;
    return 1;
}

static int rewind_lines(struct source *source, uint64_t pass, struct error *error) {
    struct lines *lines = (struct lines *)source;
    (void)pass;
    lines->time = 0;
    return input_rewind(source->input, error);
}

static const char *column(const struct source *source, bool y, size_t k) {
    const struct lines *lines = (const struct lines *)source;
    (void)k;
    return !lines->message ? "template" : y ? "class" : lines->bytes ? "byte" : "word";
}

static void close_lines(struct source *source) {
    struct lines *lines = (struct lines *)source;
    input_close(&source->input);
    drain_close(&lines->drain);
    free(lines->atoms);
    free(lines->words);
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
