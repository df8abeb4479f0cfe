/* The whole frame: panes, help, and the line at the bottom. */
#ifndef RUNNEL_TOP_FRAME_H
#define RUNNEL_TOP_FRAME_H

#include "top_canvas.h"
#include "top_session.h"

/* With `bottom` the last line is for keys, questions and answers; a frame that is printed has none.
 */
void frame_draw(struct canvas *canvas, const struct session *session, bool bottom);

#endif
