/* A command to a daemon's control socket that does not hold up the screen: begun, then stepped on
   whenever its descriptor has something, until it has come to an end. The daemon is asked first who
   it is, and gets the command only when it is the one that is watched. */
#ifndef RUNNEL_TOP_CONTROL_H
#define RUNNEL_TOP_CONTROL_H

#include <stdbool.h>

#include <jansson.h>

#include "runnel.h"

enum { CONTROL_TEXT = 300 };

struct control;

/* Begin: the request becomes the control's. `run` is the run that the daemon must be in. NULL with
   `text` saying why when it cannot begin. */
struct control *control_open(const struct runnel_peer *peer, const char *run, json_t *request,
                             char text[CONTROL_TEXT]);
void control_close(struct control **control);

/* What to poll for before the next step. */
int control_descriptor(const struct control *control);

/* Seconds until it gives up. */
double control_left(const struct control *control);

enum control_end { CONTROL_GOES_ON, CONTROL_DONE, CONTROL_FAILED };

/* Continue as far as possible without waiting; at the end `text` is a sentence about it. */
enum control_end control_step(struct control *control, char text[CONTROL_TEXT]);

#endif
