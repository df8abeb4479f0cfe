#include "symbols.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <tgmath.h>

#include "kneser.h"

typedef symbols_real real;

enum { ORDERS = 6, CONTEXTS_MAX = 12, FEW = 16, INPUTS_MAX = 40, MIXERS = 2 };
enum { TABLES = 2, POSITION = TABLES, REPEATS }; /* two repeats have a table, one a position */
enum { NEWEST = 64, FIELDS = 32, LETTERS = 15, RIGHT_MOST = 1000 };
enum { SLOTS = SYMBOLS_SLOTS, AGING = 16, COUNT_MOST = 255, MAP_MOST = 1000, RUN_MOST = 255 };
enum { MAPS = 384, EXACT = 7, LEVELS = 128, RUNS = 32, SURE = 4, BITS = 4096, ONE = 65536 };
enum { SETS = 4, ROWS = 4096, CELLS = 1 << 14, POINTS = 33, LANES = 4, GROUP = 4 };
enum { OPEN_MAX = 64 * SYMBOLS_TOP_MAX + 1, HUGE_PAGE = 1 << 21, LINE = SYMBOLS_LINE };

_Static_assert(2 * CONTEXTS_MAX + REPEATS + 3 + SYMBOLS_NETWORKS_MAX <= INPUTS_MAX, "all inputs");

#define RATE 0.002
#define RATE_FIRST 0.03 /* in addition; half of it after 256 symbols */
#define RATE_LAST 0.001
#define RATE_CORRECTION 0.02
#define LOGIT_MOST 12
#define NETWORK_LEAST 1e-6
#define CELL_LEAST 1e-10
#define WEIGHT_MOST 1e7 /* float weights of that size do not change */
#define GOLDEN 0x9E3779B97F4A7C15u

/* The experts `position` and `kneser`, and the last context of symbols other than bytes, begin when
   so many symbols have been learned: earlier streams, such as the cases of the specification, are
   too short for them and have the losses of the other experts. */
enum { LATE = 4096, MISSED_MOST = 8, NUMBERS = (1 << 24) - 1, HISTORY_MOST = 1 << 20 };

typedef real vector __attribute__((vector_size(LANES * sizeof(real)), may_alias));

/* A cache line: counters of a context, of up to ten nodes of a group of four decisions. */
struct bucket {
    uint16_t check[SLOTS], p[SLOTS];
    uint8_t count[SLOTS], history[SLOTS];
    uint32_t replaced;
};

_Static_assert(sizeof(struct bucket) == LINE, "a cache line");

struct repeat {
    uint16_t check, symbol;
    uint32_t run : 8, number : 24; /* how often in a row that symbol followed; in the history */
};

/* A symbol of the history of all streams. */
struct past {
    uint16_t symbol, next; /* the distance to the stream's next symbol, 0 = unknown */
};

/* The steps are an integer. */
struct estimate {
    double p, steps;
};

/* Between the lower and the upper half of the symbols low..high - 1. */
struct node {
    uint32_t path, depth, low, high; /* the decisions so far follow a leading 1 */
};

struct symbols {
    struct symbols_options options;
    struct symbols_header header;
    struct symbols_array arrays[SYMBOLS_ARRAYS];
    struct bucket *table;
    struct repeat *repeats; /* (TABLES, 1 << repeat_bits) */
    struct estimate *maps;  /* (contexts, MAPS), (REPEATS, RUNS, SURE), (nodes,) */
    struct kneser kneser;
    struct past *history; /* (history_size,): symbol n is at n % history_size */
    struct mixer {
        vector *weights;     /* (SETS, ROWS, vectors) */
        real *last, *points; /* (ROWS, SETS), (2, CELLS, POINTS) */
    } mixer[MIXERS];
    size_t contexts, counted, orders, nodes, inputs, vectors, mixers, history_size;
    bool with_kneser, late, waits;
    unsigned chosen; /* rows of CONTEXT */
    bool flat, few, extends[CONTEXTS_MAX];
    uint8_t kinds[INPUTS_MAX]; /* of inputs */
    unsigned levels, repeat_bits;
    uint32_t length[TABLES]; /* symbols that a repeat compares */
    uint64_t power[TABLES];
    real logits[BITS];
    uint8_t level[BITS];
    int32_t rates[COUNT_MOST + 1];

    /* Of the symbol in work. */
    const struct symbols_place *place;
    uint64_t hash[CONTEXTS_MAX], group_hash[CONTEXTS_MAX];
    uint32_t group, expected[REPEATS], sure[REPEATS], right[REPEATS];
    uint16_t check[TABLES];
    struct repeat *repeat[TABLES];
    struct symbols_follow follow;
    const float *network;
    double *sums; /* (networks, symbols + 1) of the probabilities before each symbol */
    real rate;
    struct open_node {
        struct node node;
        double p;
    } open[OPEN_MAX];
};

