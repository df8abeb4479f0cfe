/* What the layers of a network are like: a line or a panel for each. */
#ifndef RUNNEL_TOP_LAYERS_H
#define RUNNEL_TOP_LAYERS_H

#include <jansson.h>

#include "top_canvas.h"

enum { LAYERS_PANEL_ROWS = 9, LAYERS_PANEL_COLUMNS = 56 };

/* How many panels fit beside each other. */
int layers_abreast(int columns);

/* A table with a header, as many columns as fit, from layer *first on; *first is made one that
   fills the rows. */
void layers_table(struct canvas *canvas, const struct area *area, const json_t *layers, int *first);

/* Panels of LAYERS_PANEL_ROWS with all numbers and a tall histogram, likewise. */
void layers_panels(struct canvas *canvas, const struct area *area, const json_t *layers,
                   int *first);

#endif
