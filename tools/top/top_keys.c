#include "build-config.h"

#include "top_keys.h"

#include <math.h>

#include "top_act.h"
#include "top_said.h"
#include "top_terminal.h"

enum {
    SCROLL_SHARE = 8,  /* an arrow moves by one of so many parts of the chart */
    SAMPLES_LEAST = 8, /* that a chart shows */
};

/* Examples in the charts. */
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

/* Move the right end of the charts by examples, within what is known. */
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
        w->look.column = w->look.column == SAID_WORST ? 0 : SAID_WORST;
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

void keys_take(struct session *s, int key) {
    if (s->question.act != ACT_NONE)
        act_answer(s, key);
    else if (s->help)
        s->help = false;
    else if (!act_key(s, key) && !look_key(s, key))
        show_key(s, key);
}
