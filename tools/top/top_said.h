/* The newest truth beside what was said of it: a line, of the column that the user chose. */
#ifndef RUNNEL_TOP_SAID_H
#define RUNNEL_TOP_SAID_H

#include "top_canvas.h"
#include "top_watched.h"

enum { SAID_WORST = -1 /* as look.column: the column with the least skill in the newest `loss` */ };

/* A column that there is not becomes the first. */
void said_draw(struct canvas *canvas, const struct area *area, struct watched *watched);

#endif
