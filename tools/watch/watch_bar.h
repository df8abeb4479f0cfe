/* The bar at the bottom of a terminal: who is watched, how it is, and where its loss is going. */
#ifndef RUNNEL_WATCH_BAR_H
#define RUNNEL_WATCH_BAR_H

#include "tools/shared/watch_health.h"
#include "tools/shared/watch_link.h"
#include "tools/shared/watch_trend.h"
#include "watch_screen.h"

enum { BAR_NAME_SIZE = 65, BAR_WORD_SIZE = 32 };

/* Plain data, zero to begin with: the newest messages. */
struct bar {
    char name[BAR_NAME_SIZE], state[BAR_WORD_SIZE], device[BAR_WORD_SIZE];
    json_t *loss;    /* newest message of the topic; owned */
    double examples; /* in it */
    struct trend means;
};

void bar_close(struct bar *bar);

/* Take from a message what the bar shows. */
void bar_message(struct bar *bar, const struct message *message);

/* Forget everything: the daemon is another one. */
void bar_restart(struct bar *bar);

/* Compose the text for the screen's width, and set it. */
void bar_show(const struct bar *bar, const struct health *health, struct screen *screen);

#endif
