#include "fleet_held.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>
#include <unistd.h>

#include "common/error.h"
#include "common/sync.h"

enum {
    MODE = 0600,
    PARTITION_SIZE = 24,
    TEMPORARY_SIZE = sizeof((struct fleet_held *)0)->path + 8
};

static int is_damaged(const struct fleet_held *held, struct error *error) {
    return error_set(error, EX_IOERR,
                     "%s is damaged: restore it with the rest of the state directory, or begin "
                     "with another state directory and another name",
                     held->path);
}

static int make_id(struct fleet_held *held, struct error *error) {
    return fleet_id_draw(held->id, error) ? -1 : fleet_held_write(held, error);
}

static int read_claims(struct fleet_held *held, const json_t *claims, struct error *error) {
    const char *partition;
    json_t *claim;
    json_object_foreach((json_t *)claims, partition, claim) {
        char *end;
        unsigned long long n = strtoull(partition, &end, 10);
        if (*end || n >= held->count || !json_is_integer(claim) || json_integer_value(claim) <= 0)
            return is_damaged(held, error);
        held->claims[n] = (uint64_t)json_integer_value(claim);
    }
    return 0;
}

/* [] of a partition of which nothing was committed, or [epoch, sequence]. */
static int read_begins(struct fleet_held *held, const json_t *begins, struct error *error) {
    json_t *begin;
    for (size_t n = 0; n < held->count; n++) {
        char partition[PARTITION_SIZE];
        json_int_t epoch = 0, sequence = 0;
        snprintf(partition, sizeof partition, "%zu", n);
        if (!held->claims[n] || !(begin = json_object_get(begins, partition)))
            continue;
        bool committed = json_array_size(begin) > 0;
        if (!json_is_array(begin) ||
            (committed && json_unpack(begin, "[I, I!]", &epoch, &sequence)) || epoch < 0 ||
            epoch > UINT32_MAX || sequence < 0)
            return is_damaged(held, error);
        held->begins[n] =
            (struct fleet_held_begin){true, committed, {(uint32_t)epoch, (uint64_t)sequence}};
    }
    return 0;
}

/* [claim, epoch, sequence] of each; older versions write none. */
static int read_ends(struct fleet_held *held, const json_t *ends, struct error *error) {
    for (size_t n = 0; n < held->count; n++) {
        char partition[PARTITION_SIZE];
        json_int_t claim, epoch, sequence;
        snprintf(partition, sizeof partition, "%zu", n);
        json_t *end = json_object_get(ends, partition);
        if (!end)
            continue;
        if (json_unpack(end, "[I, I, I!]", &claim, &epoch, &sequence) || claim < 1 || epoch < 0 ||
            epoch > UINT32_MAX || sequence < 0)
            return is_damaged(held, error);
        held->ends[n] =
            (struct fleet_held_end){(uint64_t)claim, {(uint32_t)epoch, (uint64_t)sequence}};
    }
    return 0;
}

static int read_all(struct fleet_held *held, const json_t *file, struct error *error) {
    const char *id = json_string_value(json_object_get(file, "id"));
    const char *group = json_string_value(json_object_get(file, "group"));
    const json_t *claims = json_object_get(file, "claims");
    if (!id || strlen(id) != FLEET_ID_SIZE - 1 || !group || !json_is_object(claims))
        return is_damaged(held, error);
    memcpy(held->id, id, FLEET_ID_SIZE);
    if (strcmp(group, held->group) != 0) {
        if (json_object_size(claims) == 0)
            return 0;
        return error_set(error, EX_CONFIG,
                         "%s says that this daemon has partitions in the fleet %s, and not %s: "
                         "let it stop in order there first, or begin with another state directory",
                         held->path, group, held->group);
    }
    return read_claims(held, claims, error) ||
                   read_begins(held, json_object_get(file, "began"), error) ||
                   read_ends(held, json_object_get(file, "ended"), error)
               ? -1
               : 0;
}

static void make_path(struct fleet_held *held, const char *directory) {
    snprintf(held->path, sizeof held->path, "%s/" FLEET_HELD_NAME, directory);
}

bool fleet_held_is_there(const char *directory) {
    struct fleet_held held;
    make_path(&held, directory);
    return access(held.path, F_OK) == 0;
}

int fleet_held_open(struct fleet_held *held, const char *directory, const char *group, size_t count,
                    struct error *error) {
    *held = (struct fleet_held){.count = count,
                                .claims = calloc(count + 1, sizeof *held->claims),
                                .begins = calloc(count + 1, sizeof *held->begins),
                                .ends = calloc(count + 1, sizeof *held->ends)};
    if (!held->claims || !held->begins || !held->ends)
        return error_no_memory(error);
    make_path(held, directory);
    snprintf(held->group, sizeof held->group, "%s", group);
    if (access(held->path, F_OK) != 0)
        return make_id(held, error);
    json_t *file = json_load_file(held->path, 0, NULL);
    int result = file ? read_all(held, file, error) : is_damaged(held, error);
    json_decref(file);
    return result;
}

void fleet_held_close(struct fleet_held *held) {
    free(held->claims);
    free(held->begins);
    free(held->ends);
    held->claims = NULL;
    held->begins = NULL;
    held->ends = NULL;
}

static char *text_of(const struct fleet_held *held) {
    json_t *claims = json_object(), *begins = json_object(), *ends = json_object();
    bool all = true; /* a claim that is not in the file would be learned again */
    for (size_t n = 0; n < held->count; n++) {
        const struct fleet_held_begin *begin = &held->begins[n];
        const struct fleet_held_end *end = &held->ends[n];
        char partition[PARTITION_SIZE];
        snprintf(partition, sizeof partition, "%zu", n);
        if (end->claim)
            all &= !json_object_set_new(ends, partition,
                                        json_pack("[I, I, I]", (json_int_t)end->claim,
                                                  (json_int_t)end->offset.epoch,
                                                  (json_int_t)end->offset.sequence));
        if (held->claims[n]) {
            all &=
                !json_object_set_new(claims, partition, json_integer((json_int_t)held->claims[n]));
            if (begin->is_kept)
                all &= !json_object_set_new(
                    begins, partition,
                    begin->committed ? json_pack("[I, I]", (json_int_t)begin->offset.epoch,
                                                 (json_int_t)begin->offset.sequence)
                                     : json_array());
        }
    }
    json_t *file = json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", held->id, "group", held->group,
                             "claims", claims, "began", begins, "ended", ends);
    char *text = file && all ? json_dumps(file, JSON_INDENT(1)) : NULL;
    json_decref(file);
    return text;
}

static int write_text(const char *path, const char *text) {
    size_t size = strlen(text);
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, MODE);
    if (file < 0)
        return -1;
    int result = write(file, text, size) == (ssize_t)size && fsync(file) == 0 ? 0 : -1;
    return close(file) == 0 ? result : -1;
}

int fleet_held_write(const struct fleet_held *held, struct error *error) {
    char temporary[TEMPORARY_SIZE];
    char *text = text_of(held);
    if (!text)
        return error_no_memory(error);
    snprintf(temporary, sizeof temporary, "%s.tmp", held->path);
    int result =
        write_text(temporary, text) || rename(temporary, held->path) ||
                sync_directory_of(held->path)
            ? error_set(error, EX_IOERR, "%s cannot be written: %s", held->path, strerror(errno))
            : 0;
    free(text);
    return result;
}
