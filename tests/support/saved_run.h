/* A learner on the engine under test with an observer and a state directory, for tests of
   checkpoints. Any error fails the running test. */
#ifndef RUNNEL_TESTS_SAVED_RUN_H
#define RUNNEL_TESTS_SAVED_RUN_H

#include "observed.h"
#include "store/checkpoint.h"
#include "workload.h"

enum { EXAMPLES = 120, OBSERVATIONS = 2 * EXAMPLES, PATH_SIZE = 512 };

struct run {
    struct observation list[OBSERVATIONS];
    struct observations observations;
    struct learner *learner;
    struct checkpoint *checkpoint; /* NULL until open_state */
};

/* cmocka's setup and teardown: a state directory that does not exist yet, below a temporary one. */
int make_state(void **unused);
int remove_state(void **unused);
extern char state[PATH_SIZE];

/* The path of a file there, until the next call. */
const char *file_in_state(const char *name);

/* Two numbers, scaled and held, gaussian, next; a few streams with every mark and gap. */
struct workload_options sensor(void);
struct workload *sensor_workload(void);

struct run *run_open(const struct workload *workload);
struct run *run_open_with_state(const struct workload *workload);
void run_close(struct run *run);

/* Another learner, on another engine; the old one must be closed. */
void open_learner(struct run *run, const struct workload *workload,
                  const struct engine_ops *engine);
void open_state(struct run *run);

/* Takes and flushes examples first..first + count - 1. */
void take(struct run *run, const struct workload *workload, size_t first, size_t count);

/* Writes a checkpoint and waits for it. */
void save(struct run *run, const struct workload *workload);

/* checkpoint_load into the run's learner. */
int load(struct run *run, const struct workload *workload, struct checkpoint_report *report,
         struct error *error);

/* A run that has written two checkpoints, after 10 and after 20 examples. */
struct run *write_two(const struct workload *workload);

#endif
