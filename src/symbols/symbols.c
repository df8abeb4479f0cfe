#include "symbols.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tgmath.h>

#include "common/vectors.h"
#include "place.h"

typedef symbols_real real;

enum {
    SLOTS = 10,
    MAPS = 384,     /* of a context */
    RUNS = 32,      /* lengths of repeats that are distinguished */
    RUN_MOST = 255, /* how often a repeat was right */
    RIGHT_MOST = 1 << 16,
    SURE = 4,        /* counts of that which are distinguished */
    NODES = 1 << 16, /* with a frequency */
    SETS = 4,        /* of weights */
    ROWS = 4096,     /* of a set */
    INPUTS_MAX = 32, /* 2 a context, repeats, frequency, constant, network; padded */
    POINTS = 33,     /* of a correction */
    CELLS = 1 << 14, /* with a correction */
    MIXERS = 2,
    GROUP = 4,  /* decisions whose counters share a bucket */
    AGING = 16, /* replaced slots after which the others' counts fall */
    MAP_STEPS = 1000,
    SHORT_STEPS = 255,
    TABLE_SHIFT = 20,
    BITS = 4096, /* probabilities of the table of logits */
    OPEN_MAX = 64 * SYMBOLS_TOP_MAX + 1,
};

_Static_assert(2 * CONTEXTS_MAX + REPEATS + 3 < INPUTS_MAX, "room for all inputs");

#define LOGIT_MOST 12
#define CORRECTED_MOST 7.999 /* the last point is not reached */
#define RATE 0.002
#define RATE_FIRST 0.03
#define RATE_HALF 256 /* symbols after which the additional rate is halved */
#define RATE_LAST 0.001
#define RATE_CORRECTION 0.02
#define CONSTANT 0.3
#define CELL_LEAST 1e-10 /* distance from 1 */
#define NETWORK_LEAST 1e-6
#define PROBABILITY_LEAST (1.0 / 65536)
#define WEIGHT_MOST 1e7 /* larger weights do not change in float */

/* A cache line: the counters of up to ten nodes of a context and a group of decisions. */
struct bucket {
    uint16_t check[SLOTS], p[SLOTS];
    uint8_t count[SLOTS], history[SLOTS]; /* count 0: the slot is free */
    uint32_t replaced;
};

_Static_assert(sizeof(struct bucket) == 64, "a cache line");

/* A probability with the number of its steps, which is an integer. */
struct estimate {
    double p, steps;
};

/* What followed the same symbols the last time; run 0: nothing yet. */
struct repeat {
    uint16_t check, symbol;
    uint32_t run;
};

/* All that is learned besides the table and the repeats. */
struct maps {
    struct estimate contexts[CONTEXTS_MAX][MAPS], repeats[REPEATS][RUNS][SURE], frequencies[NODES];
};

struct mixer {
    real weights[SETS][ROWS][INPUTS_MAX], last[ROWS][SETS];
};

typedef real corrections[2 * CELLS * POINTS]; /* of nodes; of nodes and the newest symbol */

struct header {
    uint64_t bytes, symbols, memory, experts, mixers, network; /* options */
    uint64_t seen, learned, used, replaced;
};

/* A decision between the lower and the upper half of the ids low..high - 1. */
struct node {
    uint32_t path; /* the decisions so far, after a leading 1 */
    uint32_t depth, low, high;
};

struct open_node {
    struct node node;
    double probability;
};

struct symbols {
    struct symbols_options options;
    struct contexts contexts;
    struct header header;
    bool flat;       /* code; otherwise classes of ids come first */
    uint32_t levels; /* decisions of a flat code */
    size_t inputs, lanes, mixers;
    struct bucket *table;
    struct repeat *repeats; /* (REPEATS, entries) */
    size_t entries;
    unsigned repeat_shift; /* of a hash to an entry */
    struct maps *maps;
    struct mixer *mixer;      /* (mixers,): all inputs; experts alone */
    corrections *corrections; /* (mixers,) */

    struct open_node *open; /* (OPEN_MAX,) */

    real logits[BITS];
    uint8_t level[BITS];            /* of a logit, for the maps */
    int32_t rates[SHORT_STEPS + 1]; /* of counters, in 1/65536 */

