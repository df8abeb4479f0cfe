#include "replay_import.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sysexits.h>

#include "common/base64.h"
#include "common/error.h"
#include "common/wire.h"
#include "replay_control.h"

enum { PATH_SIZE = 4096 };

/* Beside the journal. */
static FILE *open_file(const char *journal, const char *name, char path[PATH_SIZE],
                       struct error *error) {
    const char *slash = strrchr(journal, '/');
    snprintf(path, PATH_SIZE, "%.*s%s", slash ? (int)(slash + 1 - journal) : 0, journal, name);
    FILE *file = strchr(name, '/') ? NULL : fopen(path, "re");
    if (!file)
        error_set(error, EX_NOINPUT, "%s, which the journal needs, cannot be read: %s", path,
                  strerror(errno));
    return file;
}

static int send_piece(const struct runnel_peer *peer, const unsigned char *bytes, size_t size,
                      uint64_t part, uint64_t parts, struct error *error) {
    static char text[(WIRE_PIECE + 2) / 3 * 4];
    base64_write(bytes, size, text);
    json_t *request =
        json_pack("{s:s, s:I, s:I, s:o}", "command", "import", "part", (json_int_t)part, "parts",
                  (json_int_t)parts, "blob", json_stringn_nocheck(text, base64_size(size)));
    char *command = json_dumps(request, JSON_COMPACT);
    int status = command ? replay_command(peer, command, error) : error_no_memory(error);
    json_decref(request);
    free(command);
    return status;
}

int replay_import(const struct runnel_peer *peer, const char *path, const char *command,
                  struct error *error) {
    static unsigned char piece[WIRE_PIECE];
    char name[PATH_SIZE];
    json_t *import = json_loads(command, 0, NULL);
    const char *file_name = json_string_value(json_object_get(import, "file"));
    uint64_t bytes = (uint64_t)json_integer_value(json_object_get(import, "bytes"));
    uint64_t parts = (bytes + WIRE_PIECE - 1) / WIRE_PIECE;
    FILE *file = open_file(path, file_name ? file_name : "", name, error);
    int status = file ? 0 : -1;
    for (uint64_t part = 1; status == 0 && part <= parts; part++) {
        size_t got = fread(piece, 1, sizeof piece, file);
        if (got == (part < parts ? WIRE_PIECE : bytes - (parts - 1) * WIRE_PIECE))
            status = send_piece(peer, piece, got, part, parts, error);
        else
            status = error_set(error, EX_DATAERR, "%s is not what the journal needs", name);
    }
    if (file)
        fclose(file);
    json_decref(import);
    return status;
}
