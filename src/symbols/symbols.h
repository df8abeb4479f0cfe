/* Predicts the next symbol of streams from counts: bytes, words, templates of lines, classes of
   events. Experts count in contexts of the newest symbols; gated logistic mixing combines them
   with a network's distribution, and a correction follows. A symbol is a sequence of binary
   decisions. The equations are in docs/explanation/symbols.md.

   Everything learned is common to all streams of one `struct symbols`; a stream has a place.
   Memory is allocated at opening. Hashes and counts are integers, and sums have a fixed order. */
#ifndef RUNNEL_SYMBOLS_H
#define RUNNEL_SYMBOLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/error.h"

#ifndef SYMBOLS_REAL
#    define SYMBOLS_REAL float /* tests also compile it for double */
#endif
typedef SYMBOLS_REAL symbols_real;

struct symbols;

enum symbols_expert {
#define EXPERT(name, ...) SYMBOLS_##name,
#include "experts.def"
    SYMBOLS_EXPERTS,
};

enum {
    SYMBOLS_MAX = 65535,   /* most symbols */
    SYMBOLS_FEW = 16,      /* at most so many have longer contexts and a flat code */
    SYMBOLS_TOP_MAX = 100, /* most symbols of symbols_top */
    SYMBOLS_NEWEST = 64,   /* symbols of a place */
    SYMBOLS_FIELDS = 32,   /* fields of a line */
};

#define SYMBOLS_MEMORY_LEAST ((size_t)1 << 14)

const char *symbols_expert_name(enum symbols_expert expert);

/* The experts that can be chosen for bytes, or for other symbols. */
unsigned symbols_experts(bool bytes);

struct symbols_options {
    bool bytes;       /* contexts of text; 256 symbols */
    size_t symbols;   /* 2..SYMBOLS_MAX */
    size_t seen;      /* symbols that have appeared before learning; 0: all */
    size_t memory;    /* bytes of the table: a power of two, at least SYMBOLS_MEMORY_LEAST */
    unsigned experts; /* bits 1 << SYMBOLS_orders and so on */
    bool network;     /* the mixture has a network's distribution */
    bool apart;       /* with a network: another mixture has only the experts */
};

/* All zero is a new stream. Any numbers are valid after symbols_place_valid. */
struct symbols_place {
    uint64_t steps;
    uint64_t rolling[2];             /* hashes of the symbols that repeats compare */
    uint64_t word, word_before;      /* hashes of their letters; 0: no letter yet */
    uint64_t field;                  /* hash of the field so far */
    uint64_t line[SYMBOLS_FIELDS];   /* fields of this line, then of the line above */
    uint32_t newest[SYMBOLS_NEWEST]; /* symbol number n is at n % SYMBOLS_NEWEST */
    uint32_t letters, fields;        /* of the word, of the line */
    uint32_t right[2];               /* how many symbols in a row each repeat was right */
};

bool symbols_place_valid(const struct symbols_place *place);

int symbols_open(struct symbols **symbols, const struct symbols_options *options,
                 struct error *error);
void symbols_close(struct symbols **symbols);
void symbols_reset(struct symbols *symbols); /* nothing is learned */

/* The first `seen` symbols have appeared: a vocabulary has grown. */
void symbols_appeared(struct symbols *symbols, size_t seen);

/* The losses of a symbol, in nats. */
struct symbols_loss {
    double mixture, experts; /* without `apart` or a network they are equal */
};

/* What the inputs of one kind contributed to a symbol's decisions: the mean of |w|, and their share
   of the sum of |w x|. */
struct symbols_weight {
    double weight, share;
};

/* The kinds of inputs: experts, then these. */
enum { SYMBOLS_FREQUENCIES = SYMBOLS_EXPERTS, SYMBOLS_NETWORK, SYMBOLS_KINDS };

/* Scores the stream's next symbol and learns it if `learn`; the place moves on in any case.
   `network`: its distribution (symbols,), or NULL. `weights`: (SYMBOLS_KINDS,), or NULL. */
struct symbols_loss symbols_take(struct symbols *symbols, struct symbols_place *place,
                                 uint32_t symbol, const float *network, bool learn,
                                 struct symbols_weight *weights);

struct symbols_guess {
    uint32_t symbol;
    double probability;
};

/* Finds the most probable next symbols, the most probable first, and returns their number: less
   than `most` if there are not as many, or the search takes too long. Changes nothing. `apart`: of
   the experts alone. */
size_t symbols_top(struct symbols *symbols, const struct symbols_place *place, const float *network,
                   bool apart, struct symbols_guess *top, size_t most);

struct symbols_usage {
    double used;       /* share of the table's slots */
    uint64_t replaced; /* slots that had a count */
    uint64_t learned;  /* symbols */
    size_t seen;
};

struct symbols_usage symbols_usage(const struct symbols *symbols);

/* ---- State in checkpoints ---- */

enum symbols_part {
    SYMBOLS_SEEN, /* options, and numbers of struct symbols_usage */
    SYMBOLS_TABLE,
    SYMBOLS_REPEATS,
    SYMBOLS_MAPS,
    SYMBOLS_MIXERS,
    SYMBOLS_CORRECTION,
    SYMBOLS_PARTS,
};

struct symbols_array {
    const char *name;
    bool real; /* symbols_real; otherwise uint64_t */
    void *numbers;
    size_t count;
};

struct symbols_array symbols_array(struct symbols *symbols, enum symbols_part part);

/* Whether numbers from a checkpoint are valid and of the same options. If not, reset. */
bool symbols_valid(const struct symbols *symbols);

#endif
