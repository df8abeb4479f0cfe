/* Predicts the next symbol of streams from counts: bytes, words, templates of lines, classes of
   events. Experts count what followed in contexts of the newest symbols. Gated logistic mixing
   combines them with a network's distribution; a correction follows. A symbol is a path of binary
   decisions. The equations are in docs/explanation/symbols.md.

   All streams share what is learned; each has a place. Hashes and counts are integers, sums have a
   fixed order, and memory is allocated at opening. */
#ifndef RUNNEL_SYMBOLS_H
#define RUNNEL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#ifndef SYMBOLS_REAL
#    define SYMBOLS_REAL float
#endif
typedef SYMBOLS_REAL symbols_real; /* of weights; tests may compile it for double */

struct symbols;

enum symbols_expert {
#define EXPERT(name, ...) SYMBOLS_##name,
#include "experts.def"
    SYMBOLS_EXPERTS,
    SYMBOLS_LATE = SYMBOLS_EXPERTS,        /* in a set: it was not named */
    SYMBOLS_FREQUENCIES = SYMBOLS_EXPERTS, /* further kinds of inputs */
    SYMBOLS_NETWORK,
    SYMBOLS_CONSTANT,
    SYMBOLS_INPUTS,
};

/* The names of experts, and the default set of those for bytes or for so many other symbols:
   1 << SYMBOLS_orders and so on. With 1 << SYMBOLS_LATE, position and kneser begin late. */
extern const char *const symbols_names[SYMBOLS_EXPERTS];
size_t symbols_experts(bool bytes, size_t symbols);

enum { SYMBOLS_MAX = 65535, SYMBOLS_TOP_MAX = 100, SYMBOLS_MEMORY_LEAST = 1 << 14 };
enum { SYMBOLS_NETWORKS_MAX = 4 };

struct symbols_options {
    size_t bytes;   /* 1: contexts of text, 256 symbols */
    size_t symbols; /* 2..SYMBOLS_MAX */
    size_t seen;    /* symbols that have appeared before the first one */
    size_t memory;  /* bytes of the table: a power of two */
    size_t experts; /* a set */
    size_t network; /* networks whose distributions the mixture has */
    size_t apart;   /* 1: a second mixture has only the experts; not in the header */
};

/* Where a stream is. All zero is a new stream. */
struct symbols_place {
    uint64_t steps, rolling[2];        /* hashes of the symbols that repeats compare */
    uint64_t word, word_before, field; /* hashes so far; 0 = empty */
    uint64_t line[32];                 /* fields of this line, then those of the line above */
    uint32_t newest[64];               /* symbol number n is at n % 64 */
    uint32_t letters, fields;          /* of the word, of the line */
    uint32_t right[2];                 /* how often in a row a repeat was right */
    uint32_t written;                  /* number of the newest symbol in the history, 0 = none */
    struct symbols_follow {
        uint32_t number, right, missed; /* of the expected symbol; the newest 16 mismatches */
    } follow;
};

int symbols_open(struct symbols **symbols, const struct symbols_options *options,
                 struct error *error);
void symbols_close(struct symbols **symbols);
void symbols_reset(struct symbols *symbols);

/* The losses of a symbol in nats: of the mixture, and of the one without the network. */
struct symbols_loss {
    double mixture, experts;
};

/* Scores the next symbol of a stream, learns it if `learn`, and moves the place. `network`: the
   distributions (networks, symbols), zeros if one is unknown, or NULL. `shares` (SYMBOLS_INPUTS,)
   or NULL: how much each kind of input contributed, of 1. */
struct symbols_loss symbols_take(struct symbols *symbols, struct symbols_place *place,
                                 uint32_t symbol, const float *network, bool learn, double *shares);

/* The first `seen` symbols have appeared: a vocabulary has grown. */
void symbols_appeared(struct symbols *symbols, size_t seen);

struct symbols_guess {
    uint32_t symbol;
    double probability;
};

/* Finds the `most` most probable next symbols, in that order, and returns their number. It is
   smaller if the search is too long. Learns nothing. `apart`: of the second mixture. */
size_t symbols_top(struct symbols *symbols, const struct symbols_place *place, const float *network,
                   bool apart, struct symbols_guess *top, size_t most);

/* ---- State in checkpoints ---- */

/* The numbers of the first array. */
struct symbols_header {
    struct symbols_options options;
    uint64_t seen, learned;  /* symbols that have appeared, and all so far */
    uint64_t used, replaced; /* slots of the table with a count, and those that had another */
};

enum { SYMBOLS_LINE = 64, SYMBOLS_SLOTS = 10, SYMBOLS_ARRAYS = 12 }; /* slots in a line of bytes */

struct symbols_array {
    const char *name;
    char type; /* 'u': uint64_t, 'd': double, 'f': symbols_real */
    size_t count;
    void *numbers;
};

const struct symbols_array *symbols_arrays(const struct symbols *symbols);

/* Arrays that are missing in a checkpoint, such as those of the second mixture, stay as they are
   after a reset. Whether all are valid and have the same options; else reset. */
bool symbols_valid(const struct symbols *symbols);
bool symbols_place_valid(const struct symbols_place *place);

#endif
