/* What people see of a running feeder, on stderr: one line that is rewritten in place when stderr
   is a terminal, feed_say's sentences, and a closing summary. The terminal is one, so this is one
   too: there is no struct to hand around. */
#ifndef RUNNEL_FEED_PROGRESS_H
#define RUNNEL_FEED_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct progress {
    uint64_t examples, steps;
    double done;         /* share of everything, 0..1; NAN when there is no end or none in sight */
    const char *waiting; /* the endpoint without a peer, or NULL */
};

/* `program` speaks. `line`: false when standard output may be the same terminal. */
void progress_start(const char *program, bool quiet, bool verbose, bool line);

/* The clock of the rates begins now: call it when the first example may leave. */
void progress_begin(void);

/* Whether the line is due. Cheap enough to be asked often, not for every example. */
bool progress_due(void);
void progress_show(const struct progress *progress);

/* Without a line, one sentence says that no daemon is there yet, once and after a while. */
void progress_waiting(const struct progress *progress);

/* Take the line away, for good or until it is shown next. */
void progress_clear(void);

/* One sentence that people need also with --quiet. */
void progress_warn(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* "sent 1000 examples in 2.0 s, 500 per second", with "(12000 steps)" where they are more, and what
   has come back unless `counts` is NULL. */
struct runnel_counts;
void progress_summary(const struct progress *progress, const char *where, uint64_t skipped,
                      const struct runnel_counts *counts);

#endif
