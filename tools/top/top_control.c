#include "build-config.h"

#include "top_control.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/format.h"
#include "common/json_member.h"

#define ANSWER_WITHIN 10.0     /* seconds, to say who it is */
#define CHECKPOINT_WITHIN 60.0 /* seconds: a disk can be slow */

struct control {
    struct runnel_request *request;
    char *command, *run, *endpoint;
    bool acts; /* it is the watched one, and has the command */
};

static void say(char text[CONTROL_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(char text[CONTROL_TEXT], const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, CONTROL_TEXT, format, arguments);
    va_end(arguments);
}

struct control *control_open(const struct runnel_peer *peer, const char *run, json_t *request,
                             char text[CONTROL_TEXT]) {
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
    say(text, "%s", error.text);
    control_close(&c);
    return NULL;
}

void control_close(struct control **control) {
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

int control_descriptor(const struct control *c) {
    return runnel_request_descriptor(c->request);
}

double control_left(const struct control *c) {
    return runnel_request_left(c->request);
}

static enum control_end begin_act(struct control *c, const json_t *status,
                                  char text[CONTROL_TEXT]) {
    const char *run = member_string(status, "run");
    struct runnel_error error;
    if (!run || strcmp(run, c->run) != 0) {
        say(text,
            "the daemon at %s is not the one watched here: nothing was done; --control names "
            "the right one",
            c->endpoint);
        return CONTROL_FAILED;
    }
    if (runnel_request_again(c->request, c->command, CHECKPOINT_WITHIN, &error)) {
        say(text, "%s", error.text);
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
        say(text, "done: checkpoint %s", path);
    else if (key && member_number(body, "value", &value))
        say(text, "done: %s is now %s", key, format_setting(number, value));
    else
        say(text, "done: it is %s now", state ? state : "as asked");
    return CONTROL_DONE;
}

static enum control_end fail(const struct control *c, const struct runnel_error *error,
                             char text[CONTROL_TEXT]) {
    if (control_left(c) > 0)
        say(text, "%s", error->text);
    else if (c->acts && runnel_request_sent(c->request))
        say(text, "%s has taken the command but not answered yet: it may still do it", c->endpoint);
    else
        say(text, "no daemon answers at %s: nothing was done", c->endpoint);
    return CONTROL_FAILED;
}

enum control_end control_step(struct control *c, char text[CONTROL_TEXT]) {
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
