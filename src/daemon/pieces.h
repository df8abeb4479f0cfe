/* Bytes that come in several commands, for one frame of a control socket is small:
   {"command": .., "part": 1, "parts": 3, "blob": base64}. Without `part` all is in one. */
#ifndef RUNNEL_PIECES_H
#define RUNNEL_PIECES_H

#include <jansson.h>
#include <stdint.h>

struct error;

/* What has come; all zeros: nothing. */
struct pieces {
    unsigned char *bytes;
    size_t size, capacity;
    uint64_t part, parts; /* the last that came, of how many */
};

/* The next one: 1 when all are there, 0 when there are more to come, or -1 (EX_USAGE): it is none,
   it is not the next, or all of them are more than `most` bytes. Part 1 begins anew. */
int pieces_take(struct pieces *pieces, const json_t *command, size_t most, struct error *error);
void pieces_free(struct pieces *pieces);

#endif
