#include "build-config.h"

#include "top_meters.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/fields.h"
#include "common/format.h"
#include "top_chart.h"
#include "top_verdict.h"

enum {
    LABEL = 9,
    VALUE = 8,
    GAP = 2,
    GROUPED_MOST = 1000000, /* entries of a journal; more than that have a prefix */
    LINE_SIZE = 200,
};

static const struct meter {
    const char *label;
    enum loss_field field;
} learning[] =
    {
        {"rmse", FIELD_metric_rmse},
        {"accuracy", FIELD_metric_accuracy},
        {"bits", FIELD_metric_bits},
        {"skill", FIELD_skill},
        {"gradient", FIELD_gradient_norm},
        {"update", FIELD_update_ratio},
        {"rate", FIELD_rate},
},
  running[] = {
      {"speed", FIELD_examples_per_second},
      {"p99", FIELD_latency_us_p99},
      {"queued", FIELD_queued},
};

/* NAN where it is not known. `status` messages have some, too, and come when nothing is learned. */
static double value_of(const struct watched *w, enum loss_field field) {
    const struct sample *sample = watched_sample(w);
    double newest = field == FIELD_rejected              ? w->rejected
                    : field == FIELD_examples_per_second ? w->speed
                                                         : NAN;
    if (isnan(w->look.cursor) && !isnan(newest))
        return newest;
    return sample ? sample->values[field] : NAN;
}

static const char *value_text(char text[FORMAT_SIZE], const struct watched *w,
                              enum loss_field field) {
    format_function *format = field_format(&fields_of_loss[field]);
    double value = value_of(w, field);
    if (!isfinite(value))
        return "-";
    return format ? format(text, value) : format_grouped(text, value);
}

/* What only some losses have: whether the daemon has it, which has been heard, if not now. */
static bool is_used(const struct watched *w, const struct meter *meter) {
    const struct past *p = &w->past;
    if (!fields_of_loss[meter->field].need)
        return true;
    for (size_t i = p->count; i-- > 0;)
        if (isfinite(p->samples[i].values[meter->field]))
            return true;
    return false;
}

static void draw_meter(struct canvas *c, const struct area *area, const struct watched *w,
                       const struct meter *meter) {
    char number[FORMAT_SIZE];
    const char *value = value_text(number, w, meter->field);
    canvas_print(c, area, 0, 0, STYLE_DIM, "%s", meter->label);
    enum style style = meter->field == FIELD_skill ? verdict_skill(w) : STYLE_STRONG;
    canvas_print(c, area, 0, LABEL, style, "%*s", VALUE, value);
    struct area curve = area_columns(area, LABEL + VALUE + 1, area->columns);
    chart_field(c, &curve, w, meter->field);
}

/* A label and a number in the style that it deserves; returns the column after it. */
static int draw_pair(struct canvas *c, const struct area *area, int row, int at, const char *label,
                     enum style style, const char *value) {
    at = canvas_print(c, area, row, at, STYLE_DIM, "%s ", label);
    return canvas_print(c, area, row, at, style, "%s", value) + GAP;
}

static enum style count_style(const struct watched *w, enum loss_field field, enum style worst) {
    if (!(value_of(w, field) > 0))
        return STYLE_PLAIN;
    return verdict_recent(w, field) > 0 ? worst : STYLE_WARN;
}

static bool draw_speed(struct canvas *c, const struct area *area, const struct watched *w) {
    char text[FORMAT_SIZE];
    int at = draw_pair(c, area, 0, 0, "speed   ", STYLE_STRONG,
                       value_text(text, w, FIELD_examples_per_second));
    at = canvas_print(c, area, 0, at - 1, STYLE_DIM, "ex/s");
    struct area curve = area_columns(area, at + 1, area->columns);
    chart_field(c, &curve, w, FIELD_examples_per_second);
    return true;
}