    /* Of the symbol in work */
    const struct symbols_place *place;
    uint64_t hash[CONTEXTS_MAX], group_hash[CONTEXTS_MAX];
    uint32_t group; /* the group of the latter */
    uint32_t expected[REPEATS], sure[REPEATS];
    bool with_network;
    double *sums; /* (symbols + 1,) of the network's distribution before each symbol */
    real rate;
};

/* All that a decision consists of, for learning. */
struct decision {
    struct bucket *bucket[CONTEXTS_MAX];
    struct estimate *map[CONTEXTS_MAX]; /* NULL: the node is unknown in this context */
    int slot[CONTEXTS_MAX];             /* -1 then */
    uint16_t check[CONTEXTS_MAX];
    struct estimate *repeat[REPEATS], *frequency; /* NULL: this repeat expects another node */
    bool upper[REPEATS];
    size_t mixers;
    struct mixed {
        real x[INPUTS_MAX], *weights[SETS], *last, *cell[2];
        real z[SETS];
        double mean, probability; /* of the upper half, before and after the correction */
    } mixed[MIXERS];
};

/* ---- Numbers ---- */

static real squash(real z) {
    return 1 / (1 + exp(-z));
}

static real within(real x, real least, real most) {
    return x < least ? least : x > most ? most : x;
}

static real logit(const struct symbols *s, double p) {
    return s->logits[(int)(p * BITS)];
}

static void estimate_learn(struct estimate *e, bool y, double most) {
    double p = e->p + (y - e->p) * (1 / (e->steps + 1.5));
    e->p = fmin(fmax(p, 1.0 / BITS), 1 - 1.0 / BITS);
    if (e->steps < most)
        e->steps++;
}

/* z (SETS,) of weights and inputs. */
VECTOR_BODY void multiply_body(real *const *weights, const real *x, size_t lanes, real *z) {
    for (size_t k = 0; k < SETS; k++) {
        const real *w = weights[k];
        real sum[VECTOR_LANES] = {0};
        for (size_t i = 0; i < lanes; i += VECTOR_LANES)
#pragma omp simd
            for (size_t n = 0; n < VECTOR_LANES; n++)
                sum[n] += w[i + n] * x[i + n];
        z[k] = ((sum[0] + sum[1]) + (sum[2] + sum[3])) + ((sum[4] + sum[5]) + (sum[6] + sum[7]));
    }
}
VECTOR_CLONES(multiply, (real *const *weights, const real *x, size_t lanes, real *z),
              (weights, x, lanes, z))

/* Adds errors (SETS,) times inputs to the weights. */
VECTOR_BODY void adjust_body(real *const *weights, const real *x, size_t lanes,
                             const real *errors) {
    for (size_t k = 0; k < SETS; k++) {
        real *restrict w = weights[k], e = errors[k];
#pragma omp simd
        for (size_t i = 0; i < lanes; i++)
            w[i] += e * x[i];
    }
}
VECTOR_CLONES(adjust, (real *const *weights, const real *x, size_t lanes, const real *errors),
              (weights, x, lanes, errors))

/* ---- The tree of decisions ---- */

static struct node root(const struct symbols *s) {
    return (struct node){1, 0, 0, s->flat ? 1u << s->levels : SYMBOLS_MAX};
}

/* Four decisions select e = floor(log2(id + 1)), and e decisions one of its 2^e ids: small ids have
   short paths, and more symbols do not change the tree. */
static uint32_t middle(const struct symbols *s, const struct node *n) {
    if (s->flat || n->depth >= GROUP)
        return (n->low + n->high) / 2;
    uint32_t e = (n->path << (GROUP - n->depth)) - (1u << GROUP) + (1u << (GROUP - 1 - n->depth));
    return (1u << e) - 1;
}

static bool is_leaf(const struct symbols *s, const struct node *n) {
    return n->high - n->low == 1 && (s->flat || n->depth >= GROUP);
}

static struct node child(const struct node *n, bool upper, uint32_t half) {
    return (struct node){2 * n->path + upper, n->depth + 1, upper ? half : n->low,
                         upper ? n->high : half};
}

/* ---- Inputs ---- */

static struct repeat *repeat_at(const struct symbols *s, size_t r, uint16_t *check) {
    uint64_t hash = place_hash(s->place->rolling[r], r);
    *check = (uint16_t)hash;
    return &s->repeats[r * s->entries + (hash >> s->repeat_shift)];
}

