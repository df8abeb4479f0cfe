#include "build-config.h"

#include "watch_table.h"

#include <errno.h>
#include <langinfo.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>
#include <wchar.h>

#include "common/fields.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/text.h"
#include "tools/shared/watch_names.h"
#include "tools/shared/watch_state.h"
#include "tools/shared/watch_trend.h"
#include "tools/shared/watch_truth.h"

/* ---- Lines ---- */

enum {
    COLUMNS_DEFAULT = 80, /* for a terminal without a known width */
    COLUMNS_LEAST = 20,
    HELD_START = 64 * 1024,
    OUTPUT_SIZE = 2048,
};

struct lines {
    bool utf8;
    bool ascii; /* a terminal that shows only ASCII */
    bool coloured;
    int columns;
    unsigned long count;
    char *held; /* bytes to write */
    size_t held_size, held_room;
    bool failed; /* out of memory: the next flush reports it */
};

static int terminal_columns(void) {
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0)
        return COLUMNS_DEFAULT;
    return size.ws_col < COLUMNS_LEAST ? COLUMNS_LEAST : size.ws_col;
}

static bool has_colours(void) {
    const char *none = getenv("NO_COLOR"), *terminal = getenv("TERM");
    return isatty(STDOUT_FILENO) && !(none && *none) && terminal && strcmp(terminal, "dumb") != 0;
}

int lines_open(struct lines **lines) {
    struct lines *l = calloc(1, sizeof *l);
    if (!l)
        return -1;
    l->held = malloc(HELD_START);
    l->held_room = HELD_START;
    if (!l->held) {
        free(l);
        return -1;
    }
    l->utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    l->ascii = !l->utf8 && isatty(STDOUT_FILENO);
    l->coloured = has_colours();
    l->columns = LINES_PLAIN_COLUMNS;
    lines_resized(l);
    *lines = l;
    return 0;
}

void lines_resized(struct lines *l) {
    if (isatty(STDOUT_FILENO))
        l->columns = terminal_columns();
}

int lines_width(const char *text) {
    mbstate_t state = {0};
    int used = 0;
    while (*text) {
        wchar_t character;
        size_t length = mbrtowc(&character, text, strlen(text), &state);
        int width = 1;
        if (length == (size_t)-1 || length == (size_t)-2) {
            length = 1; /* not a character of the locale: one column a byte */
            memset(&state, 0, sizeof state);
        } else {
            width = wcwidth(character);
        }
        used += width < 0 ? 1 : width;
        text += length;
    }
    return used;
}

static void hold(struct lines *l, const char *bytes, size_t size) {
    if (l->held_size + size > l->held_room) {
        size_t room = 2 * (l->held_size + size);
        char *held = realloc(l->held, room);
        if (!held) {
            l->failed = true;
            return;
        }
        l->held = held;
        l->held_room = room;
    }
    memcpy(l->held + l->held_size, bytes, size);
    l->held_size += size;
}

/* On a terminal with another encoding, the bytes of a UTF-8 character may be control characters. */
static void make_safe(const struct lines *l, char *bytes, size_t size) {
    for (size_t i = 0; l->ascii && i < size; i++)
        if ((unsigned char)bytes[i] >= 0x80)
            bytes[i] = '?';
}

void lines_add(struct lines *l, const char *text) {
    size_t begin = l->held_size;
    hold(l, text, strlen(text));
    make_safe(l, l->held + begin, l->held_size - begin);
    hold(l, "\n", 1);
    l->count++;
}

static void add_cells(struct lines *l, const struct lines_table *table, const char *const *texts,
                      const char *rest) {
    char line[OUTPUT_SIZE] = "";
    for (size_t n = 0; n < table->count; n++) {
        int blanks = abs(table->widths[n]) - lines_width(texts[n]);
        int left = table->widths[n] < 0 || blanks < 0 ? 0 : blanks;
        int right = table->widths[n] < 0 && blanks > 0 ? blanks : 0;
        text_append(line, sizeof line, "%s%*s%s%*s", n ? " " : "", left, "", texts[n], right, "");
    }
    text_append(line, sizeof line, "%s", rest);
    lines_add(l, line);
}