/* A decision with all that learning needs. NULL and -1: unknown. */
struct decision {
    struct bucket *bucket[CONTEXTS_MAX];
    struct estimate *map[CONTEXTS_MAX], *repeat[REPEATS], *frequency;
    int slot[CONTEXTS_MAX];
    uint16_t check[CONTEXTS_MAX];
    bool upper[REPEATS];
    struct mixed {
        vector x[INPUTS_MAX / LANES], *weights[SETS];
        real z[SETS], *last, *point[2];
        double before, p; /* probability of the upper half before and after the correction */
    } mixed[MIXERS];
};

static bool has(const struct symbols *s, unsigned expert) {
    return s->options.experts >> expert & 1;
}

/* ---- Arithmetic ---- */

/* Places in the table and in checkpoints depend on every bit. */
static uint64_t hash(uint64_t a, uint64_t b) {
    uint64_t h =
        (a + GOLDEN) * 0xBF58476D1CE4E5B9u ^ (b + 0x7F4A7C15F39CC060u) * 0x94D049BB133111EBu;
    h = (h ^ h >> 31) * 0xD6E8FEB86659FD93u;
    return h ^ h >> 29;
}

static double squash(double z) {
    return 1 / (1 + exp(-z));
}

static double within(double x, double least, double most) {
    return x < least ? least : x > most ? most : x;
}

static void estimate_learn(struct estimate *e, bool y, double most) {
    e->p = within(e->p + (y - e->p) * (1 / (e->steps + 1.5)), 1.0 / BITS, 1 - 1.0 / BITS);
    e->steps += e->steps < most;
}

/* A point above 1/2 is stored less 1: a loss needs small probabilities of both halves. */
static double point_open(real point) {
    return point < 0 ? 1 + (double)point : (double)point;
}

static real point_close(double p) {
    return (real)(p > 0.5 ? fmin(p - 1, -CELL_LEAST) : fmax(p, CELL_LEAST));
}

/* ---- The tree ---- */

static struct node root(const struct symbols *s) {
    return (struct node){1, 0, 0, s->flat ? 1u << s->levels : SYMBOLS_MAX};
}

/* Returns the first symbol of the upper half; 0 at a leaf. Unless the code is flat, four decisions
   select e = floor(log2(symbol + 1)), and e more the symbol: the first symbols have short paths,
   and a vocabulary grows without changing them. */
static uint32_t middle(const struct symbols *s, const struct node *n) {
    if (s->flat || n->depth >= GROUP)
        return n->high - n->low == 1 ? 0 : (n->low + n->high) / 2;
    uint32_t e = (n->path << (GROUP - n->depth)) - (1u << GROUP) + (1u << (GROUP - 1 - n->depth));
    return (1u << e) - 1;
}

static struct node child(const struct node *n, bool upper, uint32_t half) {
    return (struct node){2 * n->path + upper, n->depth + 1, upper ? half : n->low,
                         upper ? n->high : half};
}

/* ---- The place ---- */

static uint32_t back(const struct symbols_place *p, uint32_t n) {
    return p->steps >= n ? p->newest[(p->steps - n) % NEWEST] : UINT32_MAX;
}

/* Letter, space, digit, other. */
static uint32_t kind_of(uint32_t c) {
    return (c | 32) >= 'a' && (c | 32) <= 'z' ? 0 : c <= ' ' ? 1 : c >= '0' && c <= '9' ? 2 : 3;
}

static void move_text(struct symbols_place *p, uint32_t byte) {
    bool capital = byte >= 'A' && byte <= 'Z', small = byte >= 'a' && byte <= 'z';
    uint32_t letter = capital ? byte | 32 : small || byte > 127 ? byte : 0;
    p->letters = !letter ? 0 : p->letters < LETTERS ? p->letters + 1 : LETTERS;
    if (letter) {
        p->word = hash(p->word, letter);
    } else if (p->word) {
        p->word_before = p->word;
        p->word = 0;
    }
    if (byte && strchr("\n \t,:/", (int)byte)) {
        p->line[p->fields] = p->field;
        p->fields = byte == '\n' ? 0 : p->fields < FIELDS - 1 ? p->fields + 1 : p->fields;
        p->field = 0;
    } else {
        p->field = hash(p->field, byte);
    }
}

static struct past *past_at(const struct symbols *s, uint64_t number) {
    return &s->history[number & (s->history_size - 1)];
}

/* Appends the symbol to the history, and moves in the passage that the stream repeats. */
static void follow(struct symbols *s, struct symbols_place *p, uint32_t symbol, bool learn) {
    uint32_t number = s->header.learned & NUMBERS, distance = (number - p->written) & NUMBERS;
    struct past *before = past_at(s, p->written), *expected = past_at(s, s->follow.number);
    bool right = expected->symbol == symbol;
    if (learn && p->written && distance < s->history_size && distance <= UINT16_MAX &&
        before->symbol == back(p, 1))
        before->next = (uint16_t)distance;
    if (learn)
        *past_at(s, number) = (struct past){(uint16_t)symbol, 0};
    p->written = learn ? number : 0;
    p->follow = s->follow;
    p->follow.right = !right ? 0 : p->follow.right < RIGHT_MOST ? p->follow.right + 1 : RIGHT_MOST;
    p->follow.missed = (p->follow.missed << 1 | !right) & UINT16_MAX;
    p->follow.number = (p->follow.number + expected->next) & NUMBERS;
    if (!s->follow.number || !expected->next || __builtin_popcount(p->follow.missed) > MISSED_MOST)
        p->follow = (struct symbols_follow){0};
}