/* Prepares the decisions on the next symbol. */
static void begin(struct symbols *s, const struct symbols_place *place, const float *network) {
    s->place = place;
    s->group = 0;
    s->rate = (real)(RATE + RATE_FIRST / (1 + (double)s->header.learned / RATE_HALF));
    contexts_hash(&s->contexts, place, s->hash);
    for (size_t r = 0; r < REPEATS; r++) {
        uint16_t check;
        const struct repeat *e = repeat_at(s, r, &check);
        bool known = e->check == check && e->run && place->steps >= s->contexts.repeats[r].length &&
                     s->options.experts & 1u << SYMBOLS_repeat;
        s->expected[r] = known ? e->symbol : SYMBOL_NONE;
        s->sure[r] = e->run < SURE ? e->run : SURE - 1;
    }
    s->with_network = s->options.network && network;
    for (size_t n = 0; s->with_network && n < s->options.symbols; n++)
        s->sums[n + 1] = s->sums[n] + (double)network[n];
}

/* Finds the node's counters. Returns the highest order that has one. */
static uint32_t find_counters(struct symbols *s, const struct node *n, struct decision *d,
                              real *x) {
    uint32_t rest = n->depth % GROUP, group = n->path >> rest, found = 0;
    uint32_t number = n->path - (group << rest) + (1u << rest); /* 1..15 in its group */
    size_t mask = s->options.memory / sizeof(struct bucket) - 1;
    if (group != s->group)
        for (size_t c = 0; c < s->contexts.count; c++) {
            s->group_hash[c] = place_hash(s->hash[c], group);
            d->bucket[c] = &s->table[s->group_hash[c] >> TABLE_SHIFT & mask];
            __builtin_prefetch(d->bucket[c]);
        }
    s->group = group;
    for (size_t c = 0; c < s->contexts.count; c++) {
        const struct bucket *b = d->bucket[c];
        uint16_t check = d->check[c] = (uint16_t)(s->group_hash[c] ^ number << 12);
        uint32_t equal = 0;
        for (size_t i = 0; i < SLOTS; i++)
            equal |= (uint32_t)(b->check[i] == check && b->count[i]) << i;
        d->map[c] = NULL;
        d->slot[c] = -1;
        x[2 * c] = x[2 * c + 1] = 0;
        if (!equal)
            continue;
        int slot = d->slot[c] = __builtin_ctz(equal);
        uint32_t count = b->count[slot], p = b->p[slot] / (65536 / BITS),
                 history = b->history[slot];
        uint32_t map = count < 7 ? 1u << count | (history & ((1u << count) - 1))
                                 : 128u + s->level[p] * 8u + (count >= 30) * 4u + history % 4;
        d->map[c] = &s->maps->contexts[c][map];
        x[2 * c] = logit(s, d->map[c]->p);
        x[2 * c + 1] = s->logits[p];
        if (c < s->contexts.orders)
            found = (uint32_t)c + 1;
    }
    return found;
}

/* Adds the repeats that expect a symbol of the node. Returns a class of the last one's length. */
static uint32_t find_repeats(struct symbols *s, const struct node *n, uint32_t half,
                             struct decision *d, real *x) {
    uint32_t longest = 0;
    for (size_t r = 0; r < REPEATS; r++) {
        uint32_t symbol = s->expected[r], run = s->place->right[r];
        d->repeat[r] = NULL;
        x[r] = 0;
        if (symbol < n->low || symbol >= n->high)
            continue;
        longest = 1 + (run > 3) + (run > 15);
        run = run < 16 ? run : run < 32 ? 16 + (run - 16) / 4 : 20 + run / 32;
        d->repeat[r] = &s->maps->repeats[r][run < RUNS ? run : RUNS - 1][s->sure[r]];
        d->upper[r] = symbol >= half;
        real z = logit(s, d->repeat[r]->p);
        x[r] = d->upper[r] ? z : -z;
    }
    return longest;
}

/* ln of the odds of the halves. */
static real network_input(const struct symbols *s, const struct node *n, uint32_t half) {
    size_t symbols = s->options.symbols;
    double first = s->sums[n->low < symbols ? n->low : symbols];
    double second = s->sums[half < symbols ? half : symbols];
    double third = s->sums[n->high < symbols ? n->high : symbols];
    double z = log((third - second + NETWORK_LEAST) / (second - first + NETWORK_LEAST));
    return isfinite(z) ? (real)z : 0;
}

