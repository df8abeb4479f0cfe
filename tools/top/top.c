/* runnel-top: shows running daemons on one screen. See runnel-top(1). */
#include <errno.h>
#include <jansson.h>
#include <langinfo.h>
#include <locale.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/clock.h"
#include "common/complain.h"
#include "common/format.h"
#include "common/json_member.h"
#include "common/keys.h"
#include "common/options.h"
#include "common/text.h"
#include "common/wire.h"
#include "runnel.h"
#include "tools/shared/tool.h"
#include "top_canvas.h"
#include "top_forecast.h"
#include "top_pane.h"
#include "top_watched.h"

/* ---- Control ----

   A command to a daemon's control socket that does not block the screen: control_open sends a
   request, and control_step continues whenever the descriptor is readable, until the end. The first
   request is `status`; the command is sent only if the answer comes from the watched daemon. */

enum { CONTROL_TEXT = 300 };

enum control_end { CONTROL_GOES_ON, CONTROL_DONE, CONTROL_FAILED };

#define ANSWER_WITHIN 10.0     /* seconds, for the answer to `status` */
#define CHECKPOINT_WITHIN 60.0 /* seconds; disks can be slow */

struct control {
    struct runnel_request *request;
    char *command, *run, *endpoint;
    bool acts; /* the identity is checked and the command is sent */
};