/* The symbol follows; with `learn`, repeats expect it. */
static void move(struct symbols *s, struct symbols_place *p, uint32_t symbol, bool learn) {
    for (size_t r = 0; r < TABLES; r++) {
        bool right = s->expected[r] == symbol, full = p->steps >= s->length[r];
        p->right[r] = !right ? 0 : p->right[r] < RIGHT_MOST ? p->right[r] + 1 : RIGHT_MOST;
        uint32_t run = right ? s->repeat[r]->run : 0;
        if (learn && full)
            *s->repeat[r] =
                (struct repeat){s->check[r], (uint16_t)symbol, (uint8_t)(run + (run < RUN_MOST)),
                                s->header.learned & NUMBERS};
        uint64_t leaves = full ? (uint64_t)back(p, s->length[r]) + 1 : 0;
        p->rolling[r] = p->rolling[r] * GOLDEN + symbol + 1 - leaves * s->power[r];
    }
    if (s->options.bytes)
        move_text(p, symbol);
    follow(s, p, symbol, learn);
    p->newest[p->steps++ % NEWEST] = symbol;
}

/* Computes the contexts of the next symbol, and what repeats expect. */
static void begin(struct symbols *s, const struct symbols_place *p, const float *network) {
    uint64_t h = 0, *next = s->hash;
    for (uint32_t n = 1, at = 0; n <= s->orders; n++) {
        for (int i = 0; i <= s->few; i++)
            h = hash(h, back(p, ++at));
        *next++ = hash(h, n);
    }
    unsigned row = 0;
#define CONTEXT(expert, bytes, extends, value)                                                     \
    if (s->chosen & 1u << row++)                                                                   \
        *next++ = value;
#include "experts.def"
    struct symbols_follow *f = &s->follow;
    *f = p->follow;
    for (size_t r = 0; r < TABLES; r++) {
        uint64_t key = hash(p->rolling[r], r);
        const struct repeat *e = s->repeat[r] =
            &s->repeats[r << s->repeat_bits | key >> (64 - s->repeat_bits)];
        s->check[r] = (uint16_t)key;
        bool known = e->check == s->check[r] && e->run && p->steps >= s->length[r];
        s->expected[r] = known && has(s, SYMBOLS_repeat) ? e->symbol : UINT32_MAX;
        s->sure[r] = e->run < SURE ? e->run : SURE - 1;
        s->right[r] = p->right[r];
        if (known && (r > 0 || s->flat) && (!f->number || f->right < s->length[r]) &&
            past_at(s, e->number)->symbol == e->symbol)
            *f = (struct symbols_follow){e->number, s->length[r], 0};
    }
    bool early = s->header.learned < LATE;
    s->counted = s->contexts - (early && s->waits);
    s->late = !early || !has(s, SYMBOLS_LATE);
    if (s->with_kneser)
        kneser_begin(&s->kneser, hash(hash(back(p, 1), back(p, 2)), 201), back(p, 1),
                     s->header.seen);
    int missed = __builtin_popcount(f->missed);
    s->expected[POSITION] = s->late && has(s, SYMBOLS_position) && f->number
                                ? past_at(s, f->number)->symbol
                                : UINT32_MAX;
    s->sure[POSITION] = (missed > 0) + (missed > 2) + (missed > 5);
    s->right[POSITION] = f->right;
    s->network = s->options.network ? network : NULL;
    double *sums = s->sums;
    for (size_t m = 0; s->network && m < s->options.network; m++, sums++)
        for (size_t n = 0; n < s->options.symbols; n++, sums++)
            sums[1] = sums[0] + (double)*network++;
    s->rate = (real)(RATE + RATE_FIRST / (1 + (double)s->header.learned / 256));
    s->place = p;
    s->group = 0;
}

/* ---- Inputs ---- */

static struct bucket *bucket_at(const struct symbols *s, uint64_t key) {
    return &s->table[key >> 20 & (s->options.memory / LINE - 1)];
}

