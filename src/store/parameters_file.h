/* Parameters that took the place of those that were learned, in a file of the state directory that
   a command of the journal names: a replay needs them. parameters.POSITION.safetensors, as an
   export has them (docs/reference/protocol.md), synced before the command is appended. */
#ifndef RUNNEL_PARAMETERS_FILE_H
#define RUNNEL_PARAMETERS_FILE_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct learner;

enum { PARAMETERS_FILE_NAME_SIZE = 48 };

/* As the command has it. */
struct parameters_file {
    char name[PARAMETERS_FILE_NAME_SIZE]; /* in the state directory */
    uint64_t bytes;
    uint32_t checksum; /* CRC-32 of all of them */
};

/* Of all members: values as learner_write_parameters takes them, one member after the other. For
   the command that gets that position. EX_IOERR: the disk does not take it. */
int parameters_file_write(const char *directory, uint64_t position, struct learner *learner,
                          const char *digest, const float *values, struct parameters_file *file,
                          struct error *error);

/* EX_IOERR: it is missing, or not what was written. EX_CONFIG: of another model. */
int parameters_file_read(const char *directory, const struct parameters_file *file,
                         struct learner *learner, float *values, struct error *error);

/* From a file of an export, whose name the sentences have: EX_CONFIG, EX_IOERR. */
int parameters_file_import(const char *path, struct learner *learner, float *values,
                           struct error *error);

/* Numbers in them. */
size_t parameters_file_numbers(const struct learner *learner);

/* Remove those of commands before that position: no journal has these any more. What cannot be
   removed stays. */
void parameters_file_drop(const char *directory, uint64_t oldest);

/* At a start: remove what a daemon that was killed has not brought to its journal, whose newest
   entry is this one. */
void parameters_file_sweep(const char *directory, uint64_t newest);

#endif