static void set_text(char text[CONTROL_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void set_text(char text[CONTROL_TEXT], const char *format, ...) {
    TEXT_FORMAT(text, CONTROL_TEXT, format);
}

static void control_close(struct control **control) {
    struct control *c = *control;
    if (!c)
        return;
    runnel_request_close(&c->request);
    free(c->command);
    free(c->endpoint);
    free(c->run);
    free(c);
    *control = NULL;
}

/* Sends the first request and takes the reference to `request`. `run` is the expected run of the
   daemon. Returns NULL with an explanation in `text` on failure. */
static struct control *control_open(const struct runnel_peer *peer, const char *run,
                                    json_t *request, char text[CONTROL_TEXT]) {
    struct runnel_error error = {.text = "out of memory"};
    struct control *c = calloc(1, sizeof *c);
    if (c) {
        c->endpoint = strdup(peer->endpoint);
        c->run = strdup(run);
        c->command = json_dumps(request, JSON_COMPACT);
    }
    json_decref(request);
    if (c && c->endpoint && c->run && c->command &&
        runnel_request_open(&c->request, peer, "{\"command\":\"status\"}", ANSWER_WITHIN, &error) ==
            0)
        return c;
    set_text(text, "%s", error.text);
    control_close(&c);
    return NULL;
}

static enum control_end begin_act(struct control *c, const json_t *status,
                                  char text[CONTROL_TEXT]) {
    const char *run = member_string(status, "run");
    struct runnel_error error;
    if (!run || strcmp(run, c->run) != 0) {
        set_text(
            text,
            "the daemon at %s is not the one shown here: command not sent; pass its control socket "
            "with --control",
            c->endpoint);
        return CONTROL_FAILED;
    }
    if (runnel_request_again(c->request, c->command, CHECKPOINT_WITHIN, &error)) {
        set_text(text, "%s", error.text);
        return CONTROL_FAILED;
    }
    c->acts = true;
    return CONTROL_GOES_ON;
}

static enum control_end describe(const json_t *body, char text[CONTROL_TEXT]) {
    const char *path = member_string(body, "path"), *state = member_string(body, "state");
    const char *key = member_string(body, "key");
    double value;
    char number[FORMAT_SIZE];
    if (path)
        set_text(text, "done: checkpoint %s", path);
    else if (key && member_number(body, "value", &value))
        set_text(text, "done: %s is now %s", key, format_setting(number, value));
    else
        set_text(text, "done: the daemon is %s", state ? state : "in an unknown state");
    return CONTROL_DONE;
}

static enum control_end fail(const struct control *c, const struct runnel_error *error,
                             char text[CONTROL_TEXT]) {
    if (runnel_request_left(c->request) > 0)
        set_text(text, "%s", error->text);
    else if (c->acts && runnel_request_sent(c->request))
        set_text(text, "%s has not answered yet: it may still execute the command", c->endpoint);
    else
        set_text(text, "no daemon answers at %s: command not sent", c->endpoint);
    return CONTROL_FAILED;
}

/* Continues as far as possible without waiting; at the end `text` contains the result. */
static enum control_end control_step(struct control *c, char text[CONTROL_TEXT]) {
    struct runnel_reply reply;
    struct runnel_error error;
    for (;;) {
        int status = runnel_request_next(c->request, &reply, &error);
        if (status == 0)
            return CONTROL_GOES_ON;
        if (status < 0)
            return fail(c, &error, text);
        if (c->acts)
            return describe(reply.json, text);
        enum control_end end = begin_act(c, reply.json, text);
        if (end != CONTROL_GOES_ON)
            return end;
    }
}

/* ---- Session: daemons, their display, and the question to the user ---- */

enum { SESSION_WATCHED = 16, SESSION_INPUT = 24 };

enum act { ACT_NONE, ACT_PAUSE, ACT_RESUME, ACT_CHECKPOINT, ACT_RATE };

/* The question at the bottom of the screen. */
struct question {
    enum act act;           /* ACT_NONE: no question */
    bool entering;          /* waits for a number, else for yes or no */
    size_t which;           /* index of the daemon */
    char run[WATCHED_TEXT]; /* run of the daemon when the question began */
    char input[SESSION_INPUT];
    double rate;
};

struct session {
    struct watched *watched[SESSION_WATCHED]; /* owned */
    size_t count, selected;
    bool together; /* all panes side by side, else only the selected one */
    bool log, frozen, help, ending;
    enum view view;

    struct question question;
    struct control *control; /* the running command, or NULL */
    size_t commanded;        /* index of its daemon */

    char flash[CONTROL_TEXT]; /* temporary text of the bottom line */
    enum style flash_style;
    double flash_until; /* clock_seconds() */
};

/* The daemon that receives the keys. */
static struct watched *session_selected(const struct session *s) {
    return s->watched[s->selected];
}

/* ---- Act ----

   Keys that send a command to the daemon's control socket after a question. */

#define FLASH 8.0 /* seconds */

/* Shows a text on the bottom line for some seconds. */
static void __attribute__((format(printf, 3, 4)))
flash(struct session *s, enum style style, const char *format, ...) {
    TEXT_FORMAT(s->flash, sizeof s->flash, format);
    s->flash_style = style;
    s->flash_until = clock_seconds() + FLASH;
}

/* Asks for confirmation of a command to the selected daemon. */
static void act_ask(struct session *s, enum act act) {
    const struct watched *w = session_selected(s);
    char endpoint[WATCHED_ENDPOINT];
    if (s->control) {
        flash(s, STYLE_WARN, "%s has not answered the last command yet",
              watched_name(s->watched[s->commanded]));
        return;
    }
    if (!w->status || !*w->run) {
        flash(s, STYLE_WARN, "no message from %s yet", w->endpoint);
        return;
    }
    if (!watched_control(w, endpoint)) {
        flash(s, STYLE_WARN, "%s", endpoint);
        return;
    }
    if (act == ACT_PAUSE && strcmp(watched_state(w), "paused") == 0)
        act = ACT_RESUME;
    s->question = (struct question){.act = act, .entering = act == ACT_RATE, .which = s->selected};
    memcpy(s->question.run, w->run, sizeof w->run);
}

static json_t *request_of(const struct question *q) {
    if (q->act == ACT_RATE)
        return json_pack("{s:s, s:s, s:f}", "command", "set", "key", "learning.optimizer.rate",
                         "value", q->rate);
    return json_pack("{s:s}", "command",
                     q->act == ACT_PAUSE    ? "pause"
                     : q->act == ACT_RESUME ? "resume"
                                            : "checkpoint");
}

static void act(struct session *s) {
    const struct question *q = &s->question;
    const struct watched *w = s->watched[q->which];
    char endpoint[WATCHED_ENDPOINT], why[CONTROL_TEXT];
    json_t *request = request_of(q);
    if (!watched_control(w, endpoint)) {
        json_decref(request);
        flash(s, STYLE_WARN, "%s", endpoint);
        return;
    }
    s->commanded = q->which;
    struct runnel_peer peer = tool_peer(endpoint, &w->keys);
    s->control = control_open(&peer, q->run, request, why);
    if (s->control)
        flash(s, STYLE_PLAIN, "sending the command to %s ...", endpoint);
    else
        flash(s, STYLE_BAD, "%s", why);
}

/* Takes the typed number; the daemon checks its range. */
static void enter_rate(struct session *s) {
    struct question *q = &s->question;
    char *end;
    double rate = strtod(q->input, &end);
    if (end == q->input || *end || !isfinite(rate)) {
        flash(s, STYLE_WARN, "expected a number, got '%s': rate not changed", q->input);
        q->act = ACT_NONE;
        return;
    }
    q->rate = rate;
    q->entering = false;
}

static void enter(struct session *s, int key) {
    struct question *q = &s->question;
    size_t length = strlen(q->input);
    if (key == KEY_RETURN)
        enter_rate(s);
    else if (key == KEY_ERASE && length > 0)
        q->input[length - 1] = '\0';
    else if (key > ' ' && key < 127 && strchr("0123456789.eE+-", key) &&
             length + 1 < sizeof q->input)
        q->input[length] = (char)key;
}

static void act_answer(struct session *s, int key) {
    struct question *q = &s->question;
    if (key == KEY_ESCAPE) {
        q->act = ACT_NONE;
        flash(s, STYLE_PLAIN, "cancelled");
    } else if (q->entering) {
        enter(s, key);
    } else if (key == 'y' || key == 'Y') {
        act(s);
        q->act = ACT_NONE;
    } else {
        q->act = ACT_NONE;
        flash(s, STYLE_PLAIN, "cancelled");
    }
}

/* Continues the running command. Returns true if the display has changed. */
static bool act_step(struct session *s) {
    char text[CONTROL_TEXT];
    if (!s->control)
        return false;
    enum control_end end = control_step(s->control, text);
    if (end == CONTROL_GOES_ON)
        return false;
    control_close(&s->control);
    enum style style = end == CONTROL_DONE ? STYLE_GOOD : STYLE_BAD;
    flash(s, style, "%s", text);
    if (end == CONTROL_FAILED)
        watched_note(s->watched[s->commanded], style, text);
    return true;
}

/* ---- Frame ----

   The whole frame: panes, help, and the bottom line. */

enum {
    PANE_COLUMNS = 38, /* minimum width of a pane beside others */
    PANE_ROWS = 12,
    GAP = 1,
    HELP_COLUMNS = 70,
    TEXT_SIZE = 300,
};

static const char *const help_lines[] = {
    "  q             quit                    ?          this help",
    "  space         freeze or continue the display",
    "  left, right   scroll in the charts (freezes); PgUp, PgDn by a whole chart,",
    "                Home to the oldest, End to the newest example",
    "  + -           show fewer or more examples in the charts; 0 shows all",
    "  l             logarithmic axis of the loss",
    "  v             next view: overview, loss, layers, events",
    "  up, down      older or newer events",
    "  [ ]           previous or next layers",
    "  c, w          forecast of the next column, or of the one with least skill",
    "  tab, 1 to 9   select the next daemon, or the one with that number",
    "  a             all daemons, or only the selected one",
    "",
    "Commands to the selected daemon; each asks for confirmation:",
    "  P             pause or resume",
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
    canvas_heading(c, &box, box.rows - 1, "press any key to return");
}

/* Names of all daemons, above the one that is shown. */
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

/* Draws as many panes as fit: the page with the selected one. */
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
        snprintf(text, sizeof text, "Pause %.40s until it is resumed?", name);
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
                 q->entering ? "  (return; esc cancels)" : "  y/N");
}