/* Finds the counters of the node. Returns the highest order with one. */
static uint32_t find_counters(struct symbols *s, const struct node *n, struct decision *d,
                              real *x) {
    uint32_t rest = n->depth % GROUP, group = n->path >> rest, found = 0;
    uint32_t number = n->path - (group << rest) + (1u << rest); /* 1..15 in the group */
    for (size_t c = 0; c < s->counted && group != s->group; c++) {
        s->group_hash[c] = hash(s->hash[c], group);
        d->bucket[c] = bucket_at(s, s->group_hash[c]);
        __builtin_prefetch(d->bucket[c]);
    }
    s->group = group;
    for (size_t c = 0; c < s->counted; c++) {
        const struct bucket *b = d->bucket[c];
        uint32_t equal = 0, map;
        d->check[c] = (uint16_t)(s->group_hash[c] ^ number << 12);
        for (size_t i = 0; i < SLOTS; i++)
            equal |= (uint32_t)(b->check[i] == d->check[c]) << i;
        equal &= equal && b->count[__builtin_ctz(equal)] ? equal : 0; /* a free slot has no check */
        d->slot[c] = equal ? __builtin_ctz(equal) : -1;
        d->map[c] = NULL;
        x[2 * c] = x[2 * c + 1] = 0;
        if (!equal)
            continue;
        uint32_t count = b->count[d->slot[c]], p = b->p[d->slot[c]] / (ONE / BITS);
        uint32_t history = b->history[d->slot[c]];
        if (count < EXACT)
            map = 1u << count | (history & ((1u << count) - 1));
        else
            map = LEVELS + s->level[p] * 8u + (count >= 30) * 4u + history % 4;
        d->map[c] = &s->maps[c * MAPS + map];
        x[2 * c] = s->logits[(int)(d->map[c]->p * BITS)];
        x[2 * c + 1] = s->logits[p];
        if (c < s->orders)
            found = (uint32_t)c + 1;
    }
    return found;
}

/* Finds the repeats that expect a symbol of the node. Returns a class of the length of
   those with a table. */
static uint32_t find_repeats(struct symbols *s, const struct node *n, uint32_t half,
                             struct decision *d, real *x) {
    uint32_t longest = 0;
    for (size_t r = 0; r < REPEATS; r++) {
        uint32_t symbol = s->expected[r], run = s->right[r];
        d->repeat[r] = NULL;
        x[r] = 0;
        if (symbol < n->low || symbol >= n->high)
            continue;
        if (r != POSITION)
            longest = 1 + (run > 3) + (run > 15);
        run = run < 16 ? run : run < 32 ? 16 + (run - 16) / 4 : 20 + run / 32;
        run = (uint32_t)r * RUNS + (run < RUNS ? run : RUNS - 1);
        d->repeat[r] = &s->maps[s->contexts * MAPS + run * SURE + s->sure[r]];
        d->upper[r] = symbol >= half;
        x[r] = s->logits[(int)(d->repeat[r]->p * BITS)] * (real)(d->upper[r] ? 1 : -1);
    }
    return longest;
}

/* ln of the odds of halves with these probabilities. */
static real odds(double lower, double upper) {
    double z = log((upper + NETWORK_LEAST) / (lower + NETWORK_LEAST));
    return isfinite(z) ? (real)z : 0;
}

static real network_input(const struct symbols *s, const double *sums, const struct node *n,
                          uint32_t half) {
    const uint32_t edges[] = {n->low, half, n->high};
    double sum[3];
    for (size_t i = 0; i < 3; i++)
        sum[i] = sums[edges[i] < s->options.symbols ? edges[i] : s->options.symbols];
    return odds(sum[1] - sum[0], sum[2] - sum[1]);
}

/* ---- Mixing ---- */

/* The rows of weights and correction that a decision uses. */
struct gates {
    uint32_t rows[SETS], cells[2];
};

static struct gates choose(const struct symbols *s, const struct node *n, uint32_t found,
                           uint32_t longest) {
    uint32_t newest = back(s->place, 1), path = n->path, depth = n->depth;
    struct gates g = {.cells = {path % CELLS, (uint32_t)(hash(path, newest) % CELLS)}};
    g.rows[1] = (longest * 8 + found) * 16 + (depth < 15 ? depth : 15);
    if (s->options.bytes) {
        g.rows[0] = path * 16 + s->place->letters;
        g.rows[2] = newest % 256 * 8 + depth;
        g.rows[3] = path * 16 + kind_of(newest) * 4 + kind_of(back(s->place, 2));
    } else {
        g.rows[0] = path < ROWS ? path : (uint32_t)(hash(path, 7) % ROWS);
        g.rows[2] = (uint32_t)(hash(newest, depth) % ROWS);
        g.rows[3] = (uint32_t)(hash(found * 4 + longest, path < 256 ? path : 1) % ROWS);
    }
    return g;
}

static real *points_at(const struct symbols *s, size_t mixer, size_t a, const struct gates *g) {
    return s->mixer[mixer].points + (a * CELLS + g->cells[a]) * POINTS;
}

static vector *weights_at(const struct symbols *s, size_t mixer, size_t set, uint32_t row) {
    return s->mixer[mixer].weights + (set * ROWS + row) * s->vectors;
}

/* Fetches most of the memory that the decisions on the symbol need: after a network's step the
   caches do not have it. */
static void fetch(const struct symbols *s, uint32_t symbol) {
    uint32_t half;
    for (struct node n = root(s); (half = middle(s, &n)); n = child(&n, symbol >= half, half)) {
        const struct gates g = choose(s, &n, 0, 0);
        for (size_t c = 0; c < s->counted && n.depth % GROUP == 0; c++)
            __builtin_prefetch(bucket_at(s, hash(s->hash[c], n.path)));
        for (size_t m = 0; m < s->mixers; m++) {
            for (size_t k = 0; k < SETS; k += k ? 1 : 2)
                for (size_t i = 0; i < s->vectors; i += 4)
                    __builtin_prefetch(weights_at(s, m, k, g.rows[k]) + i);
            for (size_t i = 0; i < POINTS; i += 16)
                __builtin_prefetch(points_at(s, m, 1, &g) + i);
        }
    }
}

