/* A snapshot of the fleet as messages of its log: in pieces, since brokers take 1 MB at once. */
#ifndef RUNNEL_FLEET_PIECES_H
#define RUNNEL_FLEET_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FLEET_PIECE_BYTES = 512 * 1024, FLEET_PIECE_HEAD = 96 };

/* Whether a message is one: no command is. */
bool fleet_piece_is(const void *message, size_t size);

/* How many pieces `size` bytes are, at least 1. */
size_t fleet_piece_count(size_t size);

/* One of them, as a message (FLEET_PIECE_HEAD + FLEET_PIECE_BYTES,), whose size this gives. The
   snapshot is that of `position`. */
size_t fleet_piece_write(unsigned char *message, const void *snapshot, size_t size,
                         uint64_t position, size_t piece);

/* Pieces put together again, in any order, of a few snapshots at once; all zeros at first. */
struct fleet_pieces {
    unsigned char *bytes; /* of the snapshot that is whole, until the next call */
    size_t size;
    struct fleet_gathered *gathered; /* its own */
};

/* 1: one snapshot is whole; 0: not yet; -1: out of memory. What is no piece, or does not fit those
   that are there, is left out. */
int fleet_pieces_add(struct fleet_pieces *pieces, const void *message, size_t size);
void fleet_pieces_free(struct fleet_pieces *pieces);

#endif