/* ---- Mixing ---- */

/* A cell above 1/2 is kept as its difference from 1, since the loss needs small probabilities of
   both halves. */
static double open_cell(real cell) {
    return cell < 0 ? 1 + (double)cell : (double)cell;
}

static real close_cell(double p) {
    return (real)(p > 0.5 ? fmin(p - 1, -CELL_LEAST) : p);
}

/* The rows of weights and corrections that a decision uses. */
struct gates {
    uint32_t rows[SETS], cells[2];
};

static struct gates choose(const struct symbols *s, const struct node *n, uint32_t found,
                           uint32_t longest) {
    uint32_t newest = place_back(s->place, 1), path = n->path;
    uint32_t deep = n->depth < 15 ? n->depth : 15, letters = s->place->letters;
    struct gates g = {.rows[1] = (longest * 8 + found) * 16 + deep,
                      .cells = {path % CELLS, (uint32_t)(place_hash(path, newest) % CELLS)}};
    if (s->options.bytes) {
        uint32_t kinds = place_kind(newest) * 4 + place_kind(place_back(s->place, 2));
        g.rows[0] = path * 16 + (letters < 15 ? letters : 15);
        g.rows[2] = newest % 256 * 8 + n->depth;
        g.rows[3] = path * 16 + kinds;
    } else {
        uint32_t node = path < 256 ? path : 1;
        g.rows[0] = path < ROWS ? path : (uint32_t)(place_hash(path, 7) % ROWS);
        g.rows[2] = (uint32_t)(place_hash(newest, n->depth) % ROWS);
        g.rows[3] = (uint32_t)(place_hash(found * 4 + longest, node) % ROWS);
    }
    return g;
}

static void mix(struct symbols *s, size_t number, const struct gates *gates, struct mixed *m) {
    struct mixer *mixer = &s->mixer[number];
    real z = 0;
    for (size_t k = 0; k < SETS; k++)
        m->weights[k] = mixer->weights[k][gates->rows[k]];
    m->last = mixer->last[gates->rows[1]];
    multiply(m->weights, m->x, s->lanes, m->z);
    for (size_t k = 0; k < SETS; k++) {
        m->z[k] = within(m->z[k], -LOGIT_MOST, LOGIT_MOST);
        z += m->last[k] * m->z[k];
    }
    m->mean = 1 / (1 + exp(-(double)within(z, -LOGIT_MOST, LOGIT_MOST)));
    double at = (fmin(fmax((double)z, -CORRECTED_MOST), CORRECTED_MOST) + 8) * 2;
    size_t point = (size_t)at;
    double part = at - (double)point, sum = 2 * m->mean;
    for (size_t a = 0; a < 2; a++) {
        real *cell = s->corrections[number] + (a * CELLS + gates->cells[a]) * POINTS + point;
        sum += open_cell(cell[0]) * (1 - part) + open_cell(cell[1]) * part;
        m->cell[a] = cell + (part > 0.5);
    }
    m->probability = fmin(fmax(sum / 4, PROBABILITY_LEAST), 1 - PROBABILITY_LEAST);
}

/* Computes the probability of the node's upper half, and all that learning needs. */
static void decide(struct symbols *s, const struct node *n, uint32_t half, struct decision *d) {
    real *x = d->mixed->x, *next = x + 2 * s->contexts.count;
    uint32_t found = find_counters(s, n, d, x);
    uint32_t longest = find_repeats(s, n, half, d, next);
    d->frequency = &s->maps->frequencies[n->path % NODES];
    next[REPEATS] = logit(s, d->frequency->p);
    next[REPEATS + 1] = (real)CONSTANT;
    if (s->with_network)
        next[REPEATS + 2] = network_input(s, n, half);
    struct gates gates = choose(s, n, found, longest);
    mix(s, 0, &gates, d->mixed);
    if (s->mixers == 1)
        return;
    memcpy(d->mixed[1].x, x, sizeof d->mixed->x);
    d->mixed[1].x[s->inputs - 1] = 0;
    mix(s, 1, &gates, d->mixed + 1);
}

/* ---- Learning ---- */