/* As wide as they can be, these three just fit half of 80 columns. */
static bool draw_latency(struct canvas *c, const struct area *area, const struct watched *w) {
    static const struct {
        const char *label;
        enum loss_field field;
    } parts[] = {{"p50", FIELD_latency_us_p50},
                 {"p99", FIELD_latency_us_p99},
                 {"max", FIELD_latency_us_max}};
    char text[FORMAT_SIZE];
    int at = canvas_print(c, area, 0, 0, STYLE_DIM, "latency ");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        at = draw_pair(c, area, 0, at, parts[i].label, STYLE_PLAIN,
                       value_text(text, w, parts[i].field)) -
             1;
    return true;
}

static bool draw_queue(struct canvas *c, const struct area *area, const struct watched *w) {
    char text[FORMAT_SIZE];
    enum style pace = verdict_pace(w).style;
    int at = draw_pair(c, area, 0, 0, "queued  ", pace == STYLE_GOOD ? STYLE_PLAIN : pace,
                       value_text(text, w, FIELD_queued));
    at = draw_pair(c, area, 0, at, "streams", STYLE_PLAIN, value_text(text, w, FIELD_streams));
    double missed = (double)w->health.missed_total;
    draw_pair(c, area, 0, at, "missed", missed > 0 ? STYLE_WARN : STYLE_PLAIN,
              format_count(text, missed, LABEL));
    return true;
}

static bool draw_refused(struct canvas *c, const struct area *area, const struct watched *w) {
    char text[FORMAT_SIZE];
    int at = draw_pair(c, area, 0, 0, "rejected", count_style(w, FIELD_rejected, STYLE_BAD),
                       value_text(text, w, FIELD_rejected));
    at = draw_pair(c, area, 0, at, "skipped", count_style(w, FIELD_skipped, STYLE_BAD),
                   value_text(text, w, FIELD_skipped));
    if (isfinite(value_of(w, FIELD_anomaly_alarms)))
        draw_pair(c, area, 0, at, "anomalies", count_style(w, FIELD_anomaly_alarms, STYLE_WARN),
                  value_text(text, w, FIELD_anomaly_alarms));
    return true;
}

static bool draw_learned(struct canvas *c, const struct area *area, const struct watched *w) {
    const struct sample *sample = watched_sample(w);
    char text[FORMAT_SIZE];
    int at = draw_pair(c, area, 0, 0, "updates ", STYLE_PLAIN, value_text(text, w, FIELD_updates));
    draw_pair(c, area, 0, at, "steps", STYLE_PLAIN,
              sample ? format_grouped(text, sample->steps) : "-");
    return true;
}

/* The newest checkpoint of the run. */
static bool draw_checkpoint(struct canvas *c, const struct area *area, const struct watched *w) {
    double examples = status_number(w->status, STATUS_checkpoint_examples);
    double when = status_number(w->status, STATUS_checkpoint_time);
    char count[FORMAT_SIZE], age[FORMAT_SIZE], text[LINE_SIZE] = "none yet in this run";
    if (!isnan(examples) && !isnan(when))
        snprintf(text, sizeof text, "%s ago, of %s",
                 format_duration(age, (double)time(NULL) - when), format_grouped(count, examples));
    draw_pair(c, area, 0, 0, "saved   ", STYLE_PLAIN, w->status ? text : "-");
    return true;
}

/* A number of `status`, 0 where there is none. */
static double known(const struct watched *w, enum status_field field) {
    double value = status_number(w->status, field);
    return isnan(value) ? 0 : value;
}

/* With a journal: how much of it there is, its size only where there is room for it, and how far
   the disk is behind. */
