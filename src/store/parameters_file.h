/* Imported parameters, in a file of the state directory that a command of the journal names, for
   replays. The file parameters.POSITION.safetensors has the form of an export
   (docs/reference/protocol.md) and is synced before the command is appended. */
#ifndef RUNNEL_PARAMETERS_FILE_H
#define RUNNEL_PARAMETERS_FILE_H

#include <stddef.h>
#include <stdint.h>

struct error;
struct learner;

enum { PARAMETERS_FILE_NAME_SIZE = 48 };

/* The fields of the command. */
struct parameters_file {
    char name[PARAMETERS_FILE_NAME_SIZE]; /* file name in the state directory */
    uint64_t bytes;
    uint32_t checksum; /* CRC-32 of the file */
};

/* Writes the parameters of all members, in the order of learner_write_parameters, for the command
   at that position. EX_IOERR: the file cannot be written. */
int parameters_file_write(const char *directory, uint64_t position, struct learner *learner,
                          const char *digest, const float *values, struct parameters_file *file,
                          struct error *error);

/* Reads the file. EX_IOERR: it is missing or damaged. EX_CONFIG: it has another model. */
int parameters_file_read(const char *directory, const struct parameters_file *file,
                         struct learner *learner, float *values, struct error *error);

/* Reads a file of an export; errors contain its name: EX_CONFIG, EX_IOERR. */
int parameters_file_import(const char *path, struct learner *learner, float *values,
                           struct error *error);

/* Returns the count of numbers in all members' parameters. */
size_t parameters_file_numbers(const struct learner *learner);

/* Removes files of commands before that position, which no journal needs. Ignores errors. */
void parameters_file_drop(const char *directory, uint64_t oldest);

/* At a start, removes files that a killed daemon wrote before appending their command; `newest` is
   the journal's newest entry. */
void parameters_file_sweep(const char *directory, uint64_t newest);

#endif