/* Returns the slot for another node: that with the least count. */
static int replace(struct symbols *s, struct bucket *b) {
    int least = 0;
    for (int i = 1; i < SLOTS; i++)
        if (b->count[i] < b->count[least])
            least = i;
    if (b->count[least] == 0) {
        s->header.used++;
        return least;
    }
    s->header.replaced++;
    if (++b->replaced % AGING == 0)
        for (int i = 0; i < SLOTS; i++)
            b->count[i] = (uint8_t)(b->count[i] - (b->count[i] > 1));
    return least;
}

static void learn_counters(struct symbols *s, const struct decision *d, bool y) {
    for (size_t c = 0; c < s->contexts.count; c++) {
        struct bucket *b = d->bucket[c];
        int slot = d->slot[c];
        if (d->map[c])
            estimate_learn(d->map[c], y, MAP_STEPS);
        if (slot < 0 && s->contexts.extends[c] && d->slot[c - 1] < 0)
            continue;
        if (slot < 0) {
            slot = replace(s, b);
            b->check[slot] = d->check[c];
            b->p[slot] = 32768;
            b->count[slot] = b->history[slot] = 0;
        }
        int32_t p = b->p[slot], error = (y ? 65535 : 0) - p;
        b->p[slot] = (uint16_t)(p + ((error * s->rates[b->count[slot]] + 32768) >> 16));
        b->history[slot] = (uint8_t)(b->history[slot] << 1 | y);
        if (b->count[slot] < SHORT_STEPS)
            b->count[slot]++;
    }
}

static void learn_mixed(const struct symbols *s, const struct mixed *m, bool y) {
    real errors[SETS], step = (real)((y - m->mean) * RATE_LAST);
    for (size_t k = 0; k < SETS; k++) {
        errors[k] = (y - squash(m->z[k])) * s->rate;
        m->last[k] += step * m->z[k];
    }
    adjust(m->weights, m->x, s->lanes, errors);
    for (size_t a = 0; a < 2; a++)
        *m->cell[a] =
            close_cell(open_cell(*m->cell[a]) * (1 - RATE_CORRECTION) + y * RATE_CORRECTION);
}

static void learn_decision(struct symbols *s, const struct decision *d, bool y) {
    for (size_t n = 0; n < s->mixers; n++)
        learn_mixed(s, &d->mixed[n], y);
    learn_counters(s, d, y);
    for (size_t r = 0; r < REPEATS; r++)
        if (d->repeat[r])
            estimate_learn(d->repeat[r], d->upper[r] == y, SHORT_STEPS);
    estimate_learn(d->frequency, y, SHORT_STEPS);
}

static void learn_repeats(struct symbols *s, struct symbols_place *place, uint32_t symbol,
                          bool learn) {
    for (size_t r = 0; r < REPEATS; r++) {
        uint16_t check;
        struct repeat *e = repeat_at(s, r, &check);
        bool right = s->expected[r] == symbol;
        place->right[r] = !right                         ? 0
                          : place->right[r] < RIGHT_MOST ? place->right[r] + 1
                                                         : RIGHT_MOST;
        if (!learn || place->steps < s->contexts.repeats[r].length)
            continue;
        if (!right)
            *e = (struct repeat){check, (uint16_t)symbol, 1};
        else if (e->run < RUN_MOST)
            e->run++;
    }
}

/* ---- A symbol ---- */

/* Adds what each kind of input contributed to a decision. */
static void add_weights(const struct symbols *s, const struct mixed *m,
                        struct symbols_weight *weights) {
    size_t contexts = s->contexts.count;
    for (size_t i = 0; i < s->inputs; i++) {
        size_t after = i - 2 * contexts; /* of the contexts' inputs */
        size_t kind = i < 2 * contexts      ? s->contexts.experts[i / 2]
                      : after < REPEATS     ? SYMBOLS_repeat
                      : after == REPEATS    ? SYMBOLS_FREQUENCIES
                      : after > REPEATS + 1 ? SYMBOLS_NETWORK
                                            : SYMBOLS_KINDS;
        for (size_t k = 0; kind < SYMBOLS_KINDS && k < SETS; k++) {
            double w = fabs((double)m->weights[k][i]);
            weights[kind].weight += w;
            weights[kind].share += w * fabs((double)m->x[i]);
        }
    }
}