static void mix(struct symbols *s, size_t mixer, const struct gates *g, struct mixed *m) {
    double z = 0;
    m->last = s->mixer[mixer].last + g->rows[1] * SETS;
    for (size_t k = 0; k < SETS; k++) {
        vector a = {0}, b = {0};
        m->weights[k] = weights_at(s, mixer, k, g->rows[k]);
        for (size_t i = 0; i < s->vectors; i += 2) {
            a += m->weights[k][i] * m->x[i];
            b += m->weights[k][i + 1] * m->x[i + 1];
        }
        real sum = ((a[0] + a[1]) + (a[2] + a[3])) + ((b[0] + b[1]) + (b[2] + b[3]));
        m->z[k] = (real)within((double)sum, -LOGIT_MOST, LOGIT_MOST);
        z += (double)m->last[k] * (double)m->z[k];
    }
    m->before = squash(within(z, -LOGIT_MOST, LOGIT_MOST));
    double at = within((z + 8) * 2, 2 * (8 - 7.999), 2 * (8 + 7.999)), sum = 2 * m->before;
    double part = at - floor(at);
    for (size_t a = 0; a < 2; a++) {
        real *point = points_at(s, mixer, a, g) + (size_t)at;
        sum += point_open(point[0]) * (1 - part) + point_open(point[1]) * part;
        m->point[a] = point + (part > 0.5);
    }
    m->p = within(sum / 4, 1.0 / ONE, 1 - 1.0 / ONE);
}

/* Computes the probability of the node's upper half. */
static void decide(struct symbols *s, const struct node *n, uint32_t half, struct decision *d) {
    real *inputs = (real *)d->mixed->x, *x = inputs + 2 * s->contexts;
    uint32_t found = find_counters(s, n, d, inputs), longest = find_repeats(s, n, half, d, x);
    d->frequency = &s->maps[s->contexts * MAPS + REPEATS * RUNS * SURE + n->path % s->nodes];
    x[REPEATS] = s->logits[(int)(d->frequency->p * BITS)];
    x[REPEATS + 1] = (real)0.3;
    if (s->with_kneser && s->late) {
        double halves[2];
        kneser_halves(&s->kneser, (uint32_t[]){n->low, half, n->high}, halves);
        x[REPEATS + 2] = odds(halves[0], halves[1]);
    }
    for (size_t m = 0; s->network && m < s->options.network; m++)
        inputs[s->inputs - s->options.network + m] =
            network_input(s, s->sums + m * (s->options.symbols + 1), n, half);
    const struct gates g = choose(s, n, found, longest);
    mix(s, 0, &g, d->mixed);
    if (s->mixers == 1)
        return;
    memcpy(d->mixed[1].x, inputs, sizeof d->mixed->x);
    for (size_t m = 1; m <= s->options.network; m++)
        ((real *)d->mixed[1].x)[s->inputs - m] = 0;
    mix(s, 1, &g, d->mixed + 1);
}

/* ---- Learning ---- */

/* Returns the slot for an unknown node. The counts of those that stay fall slowly. */
static int replace(struct symbols *s, struct bucket *b) {
    int least = 0;
    for (int i = 1; i < SLOTS; i++)
        if (b->count[i] < b->count[least])
            least = i;
    s->header.used += b->count[least] == 0;
    s->header.replaced += b->count[least] > 0;
    if (b->count[least] && ++b->replaced % AGING == 0)
        for (int i = 0; i < SLOTS; i++)
            b->count[i] = b->count[i] > 1 ? b->count[i] - 1 : b->count[i];
    return least;
}

static void learn_counters(struct symbols *s, const struct decision *d, bool y) {
    for (size_t c = 0; c < s->counted; c++) {
        struct bucket *b = d->bucket[c];
        int i = d->slot[c];
        if (d->map[c])
            estimate_learn(d->map[c], y, MAP_MOST);
        if (i < 0 && s->extends[c] && d->slot[c - 1] < 0)
            continue;
        if (i < 0) {
            i = replace(s, b);
            b->check[i] = d->check[c];
            b->p[i] = ONE / 2;
            b->count[i] = b->history[i] = 0;
        }
        int32_t error = (y ? ONE - 1 : 0) - b->p[i];
        b->p[i] = (uint16_t)(b->p[i] + ((error * s->rates[b->count[i]] + ONE / 2) >> 16));
        b->history[i] = (uint8_t)(b->history[i] << 1 | y);
        if (b->count[i] < COUNT_MOST)
            b->count[i]++;
    }
}

