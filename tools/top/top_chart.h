/* Charts of a daemon over the examples that its look selects. */
#ifndef RUNNEL_TOP_CHART_H
#define RUNNEL_TOP_CHART_H

#include "top_canvas.h"
#include "top_watched.h"

/* The loss with axes: band from minimum to maximum, smoothed curve, events as letters on the axis.
   With `log` the axis is logarithmic if all visible losses are positive. */
void chart_loss(struct canvas *canvas, const struct area *area, const struct watched *watched,
                bool log);

/* One field as a curve without axes over the same examples. */
void chart_field(struct canvas *canvas, const struct area *area, const struct watched *watched,
                 enum loss_field field);

#endif
