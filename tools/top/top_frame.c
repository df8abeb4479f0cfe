#include "build-config.h"

#include "top_frame.h"

#include <stdio.h>
#include <string.h>

#include "common/clock.h"
#include "common/format.h"

enum {
    PANE_COLUMNS = 38, /* that a pane has at least beside others */
    PANE_ROWS = 12,
    GAP = 1,
    HELP_COLUMNS = 70,
    TEXT_SIZE = 300,
};

static const char *const help_lines[] = {
    "  q             quit                    ?          this help",
    "  space         freeze what is shown, and continue",
    "  left, right   scroll back and forth (freezes); PgUp, PgDn a whole chart,",
    "                Home to the oldest, End to the newest",
    "  + -           show fewer, more examples in the charts; 0 shows all",
    "  l             logarithmic axis of the loss",
    "  v             view: overview, loss, layers, events",
    "  up, down      older and newer events",
    "  [ ]           layers before and after those shown",
    "  c, w          forecast of the next column; of the one with least skill",
    "  tab, 1 to 9   the next daemon, the one of that number",
    "  a             all daemons beside each other, or one alone",
    "",
    "Keys that act on the daemon selected; each asks first:",
    "  P             pause it, or resume it when it is paused",
    "  C             write a checkpoint",
    "  R             set the learning rate",
    "",
    "On the axis: c checkpoint, s set, ^ started, p paused, r resumed, R reset,",
    "x rejected, ! update skipped or input out of scale, g gap, $ stopping.",
};

enum { HELP_LINES = sizeof help_lines / sizeof *help_lines };

static void draw_help(struct canvas *c) {
    int rows = HELP_LINES + 3, columns = HELP_COLUMNS + 8;
    struct area all = canvas_all(c);
    struct area box = area_rows(&all, (c->rows - rows) / 2 < 0 ? 0 : (c->rows - rows) / 2, rows);
    box = area_columns(&box, (c->columns - columns) / 2 < 0 ? 0 : (c->columns - columns) / 2,
                       columns);
    for (int row = 0; row < c->rows; row++)
        canvas_fill(c, &all, row, STYLE_PLAIN);
    canvas_heading(c, &box, 0, "runnel-top: keys");
    for (int i = 0; i < HELP_LINES; i++)
        canvas_print(c, &box, 1 + i, 2, STYLE_PLAIN, "%s", help_lines[i]);
    canvas_heading(c, &box, box.rows - 1, "any key goes back");
}

/* Who is watched, when only one is shown. */
static void draw_tabs(struct canvas *c, const struct area *area, const struct session *s) {
    int at = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct watched *w = s->watched[i];
        bool well = w->health.presence == PRESENCE_SPEAKING;
        enum style style = i == s->selected ? STYLE_BAR : well ? STYLE_PLAIN : STYLE_BAD;
        at = canvas_print(c, area, 0, at, style, " %zu %.20s%s ", i + 1, watched_name(w),
                          well ? "" : "!") +
             GAP;
    }
}

static struct pane_settings settings_of(const struct session *s, size_t which) {
    return (struct pane_settings){
        .view = s->view, .log = s->log, .frozen = s->frozen, .focus = which == s->selected};
}

static void draw_one(struct canvas *c, struct area area, const struct session *s) {
    struct pane_settings settings = settings_of(s, s->selected);
    if (s->count > 1) {
        struct area tabs = area_rows(&area, 0, 1);
        draw_tabs(c, &tabs, s);
        area = area_rows(&area, 1, area.rows - 1);
    }
    pane_draw(c, &area, s->watched[s->selected], &settings);
}

static int at_least_one(int value) {
    return value < 1 ? 1 : value;
}