static bool draw_journal(struct canvas *c, const struct area *area, const struct watched *w) {
    const json_t *journal = json_object_get(w->status, "journal");
    double entries = known(w, STATUS_journal_entries);
    double bytes = known(w, STATUS_journal_bytes);
    double free_bytes = known(w, STATUS_journal_free_bytes);
    double waiting = known(w, STATUS_journal_waiting);
    char number[3][FORMAT_SIZE], size[LINE_SIZE], rest[LINE_SIZE] = "";
    if (!json_is_object(journal))
        return false;
    bool replaying = json_is_true(json_object_get(journal, "replaying")) || w->replaying;
    if (entries < GROUPED_MOST)
        format_grouped(number[0], entries);
    else
        format_rate(number[0], entries);
    snprintf(size, sizeof size, ", %s", format_bytes(number[1], bytes));
    if (waiting >= 1)
        snprintf(rest, sizeof rest, "; %s behind", format_duration(number[2], waiting));
    else if (!replaying)
        snprintf(rest, sizeof rest, "; %s free", format_bytes(number[2], free_bytes));
    int at = canvas_print(c, area, 0, 0, STYLE_DIM, "journal  ");
    at = canvas_print(c, area, 0, at, STYLE_WARN, "%s", replaying ? "replaying " : "");
    at = canvas_print(c, area, 0, at, STYLE_PLAIN, "%s entries", number[0]);
    if (at + (int)(strlen(size) + strlen(rest)) <= area->columns)
        at = canvas_print(c, area, 0, at, STYLE_PLAIN, "%s", size);
    canvas_print(c, area, 0, at, waiting >= 1 ? STYLE_WARN : STYLE_PLAIN, "%s", rest);
    return true;
}

/* One line; false when there is nothing to say. */
typedef bool draw_line(struct canvas *c, const struct area *area, const struct watched *w);

static bool draw_kept(struct canvas *c, const struct area *area, const struct watched *w) {
    return draw_journal(c, area, w) || draw_checkpoint(c, area, w);
}

static void draw_lines(struct canvas *c, const struct area *area, const struct watched *w,
                       draw_line *const *lines, size_t count) {
    int used = 0;
    for (size_t i = 0; i < count; i++) {
        struct area row = area_rows(area, used, 1);
        used += row.rows > 0 && lines[i](c, &row, w);
    }
}

static int draw_learning(struct canvas *c, const struct area *area, const struct watched *w,
                         int height) {
    int row = 0;
    for (size_t i = 0; i < sizeof learning / sizeof *learning; i++) {
        struct area slot = area_rows(area, row, height);
        if (!is_used(w, &learning[i]) || slot.rows == 0)
            continue;
        draw_meter(c, &slot, w, &learning[i]);
        row += height;
    }
    return row;
}

/* Low: one line each. High: curves of three of them, and lines beneath. */
static void draw_running(struct canvas *c, const struct area *area, const struct watched *w,
                         int height) {
    static draw_line *const low[] = {draw_speed, draw_latency, draw_queue, draw_refused, draw_kept};
    static draw_line *const high[] = {draw_latency, draw_queue,      draw_refused,
                                      draw_journal, draw_checkpoint, draw_learned};
    if (height == 1) {
        draw_lines(c, area, w, low, sizeof low / sizeof *low);
        return;
    }
    int row = 0;
    for (size_t i = 0; i < sizeof running / sizeof *running; i++, row += height) {
        struct area slot = area_rows(area, row, height);
        draw_meter(c, &slot, w, &running[i]);
    }
    struct area rest = area_rows(area, row, area->rows - row);
    draw_lines(c, &rest, w, high, sizeof high / sizeof *high);
}

void meters_draw(struct canvas *c, const struct area *area, const struct watched *w) {
    static draw_line *const narrow[] = {draw_refused, draw_speed, draw_latency, draw_queue};
    if (area->columns >= METERS_WIDE) {
        int half = area->columns / 2, height = area->rows / METERS_SLOTS;
        struct area left = area_columns(area, 0, half - GAP);
        struct area right = area_columns(area, half, area->columns - half);
        draw_learning(c, &left, w, height < 1 ? 1 : height);
        draw_running(c, &right, w, height < 1 ? 1 : height);
        return;
    }
    draw_lines(c, area, w, narrow, sizeof narrow / sizeof *narrow);
    int row = sizeof narrow / sizeof *narrow;
    struct area rest = area_rows(area, row, area->rows - row);
    draw_learning(c, &rest, w, 1);
}
