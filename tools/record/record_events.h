/* A TensorBoard event file: TFRecords of Event messages. What is written of TensorFlow's protocol
   buffers is a wall time, a step, and a summary of scalars and histograms. */
#ifndef RUNNEL_RECORD_EVENTS_H
#define RUNNEL_RECORD_EVENTS_H

#include <stddef.h>
#include <stdint.h>

struct event_file;

/* Make a file of a new name in `directory`, which is there. EX_OK, or complains and returns an exit
   status. */
int event_file_open(struct event_file **file, const char *directory);

/* -1 when something of it could not be written, with errno. */
int event_file_close(struct event_file **file);

/* An event: begun, filled, and written with event_end. */
void event_begin(struct event_file *file, double wall_time, int64_t step);
void event_scalar(struct event_file *file, const char *tag, double value);

/* `count` bins, bin i from edges[i] to edges[i + 1]; mean and deviation of what was counted. */
void event_histogram(struct event_file *file, const char *tag, const double *counts,
                     const double *edges, size_t count, double mean, double deviation);
void event_end(struct event_file *file);

/* Hand everything to the system: -1 when it did not take it, with errno. */
int event_flush(struct event_file *file);

#endif