/* Draws the temporary text upwards from the bottom, on as many rows as it needs. */
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

/* With `bottom` the last line is for keys, questions and answers; a printed frame has no such
   line. */
static void frame_draw(struct canvas *c, const struct session *s, bool bottom) {
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

/* ---- Keys ---- */

enum {
    SCROLL_SHARE = 8,  /* an arrow key moves by this part of the chart */
    SAMPLES_LEAST = 8, /* minimum number of samples in a chart */
};

/* Number of examples in the charts. */
static double shown_span(const struct watched *w) {
    double newest = watched_newest(w);
    if (w->look.span > 0 || isnan(newest))
        return w->look.span;
    return watched_cursor(w) - w->past.samples[0].examples;
}

static void zoom(struct watched *w, double factor) {
    size_t count = w->past.count, least = count > SAMPLES_LEAST ? count - SAMPLES_LEAST : 0;
    double span = shown_span(w) * factor;
    if (count == 0)
        return;
    double all = watched_newest(w) - w->past.samples[0].examples;
    double smallest = watched_newest(w) - w->past.samples[least].examples;
    w->look.span = span >= all ? 0 : fmax(span, smallest);
}

static void freeze(struct session *s, bool frozen) {
    s->frozen = frozen;
    for (size_t i = 0; i < s->count; i++) {
        struct look *look = &s->watched[i]->look;
        look->cursor = frozen ? watched_newest(s->watched[i]) : NAN;
        look->events = frozen ? look->events : 0;
    }
}

/* Moves the right end of the charts by examples, within the known range. */
static void scroll(struct session *s, double examples) {
    struct watched *w = session_selected(s);
    double newest = watched_newest(w);
    if (isnan(newest))
        return;
    if (!s->frozen)
        freeze(s, true);
    double oldest = w->past.samples[0].examples;
    if (w->look.span == 0 && newest > oldest)
        w->look.span = (newest - oldest) / 2;
    w->look.cursor = fmin(newest, fmax(oldest, watched_cursor(w) + examples));
}

static void select_daemon(struct session *s, size_t which) {
    if (which < s->count)
        s->selected = which;
}

static void scroll_key(struct session *s, int key) {
    double span = shown_span(session_selected(s)), step = span / SCROLL_SHARE;
    switch (key) {
    case KEY_GO_LEFT:
        scroll(s, -step);
        break;
    case KEY_GO_RIGHT:
        scroll(s, step);
        break;
    case KEY_PAGE_UP:
        scroll(s, -span);
        break;
    case KEY_PAGE_DOWN:
        scroll(s, span);
        break;
    case KEY_FIRST:
        scroll(s, -INFINITY);
        break;
    case KEY_LAST:
        scroll(s, INFINITY);
        break;
    }
}

/* Keys that change the view of the selected daemon. */
static bool look_key(struct session *s, int key) {
    struct watched *w = session_selected(s);
    switch (key) {
    case '+':
    case '=':
        zoom(w, 0.5);
        return true;
    case '-':
        zoom(w, 2);
        return true;
    case '0':
        w->look.span = 0;
        return true;
    case KEY_GO_UP:
        w->look.events++;
        return true;
    case KEY_GO_DOWN:
        w->look.events -= w->look.events > 0;
        return true;
    case '[':
        w->look.layers--;
        return true;
    case ']':
        w->look.layers++;
        return true;
    case 'c':
        w->look.column++;
        return true;
    case 'w':
        w->look.column = w->look.column == FORECAST_WORST ? 0 : FORECAST_WORST;
        return true;
    }
    return false;
}

static bool act_key(struct session *s, int key) {
    enum act act = key == 'P'   ? ACT_PAUSE
                   : key == 'C' ? ACT_CHECKPOINT
                   : key == 'R' ? ACT_RATE
                                : ACT_NONE;
    if (act != ACT_NONE)
        act_ask(s, act);
    return act != ACT_NONE;
}

static void show_key(struct session *s, int key) {
    switch (key) {
    case 'q':
        s->ending = true;
        break;
    case '?':
    case 'h':
        s->help = true;
        break;
    case ' ':
        freeze(s, !s->frozen);
        break;
    case KEY_ESCAPE:
        freeze(s, false);
        break;
    case 'l':
        s->log = !s->log;
        break;
    case 'v':
        s->view = (s->view + 1) % VIEWS;
        break;
    case 'a':
        s->together = !s->together;
        break;
    case KEY_TAB:
        select_daemon(s, (s->selected + 1) % s->count);
        break;
    case KEY_BACK_TAB:
        select_daemon(s, (s->selected + s->count - 1) % s->count);
        break;
    default:
        if (key >= '1' && key <= '9')
            select_daemon(s, (size_t)(key - '1'));
        else
            scroll_key(s, key);
    }
}

/* Handles a key of terminal_key. */
static void handle_key(struct session *s, int key) {
    if (s->question.act != ACT_NONE)
        act_answer(s, key);
    else if (s->help)
        s->help = false;
    else if (!act_key(s, key) && !look_key(s, key))
        show_key(s, key);
}

/* ---- The program ---- */

#define FRAME_EVERY 0.05 /* minimum seconds between two frames */
#define SETTLE 0.02      /* seconds that a loss waits for its state */
#define CLOCK_EVERY 1.0  /* seconds between updates of displayed times */
#define WAIT_MOST 15.0   /* seconds for --once without --wait */

enum {
    OWN_ITEMS = 2, /* signals and keys */
    ITEMS_MAX = OWN_ITEMS + 1 + SESSION_WATCHED,
    ONCE_ROWS = 24,
    ONCE_COLUMNS = 80,
    SIZE_MAX_SHOWN = 1000, /* rows or columns of a printed frame */
};

struct options {
    struct option_list endpoints, controls, server_keys;
    const char *key;
    bool log, once;
    double silence, wait; /* wait: NAN = not given */
};

static const struct option_row option_rows[] = {
    {"connect", 'c', "ENDPOINT",
     "a daemon's statistics socket; may be repeated (default " WIRE_STATISTICS ")",
     OPTION_LIST(struct options, endpoints, SESSION_WATCHED)},
    {"control", 0, "ENDPOINT",
     "its control socket, for commands; the first belongs to the first --connect (default: as the "
     "daemon reports)",
     OPTION_LIST(struct options, controls, SESSION_WATCHED)},
    {"key", 0, "FILE", "secret key of this program, if the daemon requires one",
     OPTION_FILE(struct options, key)},
    {"server-key", 0, "KEY",
     "the daemon's public key or a file that contains it; the first belongs to the first "
     "--connect, a single one to all",
     OPTION_LIST(struct options, server_keys, SESSION_WATCHED), .complete = COMPLETE_FILE},
    {"log", 'l', NULL, "start with a logarithmic axis of the loss",
     OPTION_FLAG(struct options, log)},
    {"once", 0, NULL,
     "print one frame and end, as soon as all daemons have sent messages or after 15 seconds",
     OPTION_FLAG(struct options, once)},
    {"wait", 'w', "SECONDS", "with --once: collect messages for this time",
     OPTION_SECONDS(struct options, wait)},
    {"silence", 's', "SECONDS",
     "report when no message arrives for this time; 0 = never (default 15)",
     OPTION_SECONDS(struct options, silence)},
    OPTIONS_LAST,
};

struct top {
    struct session session;
    struct canvas canvas;
    struct terminal *terminal;
    double drawn; /* clock_seconds() of the last frame */
    double news;  /* time of the first news since then; INFINITY = none */
};

static int wake = -1; /* eventfd */
static volatile sig_atomic_t ending, resized;

static void die(int number) {
    terminal_abandon();
    signal(number, SIG_DFL);
    raise(number);
}

/* A second signal means that the terminal blocks output. */
static void on_signal(int number) {
    int saved = errno;
    uint64_t one = 1;
    if (number == SIGWINCH || number == SIGCONT)
        resized = 1;
    else if (ending)
        die(number);
    else
        ending = 1;
    if (write(wake, &one, sizeof one) < 0)
        errno = saved; /* the buffer is full, so the reader wakes anyway */
    errno = saved;
}

static int catch_signals(void) {
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGWINCH, SIGCONT};
    static const int crashes[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGQUIT};
    wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (wake < 0)
        return complain(EX_UNAVAILABLE, "cannot wait for signals: %s", strerror(errno));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        sigaction(numbers[i], &(struct sigaction){.sa_handler = on_signal}, NULL);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++)
        sigaction(crashes[i], &(struct sigaction){.sa_handler = die}, NULL);
    return EX_OK;
}

