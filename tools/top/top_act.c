#include "build-config.h"

#include "top_act.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/clock.h"
#include "tools/shared/tool.h"
#include "top_terminal.h"

#define FLASH 8.0 /* seconds */

/* Say something on the bottom line for some seconds. */
static void __attribute__((format(printf, 3, 4)))
flash(struct session *s, enum style style, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(s->flash, sizeof s->flash, format, arguments);
    va_end(arguments);
    s->flash_style = style;
    s->flash_until = clock_seconds() + FLASH;
}

struct watched *session_selected(const struct session *s) {
    return s->watched[s->selected];
}

void act_ask(struct session *s, enum act act) {
    const struct watched *w = session_selected(s);
    char endpoint[WATCHED_ENDPOINT];
    if (s->control) {
        flash(s, STYLE_WARN, "%s has not answered the last command yet",
              watched_name(s->watched[s->commanded]));
        return;
    }
    if (!w->status || !*w->run) {
        flash(s, STYLE_WARN, "no message has come from %s yet", w->endpoint);
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
        flash(s, STYLE_PLAIN, "asking %s ...", endpoint);
    else
        flash(s, STYLE_BAD, "%s", why);
}

/* The number typed; the daemon says which rates it takes. */
static void take_rate(struct session *s) {
    struct question *q = &s->question;
    char *end;
    double rate = strtod(q->input, &end);
    if (end == q->input || *end || !isfinite(rate)) {
        flash(s, STYLE_WARN, "'%s' is no number: nothing was done", q->input);
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
        take_rate(s);
    else if (key == KEY_ERASE && length > 0)
        q->input[length - 1] = '\0';
    else if (key > ' ' && key < 127 && strchr("0123456789.eE+-", key) &&
             length + 1 < sizeof q->input)
        q->input[length] = (char)key;
}

void act_answer(struct session *s, int key) {
    struct question *q = &s->question;
    if (key == KEY_ESCAPE) {
        q->act = ACT_NONE;
        flash(s, STYLE_PLAIN, "nothing was done");
    } else if (q->entering) {
        enter(s, key);
    } else if (key == 'y' || key == 'Y') {
        act(s);
        q->act = ACT_NONE;
    } else {
        q->act = ACT_NONE;
        flash(s, STYLE_PLAIN, "nothing was done");
    }
}

bool act_step(struct session *s) {
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
