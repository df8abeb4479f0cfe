#include "build-config.h"

#include "top_pane.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/format.h"
#include "common/json_member.h"
#include "top_broker.h"
#include "top_chart.h"
#include "top_layers.h"
#include "top_meters.h"
#include "top_said.h"
#include "top_verdict.h"

enum {
    TEXT_SIZE = 400,
    LOW = 16,         /* rows below which layers and events are left out */
    TALL = 34,        /* rows from which meters take two rows, */
    VERY_TALL = 45,   /* and three */
    EVENTS_LEAST = 2, /* with their heading */
    EVENTS_MOST = 12,
    VERDICTS = 3,
    ROOMY = 100, /* columns that a second chart needs */
};

/* How the daemon is: what it says of itself, or for how long it has said nothing. */
static enum style describe_presence(const struct watched *w, char text[TEXT_SIZE]) {
    double quiet = health_quiet(&w->health);
    char clock[FORMAT_SIZE], duration[FORMAT_SIZE];
    format_clock(clock, (double)time(NULL) - quiet);
    format_duration(duration, quiet);
    if (w->refused) {
        snprintf(text, TEXT_SIZE, "REFUSED: %s", link_refusal(w->link));
        return STYLE_BAD;
    }
    if (w->hindered) {
        snprintf(text, TEXT_SIZE, "NOT ADMITTED: %s", link_refusal(w->link));
        return STYLE_BAD;
    }
    switch (w->health.presence) {
    case PRESENCE_EXPECTED:
        snprintf(text, TEXT_SIZE, "waiting for a daemon, %s", duration);
        return STYLE_WARN;
    case PRESENCE_SILENT:
        snprintf(text, TEXT_SIZE, "SILENT since %s (%s)", clock, duration);
        return STYLE_BAD;
    case PRESENCE_GONE:
        snprintf(text, TEXT_SIZE, "GONE since %s (%s)", clock, duration);
        return STYLE_BAD;
    case PRESENCE_SPEAKING:
        break;
    }
    const char *state = watched_state(w);
    snprintf(text, TEXT_SIZE, "%s%s", w->replaying ? "replaying, " : "", *state ? state : "?");
    return w->replaying || strcmp(state, "learning") != 0 ? STYLE_WARN : STYLE_BAR;
}

static void draw_bar(struct canvas *c, const struct area *area, const struct watched *w,
                     const struct pane_settings *settings) {
    char presence[TEXT_SIZE], right[TEXT_SIZE] = "", number[FORMAT_SIZE];
    enum style style = settings->focus ? STYLE_BAR : STYLE_OTHER;
    enum style state = describe_presence(w, presence);
    const struct sample *sample = watched_sample(w);
    double uptime;
    canvas_fill(c, area, 0, style);
    int at = canvas_print(c, area, 0, 0, style, " %s  ", watched_name(w));
    at = canvas_print(c, area, 0, at, state == STYLE_BAR ? style : state, "%s", presence);
    if (settings->frozen && sample)
        snprintf(right, sizeof right, "FROZEN at %s ", format_clock(number, sample->time));
    else if (member_number(w->status, "uptime", &uptime))
        snprintf(right, sizeof right, "up %s ",
                 format_duration(number, uptime + health_status_age(&w->health)));
    if (at + 2 + (int)strlen(right) <= area->columns)
        canvas_print_right(c, area, 0, style, right);
}

static void draw_model(struct canvas *c, const struct area *area, const struct watched *w) {
    const char *model = member_string(w->status, "model"),
               *device = member_string(w->status, "device");
    char count[FORMAT_SIZE] = "?";
    double parameters;
    if (!w->status) {
        canvas_print(c, area, 0, 1, STYLE_DIM, "at %s", w->endpoint);
        return;
    }
    if (member_number(w->status, "parameters", &parameters))
        format_grouped(count, parameters);
    device = device ? device : "?";
    canvas_print(c, area, 0, 1, STYLE_DIM, "%s parameters on %.*s; %s", count,
                 (int)(area->columns < ROOMY ? strcspn(device, ",") : strlen(device)), device,
                 model ? model : "?");
}

/* The three answers beside each other where there is room, else below each other. Beside each other
   they begin at thirds of the width, unless they are too long for that. */