/* Converts sums over decisions to means. */
static void average_weights(const struct symbols *s, size_t decisions,
                            struct symbols_weight *weights) {
    size_t inputs[SYMBOLS_KINDS] = {
        [SYMBOLS_repeat] = REPEATS, [SYMBOLS_FREQUENCIES] = 1, [SYMBOLS_NETWORK] = 1};
    double sum = 0;
    for (size_t c = 0; c < s->contexts.count; c++)
        inputs[s->contexts.experts[c]] += 2;
    for (size_t k = 0; k < SYMBOLS_KINDS; k++)
        sum += weights[k].share;
    for (size_t k = 0; k < SYMBOLS_KINDS; k++) {
        weights[k].weight /= (double)(inputs[k] * decisions * SETS) + 1e-300;
        weights[k].share /= sum + 1e-300;
    }
}

struct symbols_loss symbols_take(struct symbols *s, struct symbols_place *place, uint32_t symbol,
                                 const float *network, bool learn, struct symbols_weight *weights) {
    assert(symbol < s->options.symbols);
    double likelihood[MIXERS] = {1, 1};
    struct decision d = {.mixed[0].x = {0}};
    size_t decisions = 0;
    begin(s, place, network);
    if (learn && symbol >= s->header.seen)
        s->header.seen = symbol + 1;
    if (weights)
        memset(weights, 0, SYMBOLS_KINDS * sizeof *weights);
    for (struct node n = root(s); !is_leaf(s, &n);) {
        uint32_t half = middle(s, &n);
        bool upper = symbol >= half;
        if (half < s->header.seen || upper) { /* else the upper half has no symbol */
            decide(s, &n, half, &d);
            decisions++;
            for (size_t k = 0; k < s->mixers; k++) {
                double p = d.mixed[k].probability;
                likelihood[k] *= upper ? p : 1 - p;
            }
            if (weights)
                add_weights(s, d.mixed, weights);
            if (learn)
                learn_decision(s, &d, upper);
        }
        n = child(&n, upper, half);
    }
    if (weights)
        average_weights(s, decisions, weights);
    learn_repeats(s, place, symbol, learn);
    place_next(place, &s->contexts, symbol);
    s->header.learned += learn;
    return (struct symbols_loss){-log(likelihood[0]), -log(likelihood[s->mixers - 1])};
}

/* The most probable open node is decided next. A leaf that is the most probable of all is more
   probable than all leaves below the others. */
size_t symbols_top(struct symbols *s, const struct symbols_place *place, const float *network,
                   bool apart, struct symbols_guess *top, size_t most) {
    assert(most <= SYMBOLS_TOP_MAX);
    struct decision d = {.mixed[0].x = {0}};
    size_t found = 0, count = 1, left = 64 * most;
    struct open_node *open = s->open;
    begin(s, place, network);
    *open = (struct open_node){root(s), 1};
    while (count && found < most) {
        struct open_node *best = open;
        for (struct open_node *at = open + 1; at < open + count; at++)
            if (at->probability > best->probability)
                best = at;
        const struct node n = best->node;
        uint32_t half = middle(s, &n);
        if (is_leaf(s, &n)) {
            top[found++] = (struct symbols_guess){n.low, best->probability};
            *best = open[--count];
        } else if (half >= s->header.seen) {
            best->node = child(&n, false, half);
        } else if (left-- == 0) {
            break;
        } else {
            decide(s, &n, half, &d);
            double p = d.mixed[apart ? s->mixers - 1 : 0].probability;
            open[count++] = (struct open_node){child(&n, true, half), best->probability * p};
            *best = (struct open_node){child(&n, false, half), best->probability * (1 - p)};
        }
    }
    return found;
}

void symbols_appeared(struct symbols *s, size_t seen) {
    if (seen > s->header.seen)
        s->header.seen = seen < s->options.symbols ? seen : s->options.symbols;
}

/* ---- Memory ---- */

const char *symbols_expert_name(enum symbols_expert expert) {
    static const char *const names[] = {
#define EXPERT(name, ...) #name,
#include "experts.def"
    };
    return names[expert];
}

unsigned symbols_experts(bool bytes) {
    return bytes ? (1u << SYMBOLS_EXPERTS) - 1
                 : 1u << SYMBOLS_orders | 1u << SYMBOLS_skip | 1u << SYMBOLS_repeat;
}

