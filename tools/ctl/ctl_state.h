/* A state directory, copied and checked from outside as the daemon would do. Errors are EX_IOERR,
   unless noted otherwise, with a sentence that names the file. */
#ifndef RUNNEL_CTL_STATE_H
#define RUNNEL_CTL_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#define STATE_JOURNAL "journal.sqlite"
#define STATE_MARK "journal.mark"
#define STATE_FIRST "checkpoint.first.safetensors"
#define STATE_ROLLBACK "rollback.json"

enum { STATE_PATH_SIZE = 4096, STATE_CHECKPOINTS = 101, STATE_NAME_SIZE = 64 };

struct state_checkpoint {
    char name[STATE_NAME_SIZE];
    size_t age;        /* 1 = newest by name */
    uint64_t position; /* of the newest journal entry in it */
};

struct state {
    bool has_journal;
    bool synced;             /* synced with each commit: safe against a loss of power */
    uint64_t oldest, newest; /* positions in the journal */
    uint64_t bytes;          /* of all files */
    size_t count;            /* valid checkpoints, newest first, checkpoint.first last */
    struct state_checkpoint checkpoints[STATE_CHECKPOINTS];
};

/* The name of a checkpoint; age 1 is the newest. */
void state_name(size_t age, char name[STATE_NAME_SIZE]);

/* Writes DIRECTORY/NAME. */
void state_path(char path[STATE_PATH_SIZE], const char *directory, const char *name);

/* Copies and syncs a file (mode 0600). Returns 1 if it does not exist. */
int state_copy(const char *from, const char *to, struct error *error);
int state_sync_directory(const char *directory, struct error *error);

/* Files of parameters to which journal commands refer. Copy them after the journal, whose commands
   need them. */
bool state_is_parameters(const char *name);
int state_copy_parameters(const char *from, const char *to, struct error *error);

/* Copies a journal into one file as of one moment, also while its daemon writes to it. Returns 1 if
   it does not exist. */
int state_copy_journal(const char *from, const char *to, struct error *error);

/* The position up to which the journal in the same directory was acknowledged; 0 if unknown. */
uint64_t state_read_mark(const char *path);

/* Checks a checkpoint and its checksum, and fills `checkpoint`. */
int state_check_checkpoint(const char *path, struct state_checkpoint *checkpoint,
                           struct error *error);

/* Checks all pages and rows of a journal without a writer. */
int state_check_journal(const char *path, struct state *state, struct error *error);

/* Checks a directory without a writer. With a journal, all entries after at least one checkpoint
   must exist. */
int state_check(const char *directory, struct state *state, struct error *error);

#endif