/* Returns OPTIONS_GO_ON or EX_USAGE. */
static int check_options(struct options *o) {
    if (o->endpoints.count == 0)
        o->endpoints = (struct option_list){.values = {WIRE_STATISTICS}, .count = 1};
    if (o->controls.count > o->endpoints.count)
        return complain_usage("more --control than --connect options");
    if (o->server_keys.count > 1 && o->server_keys.count != o->endpoints.count)
        return complain_usage("expected one --server-key, or one for each --connect");
    if (!o->once && !isnan(o->wait))
        return complain_usage("--wait requires --once");
    if (!o->once && !(isatty(STDIN_FILENO) && isatty(STDOUT_FILENO)))
        return complain_usage(
            "not a terminal: use --once to print one frame, or runnel-watch to print lines");
    return OPTIONS_GO_ON;
}

static const char *of_list(const struct option_list *list, size_t i, bool one_for_all) {
    return i < list->count ? list->values[i] : one_for_all && list->count ? list->values[0] : NULL;
}

static int open_watched(struct session *s, const struct options *o) {
    for (size_t i = 0; i < o->endpoints.count; i++) {
        struct key_options keys = {.own = o->key, .server = of_list(&o->server_keys, i, true)};
        if (!key_options_ready(&keys))
            return EX_USAGE;
        struct watched *w = calloc(1, sizeof *w);
        if (!w)
            return complain(EX_UNAVAILABLE, "out of memory");
        s->watched[s->count++] = w;
        w->endpoint = o->endpoints.values[i];
        w->control = of_list(&o->controls, i, false);
        w->keys = keys;
        int status = watched_open(w, o->silence);
        if (status != EX_OK)
            return status;
    }
    return EX_OK;
}

