/* The newest truth and its forecast in one line, for the column that the user chose. */
#ifndef RUNNEL_TOP_FORECAST_H
#define RUNNEL_TOP_FORECAST_H

#include "top_canvas.h"
#include "top_watched.h"

/* for look.column: the column with the least skill in the newest `loss` */
enum { FORECAST_WORST = -1 };

/* An unknown column becomes the first one. */
void forecast_draw(struct canvas *canvas, const struct area *area, struct watched *watched);

#endif
