#include "parameters_file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libdeflate.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "checkpoint.h"
#include "common/sync.h"
#include "learner/learner_export.h"
#include "model/parameters.h"

#define NAME "parameters.%" PRIu64 ".safetensors"
#define TEMPORARY "parameters.tmp"

enum { FILE_MODE = 0600, PIECE = 1 << 16 };

size_t parameters_file_numbers(const struct learner *learner) {
    size_t numbers = 0;
    for (size_t m = 0; m < learner_members(learner); m++)
        numbers += learner_member_model(learner, m)->parameters;
    return numbers;
}

static void path_of(char path[CHECKPOINT_PATH_SIZE], const char *directory, const char *name) {
    snprintf(path, CHECKPOINT_PATH_SIZE, "%s/%s", directory, name);
}

static int write_bytes(const char *path, const struct safetensors_memory *memory,
                       struct error *error) {
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, FILE_MODE);
    struct safetensors_file to = {file, path};
    if (file < 0)
        return error_set(error, EX_IOERR, "%s cannot be written: %s", path, strerror(errno));
    int status = safetensors_to_file(&to, memory->bytes, memory->size, error);
    if (status == 0 && fsync(file))
        status = error_set(error, EX_IOERR, "%s cannot be synced: %s", path, strerror(errno));
    if (close(file) && status == 0)
        status = error_set(error, EX_IOERR, "%s cannot be written: %s", path, strerror(errno));
    return status;
}

/* Writes the file under a temporary name, so that a file with its name is whole. */
static int put(const char *directory, const char *name, const struct safetensors_memory *memory,
               struct error *error) {
    char temporary[CHECKPOINT_PATH_SIZE], path[CHECKPOINT_PATH_SIZE];
    path_of(temporary, directory, TEMPORARY);
    path_of(path, directory, name);
    if (write_bytes(temporary, memory, error) == 0) {
        if (rename(temporary, path) == 0 && sync_directory(directory) == 0)
            return 0;
        error_set(error, EX_IOERR, "%s cannot be written: %s", path, strerror(errno));
    }
    unlink(temporary);
    return -1;
}

int parameters_file_write(const char *directory, uint64_t position, struct learner *learner,
                          const char *digest, const float *values, struct parameters_file *file,
                          struct error *error) {
    struct safetensors_memory memory;
    if (learner_export_values(learner, digest, values, &memory, error))
        return -1;
    *file = (struct parameters_file){.bytes = memory.size,
                                     .checksum = libdeflate_crc32(0, memory.bytes, memory.size)};
    snprintf(file->name, sizeof file->name, NAME, position);
    int status = put(directory, file->name, &memory, error);
    free(memory.bytes);
    return status;
}

static int damaged(const char *path, const char *what, struct error *error) {
    return error_set(error, EX_IOERR,
                     "%s, required by the journal, %s: restore the state directory from a backup",
                     path, what);
}

static int check(const char *path, const struct parameters_file *file, struct error *error) {
    unsigned char piece[PIECE];
    uint64_t bytes = 0;
    uint32_t sum = 0;
    FILE *open = fopen(path, "re");
    if (!open)
        return damaged(path, errno == ENOENT ? "is missing" : "cannot be read", error);
    for (size_t got; (got = fread(piece, 1, sizeof piece, open)) > 0; bytes += got)
        sum = libdeflate_crc32(sum, piece, got);
    fclose(open);
    return bytes == file->bytes && sum == file->checksum ? 0 : damaged(path, "is damaged", error);
}

int parameters_file_import(const char *path, struct learner *learner, float *values,
                           struct error *error) {
    for (size_t m = 0; m < learner_members(learner); m++) {
        const struct model *model = learner_member_model(learner, m);
        if (parameters_load(model, learner_member_name(learner, m), path, values, error))
            return -1;
        values += model->parameters;
    }
    return 0;
}

int parameters_file_read(const char *directory, const struct parameters_file *file,
                         struct learner *learner, float *values, struct error *error) {
    char path[CHECKPOINT_PATH_SIZE];
    path_of(path, directory, file->name);
    return check(path, file, error) || parameters_file_import(path, learner, values, error) ? -1
                                                                                            : 0;
}

/* Removes the files of commands in a range of positions. */
static void drop(const char *directory, uint64_t first, uint64_t last) {
    char path[CHECKPOINT_PATH_SIZE], name[PARAMETERS_FILE_NAME_SIZE];
    DIR *open = opendir(directory);
    for (const struct dirent *entry; open && (entry = readdir(open));) {
        uint64_t position;
        if (sscanf(entry->d_name, "parameters.%" SCNu64, &position) != 1 || position < first ||
            position > last)
            continue;
        snprintf(name, sizeof name, NAME, position);
        path_of(path, directory, name);
        if (strcmp(name, entry->d_name) == 0)
            unlink(path);
    }
    if (open)
        closedir(open);
}

void parameters_file_drop(const char *directory, uint64_t oldest) {
    if (oldest)
        drop(directory, 0, oldest - 1);
}

void parameters_file_sweep(const char *directory, uint64_t newest) {
    char path[CHECKPOINT_PATH_SIZE];
    path_of(path, directory, TEMPORARY);
    unlink(path);
    drop(directory, newest + 1, UINT64_MAX);
}
