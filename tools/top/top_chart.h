/* The charts of a daemon over the examples that its look shows. */
#ifndef RUNNEL_TOP_CHART_H
#define RUNNEL_TOP_CHART_H

#include "top_canvas.h"
#include "top_watched.h"

/* The loss with its axes: band from least to greatest, smoothed curve, events as letters on the
   axis. With `log` the axis is logarithmic where every loss shown is positive. */
void chart_loss(struct canvas *canvas, const struct area *area, const struct watched *watched,
                bool log);

/* One field as a curve alone, over the same examples; as high as the area. */
void chart_field(struct canvas *canvas, const struct area *area, const struct watched *watched,
                 enum loss_field field);

#endif