void lines_row(struct lines *l, const struct lines_table *table, unsigned long *header,
               const char *const *texts, const char *rest) {
    if (!*header || l->count - *header >= LINES_HEADER_EVERY) {
        add_cells(l, table, table->titles, "");
        *header = l->count;
    }
    add_cells(l, table, texts, rest);
}

int lines_flush(struct lines *l) {
    if (l->failed) {
        errno = ENOMEM;
        return -1;
    }
    while (l->held_size > 0) {
        ssize_t written = write(STDOUT_FILENO, l->held, l->held_size);
        if (written < 0)
            return errno == EINTR || errno == EAGAIN ? 0 : -1;
        l->held_size -= (size_t)written;
        memmove(l->held, l->held + written, l->held_size);
    }
    return 0;
}

void lines_close(struct lines **lines) {
    struct lines *l = *lines;
    if (!l)
        return;
    lines_flush(l);
    free(l->held);
    free(l);
    *lines = NULL;
}

#define RED "\033[31m"
#define PLAIN "\033[0m"

enum { LINE_SIZE = 1024, TEXT_SIZE = 600, LABEL_SIZE = 96, GAP = 1 };

_Static_assert((int)EACH_FIELDS + (int)FIELDS <= (int)TABLE_COLUMNS_MAX,
               "a table holds every column once");

/* Fields with a column, from left to right. */
static const struct field *columns[TABLE_COLUMNS_MAX];
static int column_count;

static int by_place(const void *a, const void *b) {
    const struct field *const *left = a, *const *right = b;
    return (*left)->column.place - (*right)->column.place;
}

static void add_columns(enum field_table_of table) {
    for (int i = 0; i < field_tables[table].count; i++) {
        const struct field *field = &field_tables[table].fields[i];
        if (field->column.name)
            columns[column_count++] = field;
    }
}

/* Fills `columns` once. */
static void find_columns(void) {
    if (column_count)
        return;
    add_columns(FIELDS_OF_EACH);
    add_columns(FIELDS_OF_LOSS);
    qsort(columns, (size_t)column_count, sizeof *columns, by_place);
}

static int find_column(const char *name, size_t size) {
    for (int i = 0; i < column_count; i++)
        if (strlen(columns[i]->column.name) == size &&
            memcmp(columns[i]->column.name, name, size) == 0)
            return i;
    return -1;
}

const char *table_choose(struct table *table, const char *list) {
    bool all = strcmp(list, "all") == 0;
    find_columns();
    table->chosen = true;
    table->count = 0;
    for (int i = 0; all && i < column_count; i++)
        table->columns[table->count++] = i;
    for (const char *name = list; !all && name; name = strchr(name, ',')) {
        name += *name == ',';
        int column = find_column(name, strcspn(name, ","));
        if (column < 0 || table->count == TABLE_COLUMNS_MAX)
            return name;
        table->columns[table->count++] = column;
    }
    return NULL;
}

const char *table_names(void) {
    static char names[TEXT_SIZE];
    find_columns();
    *names = '\0';
    for (int i = 0; i < column_count; i++) {
        strcat(names, i ? ", " : "");
        strcat(names, columns[i]->column.name);
    }
    return names;
}

static int highest_rank(void) {
    int rank = 0;
    for (int i = 0; i < column_count; i++)
        rank = columns[i]->column.rank > rank ? columns[i]->column.rank : rank;
    return rank;
}

/* Chooses columns by rank as long as they fit the width. Leaves out columns that this message does
   not have. */
static void fit_columns(int fitting[TABLE_COLUMNS_MAX], int *count, const json_t *body, int width) {
    bool taken[TABLE_COLUMNS_MAX] = {false};
    int used = -GAP, ranks = highest_rank();
    for (int rank = 1; rank <= ranks; rank++)
        for (int i = 0; i < column_count; i++) {
            const struct field *field = columns[i];
            if (field->column.rank != rank || used + GAP + field->column.width > width ||
                (field->need && !field_member(field, body)))
                continue;
            taken[i] = true;
            used += GAP + field->column.width;
        }
    *count = 0;
    for (int i = 0; i < column_count; i++)
        if (taken[i])
            fitting[(*count)++] = i;
}

static void format_cell(char text[FORMAT_SIZE], const struct field *field, const json_t *body) {
    double value = field_number(field, body);
    format_function *format = field_format(field);
    if (isnan(value))
        strcpy(text, "-");
    else if (format)
        format(text, value);
    else
        format_count(text, value, field->column.width);
}

