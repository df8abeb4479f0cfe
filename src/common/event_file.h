/* A TensorBoard event file: TFRecords of Event messages. What is written of TensorFlow's protocol
   buffers is a wall time, a step, and a summary of scalars and histograms; and what the plugin
   hparams shows of runs: their settings beside their results. */
#ifndef RUNNEL_EVENT_FILE_H
#define RUNNEL_EVENT_FILE_H

#include <stdbool.h>
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

/* ---- hparams: the table of runs and their settings ----

   Every run is a file in a directory of its own, which begins with event_session_start and, when
   the run is over, ends with event_session_end. A file in the directory above those of the runs may
   say with event_experiment which settings and which scalars (by their tags) the table has;
   TensorBoard works it out otherwise. Times are Unix times. */

enum event_setting_type { EVENT_TEXT = 1, EVENT_FLAG = 2, EVENT_NUMBER = 3 };

struct event_setting {
    const char *name, *text; /* "learning.optimizer.rate", "0.001" */
    enum event_setting_type type;
};

/* What a value that somebody has written is: a finite number, true or false, or a text. Of several
   runs, a setting that is not of one type in all of them has to be EVENT_TEXT in all. */
enum event_setting_type event_setting_type(const char *text);

/* `text` of the settings is not read. */
void event_experiment(struct event_file *file, double time, const char *description,
                      const struct event_setting *settings, size_t count,
                      const char *const *metrics, size_t metric_count);

/* Runs of one `group` are shown as one, with means; NULL: on its own. */
void event_session_start(struct event_file *file, double time, const char *group,
                         const struct event_setting *settings, size_t count);
void event_session_end(struct event_file *file, double time, bool failed);

/* Hand everything to the system: -1 when it did not take it, with errno. */
int event_flush(struct event_file *file);

#endif
