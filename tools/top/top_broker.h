/* What the daemon reads of a broker itself, and the fleet that it is in: a line of each. */
#ifndef RUNNEL_TOP_BROKER_H
#define RUNNEL_TOP_BROKER_H

#include "top_canvas.h"
#include "top_watched.h"

/* How many lines there are: 0 with neither. */
int broker_rows(const struct watched *watched);
void broker_draw(struct canvas *canvas, const struct area *area, const struct watched *watched);

#endif