/* Appends a right-aligned cell to `line`. */
static void append_cell(char line[LINE_SIZE], const struct field *field, const char *text,
                        bool red) {
    text_append(line, LINE_SIZE, "%*s%s%*s%s", *line ? GAP : 0, "", red ? RED : "",
                field->column.width, text, red ? PLAIN : "");
}

/* The baseline was better over the last tenth of the examples. */
static bool is_bad(const struct lines *lines, const struct field *field, const json_t *body) {
    bool skill =
        field == &fields_of_loss[FIELD_skill] || field == &fields_of_loss[FIELD_skill_recent];
    return skill && lines->coloured && loss_number(body, FIELD_skill_recent) < 0;
}

static void print_header(struct table *table, struct lines *lines) {
    char line[LINE_SIZE] = "";
    for (int i = 0; i < table->count; i++) {
        const struct field *field = columns[table->columns[i]];
        append_cell(line, field, field->column.title ? field->column.title : field->column.name,
                    false);
    }
    lines_add(lines, line);
    table->header = lines->count;
}

static void print_loss(struct table *table, struct lines *lines, const json_t *body) {
    bool header = !table->header || lines->count - table->header >= LINES_HEADER_EVERY;
    if (!table->chosen) {
        int fitting[TABLE_COLUMNS_MAX], count;
        find_columns();
        fit_columns(fitting, &count, body, lines->columns);
        header = header || count != table->count ||
                 memcmp(fitting, table->columns, (size_t)count * sizeof *fitting) != 0;
        memcpy(table->columns, fitting, (size_t)count * sizeof *fitting);
        table->count = count;
    }
    if (header)
        print_header(table, lines);
    char line[LINE_SIZE] = "", cell[FORMAT_SIZE];
    for (int i = 0; i < table->count; i++) {
        const struct field *field = columns[table->columns[i]];
        format_cell(cell, field, body);
        append_cell(line, field, cell, is_bad(lines, field, body));
    }
    lines_add(lines, line);
}

static void print_timed(struct lines *lines, double unix_time, const char *text) {
    char line[LINE_SIZE], clock[FORMAT_SIZE];
    snprintf(line, sizeof line, "-- %s %s", format_clock(clock, unix_time), text);
    lines_add(lines, line);
}

static double body_time(const json_t *body) {
    double unix_time;
    return member_number(body, "time", &unix_time) ? unix_time : (double)time(NULL);
}

void table_note(struct lines *lines, const char *sentence) {
    char clean[TEXT_SIZE];
    print_timed(lines, (double)time(NULL), text_copy(clean, sizeof clean, sentence));
}

static void print_event(struct lines *lines, const json_t *body) {
    const char *kind = member_string(body, "kind"), *sentence = member_string(body, "text");
    char joined[TEXT_SIZE], clean[TEXT_SIZE];
    /* "checkpoint of 100 examples" does not need "checkpoint: " before it. */
    bool repeats_kind = kind && sentence && strncmp(sentence, kind, strlen(kind)) == 0;
    snprintf(joined, sizeof joined, "%s%s%s",
             repeats_kind ? ""
             : kind       ? kind
                          : "event",
             sentence && !repeats_kind ? ": " : "", sentence ? sentence : "");
    print_timed(lines, body_time(body), text_copy(clean, sizeof clean, joined));
}