static void draw_verdicts(struct canvas *c, const struct area *area, const struct watched *w,
                          const json_t *layers) {
    static const char *const questions[VERDICTS] = {"learning", "healthy", "keeps up"};
    struct verdict verdicts[VERDICTS] = {verdict_learning(w, c->utf8), verdict_health(w, layers),
                                         verdict_pace(w)};
    char answers[VERDICTS][TEXT_SIZE];
    bool wide = area->columns >= METERS_WIDE, thirds = true;
    for (int i = 0; i < VERDICTS; i++) {
        bool bad = verdicts[i].style == STYLE_BAD || verdicts[i].style == STYLE_WARN;
        snprintf(answers[i], TEXT_SIZE, "%s%s", bad ? "! " : "", verdicts[i].text);
        int width = canvas_width(questions[i]) + 2 + canvas_width(answers[i]);
        thirds = thirds && width + 2 <= area->columns / VERDICTS;
    }
    for (int i = 0, end = 0; i < VERDICTS; i++) {
        int row = wide ? 0 : i;
        int column = !wide || i == 0 ? 1 : thirds ? 1 + i * area->columns / VERDICTS : end + 2;
        end = canvas_print(c, area, row, column, STYLE_STRONG, "%s: ", questions[i]);
        end = canvas_print(c, area, row, end, verdicts[i].style, "%s", answers[i]);
    }
}

static const char *value_text(char text[FORMAT_SIZE], const struct sample *sample,
                              enum loss_field field) {
    return sample && isfinite(sample->values[field]) ? format_number(text, sample->values[field])
                                                     : "-";
}

static void draw_chart(struct canvas *c, const struct area *area, const struct watched *w,
                       bool log) {
    const struct sample *sample = watched_sample(w);
    char title[TEXT_SIZE], number[4][FORMAT_SIZE];
    const char *mean = value_text(number[0], sample, FIELD_mean);
    const char *smoothed = value_text(number[1], sample, FIELD_smoothed);
    if (area->columns < METERS_WIDE)
        snprintf(title, sizeof title, "loss %s, smoothed %s", mean, smoothed);
    else
        snprintf(title, sizeof title, "loss %s, smoothed %s, from %s to %s", mean, smoothed,
                 value_text(number[2], sample, FIELD_minimum),
                 value_text(number[3], sample, FIELD_maximum));
    canvas_heading(c, area, 0, title);
    struct area rest = area_rows(area, 1, area->rows - 1);
    chart_loss(c, &rest, w, log);
}

enum { EVENT_TEXT = 10 }; /* column, after the time */

static int event_rows(const struct area *area, const struct happening *event, bool whole) {
    return whole ? canvas_wrap(NULL, area, 0, EVENT_TEXT, event->style, event->text) : 1;
}

/* The oldest event that is shown when `below` of the newest are not. */
static int first_event(const struct area *area, const struct watched *w, int below, bool whole) {
    int first = (int)w->event_count - below, room = area->rows - 1;
    while (first > 0 && (room -= event_rows(area, &w->events[first - 1], whole)) >= 0)
        first--;
    return first;
}

static void head_events(struct canvas *c, const struct area *area, int above, int below) {
    char title[TEXT_SIZE];
    if (below > 0)
        snprintf(title, sizeof title, "events: %d newer below, %d older above", below, above);
    else if (above > 0)
        snprintf(title, sizeof title, "events: %d older above", above);
    else
        snprintf(title, sizeof title, "events");
    canvas_heading(c, area, 0, title);
}

/* With `whole` each takes the rows that it needs, else one. */
static void draw_events(struct canvas *c, const struct area *area, struct watched *w, bool whole) {
    char clock[FORMAT_SIZE];
    int count = (int)w->event_count, row = 1;
    int below = w->look.events < count ? w->look.events : count;
    while (below > 0 && (below >= count || first_event(area, w, below, whole) == 0) &&
           first_event(area, w, below - 1, whole) == 0)
        below--;
    w->look.events = below;
    int first = first_event(area, w, below, whole);
    head_events(c, area, first, below);
    for (int i = first; i < count - below; i++) {
        const struct happening *event = &w->events[i];
        struct area rows = area_rows(area, row, event_rows(area, event, whole));
        canvas_print(c, &rows, 0, 1, STYLE_DIM, "%s", format_clock(clock, event->time));
        if (whole)
            canvas_wrap(c, &rows, 0, EVENT_TEXT, event->style, event->text);
        else
            canvas_print(c, &rows, 0, EVENT_TEXT, event->style, "%s", event->text);
        row += rows.rows;
    }
    if (count == 0)
        canvas_print(c, area, 1, 1, STYLE_DIM, "none has come yet");
}