static void close_watched(struct session *s) {
    control_close(&s->control);
    for (size_t i = 0; i < s->count; i++) {
        watched_close(s->watched[i]);
        free(s->watched[i]);
    }
    s->count = 0;
}

/* Waits for news, at most `seconds`. Only a terminal has keys; the program ends when the terminal
   does. */
static void wait_for_news(struct top *t, double seconds) {
    struct session *s = &t->session;
    struct pollfd items[ITEMS_MAX] = {{.fd = wake, .events = POLLIN},
                                      {.fd = STDIN_FILENO, .events = POLLIN}};
    nfds_t count = t->terminal ? OWN_ITEMS : OWN_ITEMS - 1;
    for (size_t i = 0; i < s->count; i++)
        items[count++] =
            (struct pollfd){.fd = link_descriptor(s->watched[i]->link), .events = POLLIN};
    if (s->control) {
        items[count++] =
            (struct pollfd){.fd = runnel_request_descriptor(s->control->request), .events = POLLIN};
        seconds = fmin(seconds, fmax(0, runnel_request_left(s->control->request)));
    }
    for (size_t i = 0; i < s->count; i++)
        seconds = fmin(seconds, health_next(&s->watched[i]->health));
    poll(items, count, clock_milliseconds(seconds));
    uint64_t signals;
    if (items[0].revents && read(wake, &signals, sizeof signals) < 0 && errno != EAGAIN)
        ending = 1;
    if (t->terminal && items[1].revents & (POLLERR | POLLHUP | POLLNVAL))
        ending = 1;
}

