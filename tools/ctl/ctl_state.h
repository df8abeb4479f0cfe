/* What is in a state directory, looked at from outside: copied, and checked as the daemon would.
   Errors: EX_IOERR, unless said otherwise, and a sentence that names the file. */
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
    size_t age;        /* 1: the newest by its name */
    uint64_t position; /* of the newest journal entry in it */
};

struct state {
    bool has_journal;
    bool synced;             /* with each commit: a loss of power takes nothing from it */
    uint64_t oldest, newest; /* positions in the journal */
    uint64_t bytes;          /* of all files */
    size_t count;            /* checkpoints that are whole, the newest first, the first last */
    struct state_checkpoint checkpoints[STATE_CHECKPOINTS];
};

/* The name of the newest checkpoint (1), of the one before it (2), and so on. */
void state_name(size_t age, char name[STATE_NAME_SIZE]);

/* Write DIRECTORY/NAME. */
void state_path(char path[STATE_PATH_SIZE], const char *directory, const char *name);

/* Copy a file (mode 0600), and sync it. 1: it is not there. */
int state_copy(const char *from, const char *to, struct error *error);
int state_sync_directory(const char *directory, struct error *error);

/* Parameters that a command of the journal names: whether a file is called like them; copy all of
   them. After the journal, which has no command without its file. */
bool state_is_parameters(const char *name);
int state_copy_parameters(const char *from, const char *to, struct error *error);

/* Copy a journal into one file as of one moment, also while its daemon writes to it. 1: it is not
   there. */
int state_copy_journal(const char *from, const char *to, struct error *error);

/* The position up to which the journal beside it has been acknowledged; 0: it is not known. */
uint64_t state_read_mark(const char *path);

/* Check a whole checkpoint, and say what it has: its checksum fits. */
int state_check_checkpoint(const char *path, struct state_checkpoint *checkpoint,
                           struct error *error);

/* Check all pages and rows of a journal to which nobody writes. */
int state_check_journal(const char *path, struct state *state, struct error *error);

/* Check all of a directory to which nobody writes. With a journal at least one checkpoint belongs
   to it: what comes after it is all there. */
int state_check(const char *directory, struct state *state, struct error *error);

#endif