/* The rows of a pane's parts, from top to bottom; what has none is left out. */
struct layout {
    int verdicts, chart, said, broker, meters, layers, events;
};

/* That panels of so many layers take. */
static int panel_rows(const struct area *area, int layers) {
    int abreast = layers_abreast(area->columns);
    return (layers + abreast - 1) / abreast * LAYERS_PANEL_ROWS;
}

static struct layout lay_out(const struct area *area, int layers, const struct watched *w) {
    bool wide = area->columns >= METERS_WIDE;
    struct layout l = {.verdicts = wide ? 1 : VERDICTS};
    int height = area->rows >= VERY_TALL ? 3 : area->rows >= TALL ? 2 : 1;
    int rest = area->rows - l.verdicts;
    l.said = w->truth && area->rows >= LOW;
    l.broker = area->rows >= LOW ? broker_rows(w) : 0;
    rest -= l.said + l.broker;
    l.meters = wide ? METERS_SLOTS * height : METERS_ROWS;
    int most = wide ? rest / 2 : rest / 3;
    l.meters = l.meters > most ? most : l.meters;
    rest -= l.meters;
    if (area->rows >= LOW) {
        int panels = panel_rows(area, layers);
        l.layers = layers + 1 > rest / 3 ? rest / 3 : layers + 1;
        if (panels <= rest * 2 / 5)
            l.layers = panels;
        l.events = rest / 5 < EVENTS_LEAST ? EVENTS_LEAST : rest / 5;
        l.events = l.events > EVENTS_MOST ? EVENTS_MOST : l.events;
    }
    l.chart = rest - l.layers - l.events;
    return l;
}

/* Panels where all layers have one, or with `some`, where these do; else lines. */
static void draw_layers(struct canvas *c, const struct area *area, const json_t *layers, int *first,
                        bool some) {
    int least = some ? LAYERS_PANEL_ROWS : panel_rows(area, (int)json_array_size(layers));
    if (json_array_size(layers) == 0 && area->rows > 0)
        canvas_print(c, area, 0, 1, STYLE_DIM, "no layers are known yet");
    else if (area->rows >= least && area->columns >= LAYERS_PANEL_COLUMNS)
        layers_panels(c, area, layers, first);
    else
        layers_table(c, area, layers, first);
}

/* The next rows of what is left of the area. */
static struct area take_rows(struct area *rest, int rows) {
    struct area taken = area_rows(rest, 0, rows);
    *rest = area_rows(rest, rows, rest->rows - rows);
    return taken;
}

static void draw_overview(struct canvas *c, struct area rest, struct watched *w,
                          const json_t *layers, bool log) {
    struct layout layout = lay_out(&rest, (int)json_array_size(layers), w);
    struct area part = take_rows(&rest, layout.verdicts);
    draw_verdicts(c, &part, w, layers);
    part = take_rows(&rest, layout.chart);
    if (part.rows > 0)
        draw_chart(c, &part, w, log);
    part = take_rows(&rest, layout.said);
    if (part.rows > 0)
        said_draw(c, &part, w);
    part = take_rows(&rest, layout.broker);
    if (part.rows > 0)
        broker_draw(c, &part, w);
    part = take_rows(&rest, layout.meters);
    meters_draw(c, &part, w);
    part = take_rows(&rest, layout.layers);
    draw_layers(c, &part, layers, &w->look.layers, false);
    part = take_rows(&rest, layout.events);
    if (part.rows > 1)
        draw_events(c, &part, w, false);
}

void pane_draw(struct canvas *c, const struct area *area, struct watched *w,
               const struct pane_settings *settings) {
    json_t *layers = watched_layers(w);
    struct area rest = *area, part = take_rows(&rest, 1);
    draw_bar(c, &part, w, settings);
    if (area->rows >= LOW && (area->columns >= METERS_WIDE || area->rows >= TALL)) {
        part = take_rows(&rest, 1);
        draw_model(c, &part, w);
    }
    if (settings->view == VIEW_LOSS) {
        part = take_rows(&rest,
                         rest.rows - (area->columns < METERS_WIDE ? METERS_ROWS : METERS_SLOTS));
        draw_chart(c, &part, w, settings->log);
        meters_draw(c, &rest, w);
    } else if (settings->view == VIEW_LAYERS) {
        draw_layers(c, &rest, layers, &w->look.layers, true);
    } else if (settings->view == VIEW_EVENTS) {
        draw_events(c, &rest, w, true);
    } else {
        draw_overview(c, rest, w, layers, settings->log);
    }
    json_decref(layers);
}