static void learn_decision(struct symbols *s, const struct decision *d, bool y) {
    for (const struct mixed *m = d->mixed; m < d->mixed + s->mixers; m++) {
        real step = (real)((y - m->before) * RATE_LAST);
        for (size_t k = 0; k < SETS; k++) {
            real error = (y - 1 / (1 + exp(-m->z[k]))) * s->rate;
            for (size_t i = 0; i < s->vectors; i++)
                m->weights[k][i] += error * m->x[i];
            m->last[k] += step * m->z[k];
        }
        for (size_t a = 0; a < 2; a++) {
            double p = point_open(*m->point[a]);
            *m->point[a] = point_close(p + (y - p) * RATE_CORRECTION);
        }
    }
    learn_counters(s, d, y);
    for (size_t r = 0; r < REPEATS; r++)
        if (d->repeat[r])
            estimate_learn(d->repeat[r], d->upper[r] == y, RUN_MOST);
    estimate_learn(d->frequency, y, COUNT_MOST);
}

/* ---- Symbols ---- */

/* Adds |w x| of each input to its kind; returns the sum. */
static double add_shares(const struct symbols *s, const struct mixed *m, double *shares) {
    const real *x = (const real *)m->x;
    double sum = 0;
    for (size_t k = 0; k < SETS; k++)
        for (size_t i = 0; i < s->inputs; i++) {
            double share = fabs((double)((const real *)m->weights[k])[i] * (double)x[i]);
            shares[s->kinds[i]] += share;
            sum += share;
        }
    return sum;
}

struct symbols_loss symbols_take(struct symbols *s, struct symbols_place *place, uint32_t symbol,
                                 const float *network, bool learn, double *shares) {
    assert(symbol < s->options.symbols);
    struct decision d = {0};
    double likelihood[MIXERS] = {1, 1}, sum = 0;
    uint32_t half;
    begin(s, place, network);
    fetch(s, symbol);
    if (shares)
        memset(shares, 0, SYMBOLS_INPUTS * sizeof *shares);
    if (learn)
        symbols_appeared(s, symbol + 1);
    for (struct node n = root(s); (half = middle(s, &n));) {
        bool upper = symbol >= half;
        if (half < s->header.seen || upper) { /* else no symbol of the upper half has appeared */
            decide(s, &n, half, &d);
            for (size_t m = 0; m < s->mixers; m++)
                likelihood[m] *= upper ? d.mixed[m].p : 1 - d.mixed[m].p;
            if (shares)
                sum += add_shares(s, d.mixed, shares);
            if (learn)
                learn_decision(s, &d, upper);
        }
        n = child(&n, upper, half);
    }
    for (size_t n = 0; shares && sum > 0 && n < SYMBOLS_INPUTS; n++)
        shares[n] /= sum;
    move(s, place, symbol, learn);
    if (learn && s->with_kneser)
        kneser_learn(&s->kneser, symbol);
    s->header.learned += learn;
    return (struct symbols_loss){log(1 / likelihood[0]), log(1 / likelihood[s->mixers - 1])};
}

void symbols_appeared(struct symbols *s, size_t seen) {
    if (seen > s->header.seen && seen <= s->options.symbols)
        s->header.seen = seen;
}

/* Decides the most probable open node next: a leaf that is the most probable of all is more
   probable than all that is below the others. */
size_t symbols_top(struct symbols *s, const struct symbols_place *place, const float *network,
                   bool apart, struct symbols_guess *top, size_t most) {
    assert(most <= SYMBOLS_TOP_MAX);
    struct decision d = {0};
    size_t found = 0, count = 1, left = 64 * most;
    begin(s, place, network);
    s->open[0] = (struct open_node){root(s), 1};
    while (found < most && count) {
        struct open_node *best = s->open;
        for (struct open_node *at = s->open + 1; at < s->open + count; at++)
            if (at->p > best->p)
                best = at;
        const struct open_node from = *best;
        uint32_t half = middle(s, &from.node);
        if (half == 0) {
            top[found++] = (struct symbols_guess){from.node.low, from.p};
            *best = s->open[--count];
        } else if (half >= s->header.seen) {
            best->node = child(&from.node, false, half);
        } else if (left-- == 0) {
            break;
        } else {
            decide(s, &from.node, half, &d);
            double p = d.mixed[apart ? s->mixers - 1 : 0].p;
            *best = (struct open_node){child(&from.node, false, half), from.p * (1 - p)};
            s->open[count++] = (struct open_node){child(&from.node, true, half), from.p * p};
        }
    }
    return found;
}

/* ---- Opening ---- */

const char *const symbols_names[SYMBOLS_EXPERTS] = {
#define EXPERT(name, ...) #name,
#include "experts.def"
};

size_t symbols_experts(bool bytes, size_t symbols) {
    return 1u << SYMBOLS_LATE |
           (bytes ? (1u << SYMBOLS_kneser) - 1
                  : 1u << SYMBOLS_orders | 1u << SYMBOLS_skip | 1u << SYMBOLS_repeat |
                        1u << SYMBOLS_position | (unsigned)(symbols > FEW) << SYMBOLS_kneser);
}

