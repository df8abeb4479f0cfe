/* Joins bytes that a client sends in several commands, since a frame of the control socket is
   small: {"command": .., "part": 1, "parts": 3, "blob": base64}. Without `part`, one command has
   all bytes. */
#ifndef RUNNEL_PIECES_H
#define RUNNEL_PIECES_H

#include <jansson.h>
#include <stdint.h>

struct error;

/* The parts received so far; all zeros: none. */
struct pieces {
    unsigned char *bytes;
    size_t size, capacity;
    uint64_t part, parts; /* the last part received, and their number */
};

/* Adds the next part. Returns 1 when complete, 0 when more parts follow, or -1 (EX_USAGE): the part
   is invalid or not the next one, or the total exceeds `most` bytes. Part 1 starts from scratch. */
int pieces_take(struct pieces *pieces, const json_t *command, size_t most, struct error *error);
void pieces_free(struct pieces *pieces);

#endif
