/* Whose numbers examples of JSON have, so that labels among them name the same: the daemon looks
   for the example of a label among those of the label's own key and producer. */
#ifndef RUNNEL_FEED_NUMBERS_H
#define RUNNEL_FEED_NUMBERS_H

#include <jansson.h>

#include "streams/feed_streams.h"

/* "producer", in hexadecimal digits. */
void numbers_set_producer(json_t *value, uint64_t producer);

/* The stream's newest example has these. */
void numbers_taken(struct held_stream *held, uint64_t producer, uint32_t epoch);

/* The same of an example that has all but its sequence, unless that is its own; before
   the stream's is set to it. EX_DATAERR: a label was given its number. */
int numbers_of_example(struct held_stream *held, const json_t *value, struct error *error);

/* Give the label what it lacks of "producer", "epoch" and "label_epoch": those of the stream's
   newest example, or what the options of the call say. EX_DATAERR: it has no number, and nothing
   says whose it would be. */
int numbers_of_label(const struct source *source, struct held_stream *held, json_t *value,
                     struct error *error);

#endif