static void open_contexts(struct symbols *s) {
    static const struct {
        uint8_t expert;
        bool bytes, extends;
    } rows[] = {
#define CONTEXT(expert, bytes, extends, ...) {SYMBOLS_##expert, bytes, extends},
#include "experts.def"
    };
    size_t experts = s->options.experts;
    s->contexts = s->orders = experts & 1u << SYMBOLS_orders ? ORDERS : 0;
    for (size_t n = 0; n < sizeof rows / sizeof *rows; n++)
        if (rows[n].bytes == s->options.bytes && experts & 1u << rows[n].expert) {
            s->chosen |= 1u << n;
            s->extends[s->contexts] = rows[n].extends && s->chosen & (1u << n) >> 1;
            s->kinds[2 * s->contexts] = s->kinds[2 * s->contexts + 1] = rows[n].expert;
            s->contexts++;
        }
    static const uint8_t others[] = {SYMBOLS_repeat,      SYMBOLS_repeat,   SYMBOLS_position,
                                     SYMBOLS_FREQUENCIES, SYMBOLS_CONSTANT, SYMBOLS_kneser};
    s->with_kneser = has(s, SYMBOLS_kneser);
    s->waits = has(s, SYMBOLS_skip) && !s->options.bytes; /* the last context */
    memcpy(s->kinds + 2 * s->contexts, others, sizeof others);
    s->inputs = 2 * s->contexts + REPEATS + 2 + s->with_kneser + s->options.network;
    memset(s->kinds + s->inputs - s->options.network, SYMBOLS_NETWORK, s->options.network);
    s->vectors = (s->inputs + 2 * LANES - 1) / (2 * LANES) * 2;
}

static void open_tables(struct symbols *s) {
    static const uint32_t lengths[][TABLES] = {{4, 12}, {16, 24}, {8, 24}};
    for (size_t r = 0; r < TABLES; r++) {
        s->length[r] = lengths[s->options.bytes ? 2 : s->few][r];
        s->power[r] = 1;
        for (uint32_t n = 0; n < s->length[r]; n++)
            s->power[r] *= GOLDEN;
    }
    for (int n = 0; n < BITS; n++) {
        double p = (n + 0.5) / BITS, z = log(p / (1 - p));
        s->logits[n] = (real)z;
        s->level[n] = (uint8_t)within((z + 8) * 2, 0, 31);
    }
    for (int n = 0; n <= COUNT_MOST; n++)
        s->rates[n] = (int32_t)(ONE / (n + 1.5));
}

int symbols_open(struct symbols **symbols, const struct symbols_options *options,
                 struct error *error) {
    assert(options->symbols >= 2 && options->symbols <= SYMBOLS_MAX);
    assert(options->network <= SYMBOLS_NETWORKS_MAX);
    assert(options->memory >= SYMBOLS_MEMORY_LEAST && !(options->memory & (options->memory - 1)));
    struct symbols *s = *symbols = calloc(1, sizeof *s);
    if (!s)
        return error_no_memory(error);
    s->options = *options;
    s->options.experts &= symbols_experts(options->bytes, options->symbols);
    s->few = options->symbols <= FEW;
    s->flat = options->bytes || s->few;
    for (s->levels = 1; 1u << s->levels < options->symbols;)
        s->levels++;
    s->repeat_bits = (unsigned)__builtin_ctzl(options->memory / 256);
    s->history_size = options->memory / 512 < HISTORY_MOST ? options->memory / 512 : HISTORY_MOST;
    s->mixers = options->network && options->apart ? MIXERS : 1;
    s->nodes = (size_t)1 << (s->flat ? s->levels : s->levels < 11 ? s->levels + 5 : 16);
    open_contexts(s);
    open_tables(s);
    const struct symbols_array arrays[SYMBOLS_ARRAYS] = {
        {"seen", 'u', sizeof s->header / sizeof(uint64_t), &s->header},
        {"table", 'u', options->memory / sizeof(uint64_t), NULL},
        {"repeats", 'u', (size_t)TABLES << s->repeat_bits, NULL},
        {"maps", 'd', 2 * (s->contexts * MAPS + REPEATS * RUNS * SURE + s->nodes), NULL},
        {"weights", 'f', SETS * ROWS * s->vectors * LANES, NULL},
        {"last", 'f', ROWS * SETS, NULL},
        {"correction", 'f', 2 * CELLS * POINTS, NULL},
        {"experts_weights", 'f', (s->mixers - 1) * SETS * ROWS * s->vectors * LANES, NULL},
        {"experts_last", 'f', (s->mixers - 1) * ROWS * SETS, NULL},
        {"experts_correction", 'f', (s->mixers - 1) * 2 * CELLS * POINTS, NULL},
        {"history", 'u', s->history_size * sizeof(struct past) / sizeof(uint64_t), NULL},
        {"kneser", 'u', s->with_kneser ? kneser_size(options->memory, options->symbols) : 0, NULL},
    };
    memcpy(s->arrays, arrays, sizeof arrays);
    for (struct symbols_array *a = s->arrays + 1; a < s->arrays + SYMBOLS_ARRAYS; a++) {
        size_t size = a->count ? a->count * (a->type == 'f' ? sizeof(real) : sizeof(uint64_t)) : 1;
        size_t page = size % HUGE_PAGE ? LINE : HUGE_PAGE;
        if (!(a->numbers = aligned_alloc(page, (size + page - 1) / page * page)))
            return symbols_close(symbols), error_no_memory(error);
        if (page == HUGE_PAGE)
            madvise(a->numbers, size, MADV_HUGEPAGE); /* each look-up needs another page */
    }
    s->table = s->arrays[1].numbers;
    s->repeats = s->arrays[2].numbers;
    s->maps = s->arrays[3].numbers;
    s->history = s->arrays[10].numbers;
    if (s->with_kneser)
        kneser_open(&s->kneser, options->memory, options->symbols, s->arrays[11].numbers);
    for (size_t m = 0; m < MIXERS; m++) {
        const struct symbols_array *of = &s->arrays[4 + 3 * m];
        s->mixer[m] = (struct mixer){of[0].numbers, of[1].numbers, of[2].numbers};
    }
    if (!(s->sums = calloc((options->symbols + 1) * (options->network + 1), sizeof *s->sums)))
        return symbols_close(symbols), error_no_memory(error);
    symbols_reset(s);
    return 0;
}