/* The probability of a history alone. */
static double map_begins(uint32_t map) {
    if (map >= 128)
        return 1 / (1 + exp(8 - (map / 8 - 16 + 0.5) / 2));
    int count = map ? 31 - __builtin_clz(map) : 0;
    return count ? (__builtin_popcount(map) - 1 + 0.4) / (count + 0.8) : 0.5;
}

static void mixer_reset(const struct symbols *s, struct mixer *mixer) {
    for (size_t k = 0; k < SETS; k++)
        for (size_t row = 0; row < ROWS; row++)
            for (size_t i = 0; i < s->inputs; i++)
                mixer->weights[k][row][i] =
                    i < 2 * s->contexts.count && i % 2 ? (real)0.05 : (real)0.2;
    for (size_t row = 0; row < ROWS; row++)
        for (size_t k = 0; k < SETS; k++)
            mixer->last[row][k] = (real)1 / SETS;
}

void symbols_reset(struct symbols *s) {
    const struct symbols_options *o = &s->options;
    s->header = (struct header){.bytes = o->bytes,
                                .symbols = o->symbols,
                                .memory = o->memory,
                                .experts = o->experts,
                                .mixers = s->mixers,
                                .network = o->network,
                                .seen = o->seen ? o->seen : o->symbols};
    memset(s->table, 0, o->memory);
    memset(s->repeats, 0, REPEATS * s->entries * sizeof *s->repeats);
    for (size_t c = 0; c < CONTEXTS_MAX; c++)
        for (uint32_t n = 0; n < MAPS; n++)
            s->maps->contexts[c][n] = (struct estimate){map_begins(n), 0};
    for (size_t r = 0; r < REPEATS; r++)
        for (size_t n = 0; n < RUNS * SURE; n++)
            s->maps->repeats[r][n / SURE][n % SURE] =
                (struct estimate){((double)(n / SURE) + 1) / ((double)(n / SURE) + 2), 0};
    for (size_t n = 0; n < NODES; n++)
        s->maps->frequencies[n] = (struct estimate){0.5, 0};
    memset(s->mixer, 0, s->mixers * sizeof *s->mixer);
    for (size_t m = 0; m < s->mixers; m++) {
        mixer_reset(s, &s->mixer[m]);
        for (size_t n = 0; n < 2 * CELLS * POINTS; n++)
            s->corrections[m][n] = close_cell(1 / (1 + exp((16.0 - (double)(n % POINTS)) / 2)));
    }
}

/* Zeroed, at an address for huge pages, without which most look-ups miss the TLB. */
static void *table_open(size_t size) {
    enum { HUGE = 1 << 21 };
    void *table = aligned_alloc(size < HUGE ? sizeof(struct bucket) : HUGE, size);
    if (table && size >= HUGE)
        madvise(table, size, MADV_HUGEPAGE);
    return table;
}

static bool is_power(size_t n) {
    return n && !(n & (n - 1));
}

int symbols_open(struct symbols **symbols, const struct symbols_options *options,
                 struct error *error) {
    assert(options->symbols >= 2 && options->symbols <= SYMBOLS_MAX);
    assert(options->bytes ? options->symbols == 256 : true);
    assert(is_power(options->memory) && options->memory >= SYMBOLS_MEMORY_LEAST);
    struct symbols *s = *symbols = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(error);
    s->options = *options;
    s->options.experts &= symbols_experts(options->bytes);
    contexts_open(&s->contexts, &s->options);
    s->flat = options->bytes || options->symbols <= SYMBOLS_FEW;
    for (s->levels = 1; 1u << s->levels < options->symbols;)
        s->levels++;
    s->inputs = 2 * s->contexts.count + REPEATS + 2 + options->network;
    s->lanes = vector_pad(s->inputs);
    s->mixers = options->network && options->apart ? 2 : 1;
    s->entries = options->memory / 256;
    s->repeat_shift = 64 - (unsigned)__builtin_ctzl(s->entries);
    s->table = table_open(options->memory);
    s->repeats = malloc(REPEATS * s->entries * sizeof *s->repeats);
    s->maps = malloc(sizeof *s->maps);
    s->mixer = aligned_alloc(sizeof(struct bucket), s->mixers * sizeof *s->mixer);
    s->corrections = malloc(s->mixers * sizeof *s->corrections);
    s->sums = calloc(options->symbols + 1, sizeof *s->sums);
    s->open = malloc(OPEN_MAX * sizeof *s->open);
    if (!s->table || !s->repeats || !s->maps || !s->mixer || !s->corrections || !s->sums ||
        !s->open)
        return error_no_memory(error);
    for (size_t n = 0; n < BITS; n++) {
        double p = ((double)n + 0.5) / BITS, z = log(p / (1 - p));
        s->logits[n] = (real)z;
        s->level[n] = (uint8_t)fmin(fmax((z + 8) * 2, 0), 31);
    }
    for (int n = 0; n <= SHORT_STEPS; n++)
        s->rates[n] = (int32_t)(65536 / (n + 1.5));
    symbols_reset(s);
    return 0;
}