static void print_clean(struct lines *lines, const json_t *body, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void print_clean(struct lines *lines, const json_t *body, const char *format, ...) {
    char text[TEXT_SIZE], clean[TEXT_SIZE];
    TEXT_FORMAT(text, sizeof text, format);
    print_timed(lines, body_time(body), text_copy(clean, sizeof clean, text));
}

/* Prints everything if the daemon is not the last one printed, else only its state. */
static bool print_status(struct table *table, struct lines *lines, const json_t *body) {
    const char *name = member_string(body, "name"), *state = member_string(body, "state");
    const char *device = member_string(body, "device"), *model = member_string(body, "model");
    char now[TABLE_STATE_SIZE], self[TABLE_SELF_SIZE], count[FORMAT_SIZE] = "?";
    double parameters = 1;
    if (member_number(body, "parameters", &parameters))
        format_grouped(count, parameters);
    name = name ? name : "?";
    device = device ? device : "?";
    text_copy(now, sizeof now, state && *state ? state : "?");
    snprintf(self, sizeof self, "%s %s %s %s", name, count, device, model ? model : "");
    bool same = *table->state && strcmp(self, table->self) == 0;
    if (same && strcmp(now, table->state) == 0)
        return false;
    strcpy(table->state, now);
    strcpy(table->self, self);
    if (same) {
        print_clean(lines, body, "%s is %s", name, now);
        return true;
    }
    print_clean(lines, body, "%s is %s: %s%s on %s", name, now,
                parameters > 0 ? count : "no network", parameters > 0 ? " parameters" : "", device);
    if (model)
        print_clean(lines, body, "model: %s", model);
    return true;
}

void table_restart(struct table *table) {
    *table->state = '\0';
    table_close(table);
    table->truth_header = 0;
}

void table_read_names(struct table *table, const json_t *status) {
    const char *names = member_string(status, fields_of_status[STATUS_target_names].key);
    if (strcmp(names ? names : "", table->names ? table->names : "") == 0)
        return;
    table_close(table);
    table->names = names && *names ? strdup(names) : NULL;
    table->truth_header = 0; /* the width may differ */
}

void table_close(struct table *table) {
    free(table->names);
    table->names = NULL;
}

static void append_histogram(char line[LINE_SIZE], const struct lines *lines, const json_t *layer) {
    double values[TREND_VALUES];
    char picture[TREND_PICTURE_SIZE];
    size_t count = member_counts(layer, "histogram", values, TREND_VALUES);
    if (!count || lines_width(line) + 2 + (int)count > lines->columns)
        return;
    text_append(line, LINE_SIZE, "  %s", trend_histogram(values, count, lines->utf8, picture));
}

/* "  dormant 31.2%  rank 11.77  growth 8.195", if there is room. */
static void append_units(char line[LINE_SIZE], const struct lines *lines, const json_t *layer) {
    char dormant[FORMAT_SIZE] = "-", numbers[2][FORMAT_SIZE], text[LINE_SIZE];
    double share = layer_number(layer, LAYER_units_dormant);
    if (!isnan(share))
        snprintf(dormant, sizeof dormant, "%.1f%%", 100 * share);
    snprintf(text, sizeof text, "  dormant %6s  rank %7s  growth %7s", dormant,
             format_number(numbers[0], layer_number(layer, LAYER_units_rank)),
             format_number(numbers[1], layer_number(layer, LAYER_weights_growth)));
    if (lines_width(line) + (int)strlen(text) <= lines->columns &&
        json_object_get(layer, fields_of_layer[LAYER_units_dormant].group))
        text_append(line, LINE_SIZE, "%s", text);
}

/* "layer 0" or " 0 change", equally wide on a line of 80 columns. */
static void format_layer(char label[LABEL_SIZE], const struct lines *lines, size_t index,
                         const json_t *layers) {
    enum { LINE = 80, NAMED = 9 /* columns of number and name */, HISTOGRAM = 2 + FIELD_BINS };
    const json_t *layer = json_array_get(layers, index);
    int more = lines->columns - LINE, number = state_number_columns(layers);
    more -= more < HISTOGRAM ? 0 : HISTOGRAM;
    int least = NAMED - number;
    int width = state_member_columns(layers, least + (more > 0 ? more : 0));
    width = width > least ? width : least;
    char name[STATE_NAME_SIZE];
    if (*state_member_name(layer, width, name))
        snprintf(label, LABEL_SIZE, " %*zu %-*s", number, index, width, name);
    else
        snprintf(label, LABEL_SIZE, "   layer %-2zu", index);
}

static void print_layer(struct lines *lines, size_t index, const json_t *layers) {
    const json_t *layer = json_array_get(layers, index);
    char line[LINE_SIZE], saturated[FORMAT_SIZE] = "-", label[LABEL_SIZE];
    char numbers[4][FORMAT_SIZE];
    double share = layer_number(layer, LAYER_hidden_saturated);
    if (!isnan(share))
        snprintf(saturated, sizeof saturated, "%.1f%%", 100 * share);
    format_layer(label, lines, index, layers);
    snprintf(line, sizeof line, "%s hidden %7s +- %7s  saturated %6s  sums %7s +- %7s", label,
             format_number(numbers[0], layer_number(layer, LAYER_hidden_mean)),
             format_number(numbers[1], layer_number(layer, LAYER_hidden_std)), saturated,
             format_number(numbers[2], layer_number(layer, LAYER_summed_inputs_mean)),
             format_number(numbers[3], layer_number(layer, LAYER_summed_inputs_std)));
    append_histogram(line, lines, layer);
    append_units(line, lines, layer);
    lines_add(lines, line);
}

static bool print_state(struct lines *lines, const json_t *body) {
    json_t *layers = state_layers(body);
    for (size_t i = 0; i < json_array_size(layers); i++)
        print_layer(lines, i, layers);
    bool any = json_array_size(layers) > 0;
    json_decref(layers);
    return any;
}

/* A prediction, or a vector, which has no loss. */
static void print_prediction(struct lines *lines, const json_t *body, const char *key) {
    enum { DIGITS = 4, ENDING = 3 };
    const char *stream = member_string(body, "stream");
    double example = 0, loss;
    char count[FORMAT_SIZE], number[FORMAT_SIZE] = "-", line[LINE_SIZE], clean[LINE_SIZE];
    char *values = json_dumps(json_object_get(body, key),
                              JSON_ENCODE_ANY | JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    member_number(body, "example", &example);
    if (member_number(body, "loss", &loss))
        format_number(number, loss);
    bool scored = json_object_get(body, "loss");
    snprintf(line, sizeof line, "   example %s of '%s'%s%s: %s", format_grouped(count, example),
             stream ? stream : "", scored ? ", loss " : "", scored ? number : "",
             values ? values : "-");
    free(values);
    size_t width = (size_t)lines->columns;
    if (width > sizeof line - 1)
        width = sizeof line - 1;
    text_copy(clean, sizeof clean, line);
    if (strlen(clean) > width) {
        text_copy(clean, width - ENDING + 1, line);
        strcat(clean, "...");
    }
    lines_add(lines, clean);
}

/* ---- Truths ---- */

struct truths {
    struct table *table;
    struct lines *lines;
    double when; /* time when the truth was learned */
    size_t count;
    bool open;     /* the truth is not known yet */
    int name;      /* columns of a target's name */
    bool baseline; /* whether the baseline has room */
};

enum {
    NUMBER_COLUMNS = 8,
    STREAM_COLUMNS = 8,
    TIME_COLUMNS = 19,
    TIME_SIZE = 64,
    WORD_COLUMNS = 16,
    WORD_SIZE = 4 * WORD_COLUMNS,
    NUMBERED_COLUMNS = 3, /* columns without target names */
    NAMED_COLUMNS = 12,   /* columns of a name before the baseline has room */
    OTHER_COLUMNS = TIME_COLUMNS + 1 + STREAM_COLUMNS + 1 + 5 * (1 + NUMBER_COLUMNS) + 2,
};

/* Divides the line between names and baseline. */
static struct truths begin(struct table *table, struct lines *lines, double when, bool open) {
    int room = lines->columns - OTHER_COLUMNS, longest = names_longest(table->names, room + 1);
    bool baseline = longest <= room || room >= NAMED_COLUMNS;
    room += baseline ? 0 : 1 + NUMBER_COLUMNS;
    int name = names_longest(table->names, room > NUMBERED_COLUMNS ? room : NUMBERED_COLUMNS);
    name = name > NUMBERED_COLUMNS ? name : NUMBERED_COLUMNS;
    return (struct truths){table, lines, when, 0, open, name, baseline};
}

/* Fills the first two texts: data time, or the time when it was learned, or "next"; and the
   stream. */
static void print_row(struct truths *t, const struct truth_row *row,
                      const struct lines_table *table, const char **texts, bool missed) {
    char date[TIME_SIZE] = "next", stream[4 * STREAM_COLUMNS], ahead[FORMAT_SIZE] = "",
         rest[2 + FORMAT_SIZE];
    if (!t->open)
        format_date(date, isnan(row->data_time) ? t->when : row->data_time);
    if (row->ahead > 1)
        snprintf(ahead, sizeof ahead, " %.0f ahead", row->ahead);
    snprintf(rest, sizeof rest, "%s%s", missed ? " *" : "", ahead);
    texts[0] = date;
    texts[1] = text_copy(stream, sizeof stream, row->stream);
    lines_row(t->lines, table, &t->table->truth_header, texts, rest);
    t->count++;
}

static void print_truth(void *context, const struct truth_row *row) {
    enum { NUMBERS = 5, OTHERS = 3 };
    static const char *const titles[] = {"time",     "stream", "col",  "truth",
                                         "forecast", "low",    "high", "baseline"};
    struct truths *t = context;
    const double numbers[NUMBERS] = {row->target, row->prediction, row->low, row->high,
                                     row->baseline};
    const int widths[] = {-TIME_COLUMNS,  -STREAM_COLUMNS, t->name,        NUMBER_COLUMNS,
                          NUMBER_COLUMNS, NUMBER_COLUMNS,  NUMBER_COLUMNS, NUMBER_COLUMNS};
    char name[NAME_SIZE], shown[NUMBERS][FORMAT_SIZE];
    const char *texts[OTHERS + NUMBERS] = {
        NULL, NULL, names_target(name, t->table->names, row->column, t->name)};
    for (size_t n = 0; n < NUMBERS; n++)
        texts[OTHERS + n] = format_number(shown[n], numbers[n]);
    const struct lines_table table = {titles, widths, OTHERS + NUMBERS - !t->baseline};
    print_row(t, row, &table, texts, truth_missed(row));
}

/* ---- Words ---- */

static const char *word_text(char text[WORD_SIZE], const char *word) {
    return text_copy(text, WORD_SIZE, !word ? "-" : *word ? word : "(unknown)");
}

static void print_word(void *context, const struct truth_row *row) {
    bool chance = !row->words[TRUTH_BASELINE]; /* in its place */
    const char *const titles[] = {"time",  "stream",
                                  "truth", "forecast",
                                  "share", isnan(row->chance) ? "baseline" : "of truth"};
    const int widths[] = {-TIME_COLUMNS, -STREAM_COLUMNS, WORD_COLUMNS,
                          WORD_COLUMNS,  NUMBER_COLUMNS,  chance ? NUMBER_COLUMNS : WORD_COLUMNS};
    const struct lines_table table = {titles, widths, sizeof widths / sizeof *widths};
    const char *came = row->words[TRUTH_ACTUAL], *sentence = row->words[TRUTH_FORECAST];
    char words[3][WORD_SIZE], share[2][FORMAT_SIZE];
    const char *texts[] = {NULL,
                           NULL,
                           word_text(words[0], came),
                           word_text(words[1], sentence),
                           format_number(share[0], row->probability),
                           chance ? format_number(share[1], row->chance)
                                  : word_text(words[2], row->words[TRUTH_BASELINE])};
    print_row(context, row, &table, texts, came && strcmp(came, sentence) != 0);
}

/* Prints a row for each column of each truth in the message. `when` (Unix time) replaces an unknown
   data time. Returns the number of rows. */
static size_t truths_print(struct table *table, struct lines *lines, const json_t *body,
                           double when) {
    struct truths truths = begin(table, lines, when, false);
    truth_rows(body, print_truth, &truths);
    truth_words(body, print_word, &truths);
    return truths.count;
}

void truths_next(struct table *table, struct lines *lines, const json_t *body) {
    struct truths truths = begin(table, lines, NAN, true);
    truth_next(body, print_truth, &truths);
    truth_next_word(body, print_word, &truths);
}

/* ---- Messages ---- */

bool table_print(struct table *table, struct lines *lines, const struct message *message) {
    switch (message->topic) {
    case TOPIC_LOSS:
        print_loss(table, lines, message->body);
        return true;
    case TOPIC_EVENT:
        print_event(lines, message->body);
        return true;
    case TOPIC_STATE:
        return print_state(lines, message->body);
    case TOPIC_PREDICTION:
        if (!truths_print(table, lines, message->body, body_time(message->body)))
            print_prediction(lines, message->body, "prediction");
        return true;
    case TOPIC_VECTOR:
        print_prediction(lines, message->body, "h");
        return true;
    case TOPIC_STATUS:
        return print_status(table, lines, message->body);
    case TOPICS:
        break;
    }
    return false;
}