void symbols_close(struct symbols **symbols) {
    if (!*symbols)
        return;
    for (size_t n = 1; n < SYMBOLS_ARRAYS; n++)
        free((*symbols)->arrays[n].numbers);
    free((*symbols)->sums);
    free(*symbols);
    *symbols = NULL;
}

/* The probability that a history suggests by itself. */
static double map_begins(unsigned map) {
    if (map >= LEVELS)
        return squash((map / 8 - LEVELS / 8 + 0.5) / 2 - 8);
    int count = map ? 31 - __builtin_clz(map) : 0;
    return count ? (__builtin_popcount(map) - 1 + 0.4) / (count + 0.8) : 0.5;
}

void symbols_reset(struct symbols *s) {
    s->header = (struct symbols_header){.options = s->options, .seen = s->options.seen};
    s->header.options.apart = 0;
    for (const struct symbols_array *a = s->arrays + 1; a < s->arrays + SYMBOLS_ARRAYS; a++)
        if (a->type == 'u')
            memset(a->numbers, 0, a->count * sizeof(uint64_t));
    bool trusted = s->with_kneser && !has(s, SYMBOLS_LATE); /* before counts are known */
    struct estimate *e = s->maps;
    for (size_t n = 0; n < s->contexts * MAPS; n++)
        *e++ = (struct estimate){map_begins((unsigned)(n % MAPS)), 0};
    for (size_t n = 0; n < REPEATS * RUNS * SURE; n++)
        *e++ = (struct estimate){1 - 1 / (double)(n / SURE % RUNS + 2), 0};
    for (size_t n = 0; n < s->nodes; n++)
        *e++ = (struct estimate){0.5, 0};
    for (const struct mixer *m = s->mixer; m < s->mixer + s->mixers; m++) {
        for (size_t n = 0; n < s->arrays[4].count; n++) {
            size_t i = n % (s->vectors * LANES);
            bool small = i % 2 || trusted || (s->waits && i / 2 + 1 == s->contexts);
            ((real *)m->weights)[n] = (real)(i >= s->inputs                             ? 0
                                             : i < 2 * s->contexts && small             ? 0.05
                                             : s->kinds[i] == SYMBOLS_kneser && trusted ? 0.4
                                                                                        : 0.2);
        }
        for (size_t n = 0; n < s->arrays[5].count; n++)
            m->last[n] = (real)1 / SETS;
        for (size_t n = 0; n < s->arrays[6].count; n++)
            m->points[n] = point_close(squash(((double)(n % POINTS) - 16) / 2));
    }
}

/* ---- Checkpoints ---- */

const struct symbols_array *symbols_arrays(const struct symbols *s) {
    return s->arrays;
}

/* All integers but those of the header are valid. */
bool symbols_valid(const struct symbols *s) {
    const struct symbols_header *h = &s->header;
    struct symbols_options options = s->options;
    options.apart = 0;
    bool valid = !memcmp(&h->options, &options, sizeof options) && h->seen >= 1 &&
                 h->seen <= s->options.symbols;
    size_t estimates = s->arrays[3].count / 2, short_ones = s->contexts * MAPS;
    for (size_t n = 0; n < estimates; n++) {
        const struct estimate *e = &s->maps[n];
        valid &= e->p >= 1.0 / BITS && e->p <= 1 - 1.0 / BITS && e->steps == floor(e->steps) &&
                 e->steps >= 0 && e->steps <= (n < short_ones ? MAP_MOST : COUNT_MOST);
    }
    for (size_t a = 4; s->arrays[a].type == 'f'; a++) {
        const real *numbers = s->arrays[a].numbers;
        for (size_t n = 0; n < s->arrays[a].count; n++)
            valid &= fabs((double)numbers[n]) <= (a % 3 == 0 ? 1 : WEIGHT_MOST); /* points */
    }
    return valid;
}

bool symbols_place_valid(const struct symbols_place *p) {
    return p->fields < FIELDS && p->letters <= LETTERS;
}