void symbols_close(struct symbols **symbols) {
    struct symbols *s = *symbols;
    if (!s)
        return;
    free(s->table);
    free(s->repeats);
    free(s->maps);
    free(s->mixer);
    free(s->corrections);
    free(s->sums);
    free(s->open);
    free(s);
    *symbols = NULL;
}

struct symbols_usage symbols_usage(const struct symbols *s) {
    return (struct symbols_usage){
        .used =
            (double)s->header.used / (double)(s->options.memory / sizeof(struct bucket) * SLOTS),
        .replaced = s->header.replaced,
        .learned = s->header.learned,
        .seen = s->header.seen,
    };
}

/* ---- Checkpoints ---- */

struct symbols_array symbols_array(struct symbols *s, enum symbols_part part) {
    switch (part) {
    case SYMBOLS_SEEN:
        return (struct symbols_array){"seen", false, &s->header,
                                      sizeof s->header / sizeof(uint64_t)};
    case SYMBOLS_TABLE:
        return (struct symbols_array){"table", false, s->table,
                                      s->options.memory / sizeof(uint64_t)};
    case SYMBOLS_REPEATS:
        return (struct symbols_array){"repeats", false, s->repeats, REPEATS * s->entries};
    case SYMBOLS_MAPS:
        return (struct symbols_array){"maps", true, s->maps, sizeof *s->maps / sizeof(real)};
    case SYMBOLS_MIXERS:
        return (struct symbols_array){"mixers", true, s->mixer,
                                      s->mixers * sizeof *s->mixer / sizeof(real)};
    default:
        return (struct symbols_array){"correction", true, s->corrections,
                                      s->mixers * sizeof *s->corrections / sizeof(real)};
    }
}

static bool estimates_valid(const struct estimate *e, size_t count, double most) {
    bool valid = true;
    for (size_t n = 0; n < count; n++)
        valid &= e[n].p >= 1.0 / BITS && e[n].p <= 1 - 1.0 / BITS && e[n].steps >= 0 &&
                 e[n].steps <= most && e[n].steps == floor(e[n].steps);
    return valid;
}

static bool reals_valid(const real *numbers, size_t count, real least, real most) {
    bool valid = true;
    for (size_t n = 0; n < count; n++)
        valid &= numbers[n] >= least && numbers[n] <= most;
    return valid;
}

/* Any numbers of the table and of repeats are valid. */
bool symbols_valid(const struct symbols *s) {
    const struct header *h = &s->header;
    const struct symbols_options *o = &s->options;
    return h->bytes == o->bytes && h->symbols == o->symbols && h->memory == o->memory &&
           h->experts == o->experts && h->mixers == s->mixers && h->network == o->network &&
           h->seen >= 1 && h->seen <= o->symbols &&
           h->used <= o->memory / sizeof(struct bucket) * SLOTS &&
           estimates_valid(*s->maps->contexts, CONTEXTS_MAX * MAPS, MAP_STEPS) &&
           estimates_valid(**s->maps->repeats, REPEATS * RUNS * SURE + NODES, SHORT_STEPS) &&
           reals_valid(**s->mixer->weights, s->mixers * sizeof *s->mixer / sizeof(real),
                       -WEIGHT_MOST, WEIGHT_MOST) &&
           reals_valid(*s->corrections, s->mixers * sizeof *s->corrections / sizeof(real), -1, 1);
}

bool symbols_place_valid(const struct symbols_place *place) {
    return place->fields < SYMBOLS_FIELDS;
}
