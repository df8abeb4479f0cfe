/* The numbers of a daemon beside the loss, each with its curve where there is room. */
#ifndef RUNNEL_TOP_METERS_H
#define RUNNEL_TOP_METERS_H

#include "top_canvas.h"
#include "top_watched.h"

enum {
    METERS_WIDE = 76, /* columns from which there are two beside each other */
    METERS_SLOTS = 5, /* so many above each other, then */
    METERS_ROWS = 8,  /* else */
};

/* Draw what the area has room for, what matters most first; wide areas give each of METERS_SLOTS
   meters the same height. */
void meters_draw(struct canvas *canvas, const struct area *area, const struct watched *watched);

#endif
