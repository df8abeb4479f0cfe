/* Everything about one daemon in one rectangle, from 30 columns and a few rows up. */
#ifndef RUNNEL_TOP_PANE_H
#define RUNNEL_TOP_PANE_H

#include "top_canvas.h"
#include "top_watched.h"

enum view { VIEW_OVERVIEW, VIEW_LOSS, VIEW_LAYERS, VIEW_EVENTS, VIEWS };

struct pane_settings {
    enum view view;
    bool log;    /* the axis of the loss */
    bool frozen; /* by the user */
    bool focus;  /* whether keys go to this one */
};

void pane_draw(struct canvas *canvas, const struct area *area, struct watched *watched,
               const struct pane_settings *settings);

#endif
