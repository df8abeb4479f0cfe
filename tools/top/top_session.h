/* One run of runnel-top: which daemons, how they are shown, and what the user is being asked. */
#ifndef RUNNEL_TOP_SESSION_H
#define RUNNEL_TOP_SESSION_H

#include <stdbool.h>
#include <stddef.h>

#include "common/clock.h"
#include "top_control.h"
#include "top_pane.h"
#include "top_watched.h"

enum { SESSION_WATCHED = 16, SESSION_INPUT = 24 };

enum act { ACT_NONE, ACT_PAUSE, ACT_RESUME, ACT_CHECKPOINT, ACT_RATE };

/* What the user is asked at the bottom of the screen. */
struct question {
    enum act act;           /* ACT_NONE: nothing */
    bool entering;          /* a number is typed; else a yes is awaited */
    size_t which;           /* daemon */
    char run[WATCHED_TEXT]; /* of it when the question began */
    char input[SESSION_INPUT];
    double rate;
};

struct session {
    struct watched *watched[SESSION_WATCHED]; /* owned */
    size_t count, selected;
    bool together; /* panes beside each other, else the selected one alone */
    bool log, frozen, help, ending;
    enum view view;

    struct question question;
    struct control *control; /* a command on its way, or NULL */
    size_t commanded;        /* to whom */

    char flash[CONTROL_TEXT]; /* what the bottom line says for a while */
    enum style flash_style;
    double flash_until; /* clock_seconds() */
};

/* The one that gets the keys. */
struct watched *session_selected(const struct session *session);

#endif