static bool handle_keys(struct top *t) {
    bool any = false;
    for (int key; t->terminal && (key = terminal_key(t->terminal)) != KEY_NONE; any = true)
        handle_key(&t->session, key);
    return any;
}

/* Returns whether a key was pressed, which needs a frame at once. */
static bool receive_news(struct top *t) {
    struct session *s = &t->session;
    bool news = act_step(s), pressed = handle_keys(t);
    for (size_t i = 0; i < s->count; i++)
        news |= watched_receive(s->watched[i]);
    if (news || pressed)
        t->news = fmin(t->news, clock_seconds());
    return pressed;
}

static int draw(struct top *t) {
    int rows, columns;
    if (resized)
        terminal_resized(t->terminal);
    resized = 0;
    terminal_size(&rows, &columns);
    if (canvas_reset(&t->canvas, rows, columns))
        return complain(EX_UNAVAILABLE, "out of memory");
    frame_draw(&t->canvas, &t->session, true);
    terminal_show(t->terminal, &t->canvas);
    t->drawn = clock_seconds();
    t->news = INFINITY;
    return EX_OK;
}

static bool is_settled(const struct session *s) {
    for (size_t i = 0; i < s->count; i++)
        if (!watched_settled(s->watched[i]))
            return false;
    return true;
}

/* The time of the next frame. */
static double frame_due(const struct top *t) {
    double news = t->news + (is_settled(&t->session) ? 0 : SETTLE);
    return fmin(t->drawn + CLOCK_EVERY, fmax(news, t->drawn + FRAME_EVERY));
}