/* As many beside and below each other as have room; the page that has the selected one. */
static void draw_together(struct canvas *c, const struct area *whole, const struct session *s) {
    int count = (int)s->count, abreast = at_least_one(whole->columns / PANE_COLUMNS);
    abreast = abreast > count ? count : abreast;
    int stacked = at_least_one(whole->rows / PANE_ROWS), needed = (count + abreast - 1) / abreast;
    stacked = stacked > needed ? needed : stacked;
    abreast = (count + stacked - 1) / stacked < abreast ? (count + stacked - 1) / stacked : abreast;
    int page = (int)s->selected / (abreast * stacked) * (abreast * stacked);
    bool all = abreast * stacked >= count;
    if (!all)
        draw_tabs(c, whole, s);
    struct area rest = area_rows(whole, !all, whole->rows - !all), *area = &rest;
    for (int i = 0; i < abreast * stacked && page + i < count; i++) {
        int row = i / abreast, column = i % abreast;
        int top = row * area->rows / stacked, left = column * area->columns / abreast;
        int below = (row + 1) * area->rows / stacked;
        int right = (column + 1) * area->columns / abreast;
        struct area rows = area_rows(area, top, below - top);
        struct area pane =
            area_columns(&rows, left, right - left - (column + 1 < abreast ? GAP : 0));
        size_t which = (size_t)(page + i);
        struct pane_settings settings = settings_of(s, which);
        pane_draw(c, &pane, s->watched[which], &settings);
    }
}

static void draw_question(struct canvas *c, const struct area *line, const struct session *s) {
    const struct question *q = &s->question;
    const struct watched *w = s->watched[q->which];
    const struct sample *sample = watched_sample(w);
    char text[TEXT_SIZE], now[FORMAT_SIZE] = "?", then[FORMAT_SIZE];
    if (sample && sample->values[FIELD_rate] > 0)
        format_setting(now, sample->values[FIELD_rate]);
    const char *name = watched_name(w);
    if (q->act == ACT_PAUSE)
        snprintf(text, sizeof text, "Pause %.40s: it takes no examples until resumed?", name);
    else if (q->act == ACT_RESUME)
        snprintf(text, sizeof text, "Resume %.40s?", name);
    else if (q->act == ACT_CHECKPOINT)
        snprintf(text, sizeof text, "Write a checkpoint of %.40s now?", name);
    else if (q->entering)
        snprintf(text, sizeof text, "Learning rate of %.40s, now %s, new: %s_", name, now,
                 q->input);
    else
        snprintf(text, sizeof text, "Set the learning rate of %.40s from %s to %s?", name, now,
                 format_setting(then, q->rate));
    canvas_fill(c, line, 0, STYLE_BAR);
    canvas_print(c, line, 0, 1, STYLE_BAR, "%s%s", text,
                 q->entering ? "  (return; esc leaves it)" : "  y/N");
}

/* What is said for a while, upwards from the bottom as far as it needs. */
static void draw_flash(struct canvas *c, const struct session *s) {
    struct area all = canvas_all(c);
    int rows = canvas_wrap(NULL, &all, 0, 1, s->flash_style, s->flash);
    struct area lines = area_rows(&all, c->rows - rows < 0 ? 0 : c->rows - rows, rows);
    for (int row = 0; row < lines.rows; row++)
        canvas_fill(c, &lines, row, STYLE_PLAIN);
    canvas_wrap(c, &lines, 0, 1, s->flash_style, s->flash);
}

static void draw_bottom(struct canvas *c, const struct area *line, const struct session *s) {
    static const char one[] =
        "? help  q quit  space freeze  l log  + - zoom  v view  P pause  C save  R rate";
    static const char several[] =
        "? help  q quit  space freeze  l log  v view  tab next  a one/all  P pause  C save  R rate";
    static const char little[] =
        "? help  q quit  space freeze  v view  tab next  a one/all  P C R act";
    if (s->question.act != ACT_NONE) {
        draw_question(c, line, s);
    } else {
        const char *keys = s->count > 1 ? several : one;
        canvas_print(c, line, 0, 1, STYLE_DIM, "%s",
                     (int)strlen(keys) < line->columns ? keys : little);
    }
}

void frame_draw(struct canvas *c, const struct session *s, bool bottom) {
    struct area all = canvas_all(c), panes = area_rows(&all, 0, c->rows - bottom);
    struct area line = area_rows(&all, c->rows - 1, 1);
    if (s->together && s->count > 1)
        draw_together(c, &panes, s);
    else
        draw_one(c, panes, s);
    if (s->help)
        draw_help(c);
    if (bottom && s->question.act == ACT_NONE && clock_seconds() < s->flash_until)
        draw_flash(c, s);
    else if (bottom)
        draw_bottom(c, &line, s);
}
