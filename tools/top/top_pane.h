/* One daemon in a rectangle of at least 30 columns and a few rows. */
#ifndef RUNNEL_TOP_PANE_H
#define RUNNEL_TOP_PANE_H

#include "top_canvas.h"
#include "top_watched.h"

enum view { VIEW_OVERVIEW, VIEW_LOSS, VIEW_LAYERS, VIEW_EVENTS, VIEWS };

struct pane_settings {
    enum view view;
    bool log;    /* logarithmic axis of the loss */
    bool frozen; /* the user has stopped the display */
    bool focus;  /* whether this pane receives the keys */
};

void pane_draw(struct canvas *canvas, const struct area *area, struct watched *watched,
               const struct pane_settings *settings);

#endif