static int run(struct top *t) {
    int status = draw(t);
    while (status == EX_OK && !ending && !t->session.ending) {
        wait_for_news(t, fmax(0, frame_due(t) - clock_seconds()));
        bool pressed = receive_news(t);
        if (pressed || resized || clock_seconds() >= frame_due(t))
            status = draw(t);
    }
    return status;
}

static int size_of(const char *name, int otherwise) {
    const char *text = getenv(name);
    char *end;
    long value = text ? strtol(text, &end, 10) : 0;
    return value >= 1 && value <= SIZE_MAX_SHOWN && !*end ? (int)value : otherwise;
}

/* The reason why access is denied, or NULL. */
static const char *reason(const struct watched *w) {
    return w->refused || w->hindered ? link_refusal(w->link) : NULL;
}

/* Whether to wait longer: with a given time, as long as more messages may arrive. */
static bool is_worth_waiting(const struct session *s, bool for_time) {
    for (size_t i = 0; i < s->count; i++) {
        const struct watched *w = s->watched[i];
        if (for_time ? !w->refused : !reason(w) && !watched_complete(w))
            return true;
    }
    return false;
}

static int explain(const struct watched *w) {
    const char *why = reason(w), *unreachable = wire_unreachable(w->endpoint);
    return why ? complain(EX_UNAVAILABLE, "%s: %s", w->endpoint, why)
           : unreachable
               ? complain(EX_UNAVAILABLE, "no message from %s: %s", w->endpoint, unreachable)
               : complain(EX_UNAVAILABLE, "no message from %s", w->endpoint);
}

static int print_frame(struct top *t) {
    struct session *s = &t->session;
    int rows = ONCE_ROWS, columns = ONCE_COLUMNS;
    if (isatty(STDOUT_FILENO))
        terminal_size(&rows, &columns);
    if (canvas_reset(&t->canvas, size_of("LINES", rows), size_of("COLUMNS", columns)))
        return complain(EX_UNAVAILABLE, "out of memory");
    frame_draw(&t->canvas, s, false);
    canvas_write(&t->canvas, stdout);
    int status = EX_OK;
    for (size_t i = 0; i < s->count; i++)
        if (!s->watched[i]->health.has_message)
            status = explain(s->watched[i]);
    return status == EX_OK ? complain_output() : status;
}

static int run_once(struct top *t, double wait) {
    double end = clock_seconds() + (isnan(wait) ? WAIT_MOST : wait);
    while (!ending && clock_seconds() < end && is_worth_waiting(&t->session, !isnan(wait))) {
        wait_for_news(t, fmin(CLOCK_EVERY, end - clock_seconds()));
        receive_news(t);
    }
    return print_frame(t);
}

static int watch(const struct options *o) {
    struct top t = {.drawn = -INFINITY, .news = INFINITY};
    t.session.log = o->log;
    t.session.together = o->endpoints.count > 1;
    t.canvas.utf8 = strcmp(nl_langinfo(CODESET), "UTF-8") == 0;
    int status = open_watched(&t.session, o);
    if (status == EX_OK)
        status = catch_signals();
    if (status == EX_OK && !o->once)
        status = terminal_open(&t.terminal);
    if (status == EX_OK)
        status = o->once ? run_once(&t, o->wait) : run(&t);
    terminal_close(&t.terminal);
    close_watched(&t.session);
    canvas_close(&t.canvas);
    return status;
}

int main(int argc, char **argv) {
    struct options options = {.silence = HEALTH_SILENCE, .wait = NAN};
    const struct command_line line = {
        .name = "runnel-top",
        .operands = "",
        .summary = "Show running daemons on one screen: loss, layers, speed, health, events.",
        .ending = "Press ? for the keys and q to quit. Exit status: 0 success, 64 usage error, 69 "
                  "cannot open a terminal or socket, or (--once) no message from a daemon, 74 "
                  "cannot write to standard output.",
        .groups = {{NULL, option_rows, &options}},
    };
    char **operands;
    setlocale(LC_CTYPE, "");
    int status = options_parse(&line, argc, argv, &operands);
    if (status == OPTIONS_GO_ON)
        status = check_options(&options);
    return status == OPTIONS_GO_ON ? watch(&options) : status;
}
